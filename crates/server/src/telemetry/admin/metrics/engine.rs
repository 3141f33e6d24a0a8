//! Items, memory, evictions.

use micanite_engine::Stats;

use super::super::exposition::{Exposition, Type};
use crate::shared::Server;

/// A number of the engine: name, help, where it is.
type OfEngine = (&'static str, &'static str, fn(&Stats) -> u64);

const COUNTERS: [OfEngine; 7] = [
    ("micanite_items_stored_total", "Items ever stored.", Stats::items_stored),
    ("micanite_items_expired_total", "Items removed after their expiry.", |of| of.expired),
    ("micanite_items_reinserted_total", "Items that eviction kept because they were asked for.", |of| {
        of.reinserted
    }),
    (
        "micanite_items_promoted_total",
        "Items that eviction moved from the small log to the main one.",
        |of| of.promoted,
    ),
    ("micanite_ghosts_met_total", "New items that had been evicted shortly before.", |of| of.ghosts_met),
    ("micanite_writes_refused_total", "Writes refused because there was no space.", |of| of.out_of_memory),
    ("micanite_read_retries_total", "Optimistic reads that had to be repeated.", |of| of.read_retries),
];

const GAUGES: [OfEngine; 5] = [
    ("micanite_items", "Items that can be found.", |of| of.items_live),
    (
        "micanite_expiry_lag_seconds",
        "The longest time that an item was there after its expiry, in the last sweep.",
        |of| of.expiry_lag_s,
    ),
    ("micanite_index_buckets", "Main buckets of the index.", |of| of.buckets),
    ("micanite_index_spare_buckets", "Spare buckets of the index.", |of| of.spare_buckets),
    ("micanite_index_spare_buckets_used", "Spare buckets that continue a main one.", |of| {
        of.spare_buckets_used
    }),
];

pub(super) fn write(server: &Server, to: &mut Exposition) {
    let stats = server.shared.cache.stats();
    to.family(
        "micanite_evictions_total",
        Type::Counter,
        "Live items that had to leave, by reason: the log was full, or their bucket.",
    );
    to.sample(&[("reason", &"log_full")], stats.evicted_log);
    to.sample(&[("reason", &"bucket_full")], stats.evicted_bucket);
    for (name, help, number) in COUNTERS {
        to.one(name, Type::Counter, help, number(&stats));
    }
    for (name, help, number) in GAUGES {
        to.one(name, Type::Gauge, help, number(&stats));
    }
    memory(server, &stats, to);
}

fn memory(server: &Server, stats: &Stats, to: &mut Exposition) {
    let limit_bytes = server.shared.cache.memory_limit_bytes() as u64;
    to.one(
        "micanite_memory_limit_bytes",
        Type::Gauge,
        "Memory for items, headers and index: -m, or what ctl memory or cache_memlimit have set.",
        limit_bytes,
    );
    to.one(
        "micanite_memory_used_bytes",
        Type::Gauge,
        "Memory that is in use or free for items; more than the limit while the server gives memory back.",
        server.shared.cache.memory_used_bytes() as u64,
    );
    to.family(
        "micanite_memory_bytes",
        Type::Gauge,
        "Memory by use, within the limit; rest is free, or held by what was overwritten.",
    );
    let known = stats.item_bytes_live + stats.index_bytes + stats.early_bytes;
    for (r#use, bytes) in [
        ("items", stats.item_bytes_live),
        ("index", stats.index_bytes),
        ("deleted_or_expired", stats.early_bytes),
        ("rest", limit_bytes.saturating_sub(known)),
    ] {
        to.sample(&[("use", &r#use)], bytes);
    }
}
