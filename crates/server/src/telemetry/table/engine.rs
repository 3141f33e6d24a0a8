//! Items, memory, evictions.

use micanite_engine::Stats;

use super::{Family, Kind, Statistic, Value, View};
use micanite_control::metrics;

const EVICTIONS: Family = Family {
    name: metrics::EVICTIONS,
    kind: Kind::Counter,
    labels: &["reason"],
    help: "Live items that had to leave, by reason: the log was full, or their bucket.",
};

const MEMORY: Family = Family {
    name: metrics::MEMORY,
    kind: Kind::Gauge,
    labels: &["use"],
    help: "Memory by use, within the limit: items that can be found, with their headers; the index; deleted \
           or expired items, as far as the sweep has seen them; the rest is free, or held by overwritten \
           items whose turn to be evicted has not come.",
};

/// Items are multiples of so many bytes.
const CHUNK_BYTES: u64 = 8;

const fn of(value: fn(&Stats) -> u64) -> Value {
    Value::Engine(value)
}

const fn counter(help: &'static str, value: fn(&Stats) -> u64) -> Statistic {
    Statistic::counter(help, of(value))
}

const fn gauge(help: &'static str, value: fn(&Stats) -> u64) -> Statistic {
    Statistic::gauge(help, of(value))
}

const fn server(help: &'static str, value: fn(&View<'_>) -> u64) -> Statistic {
    Statistic::gauge(help, Value::Server(value))
}

/// memcached's view of the memory for items: one class, whose pages are the partitions.
pub(super) const SLABS: &[Statistic] = &[
    gauge("Bytes of a unit, of which items are multiples.", |_| CHUNK_BYTES).slab("chunk_size"),
    server("Units of a partition.", |view| {
        view.engine.data_bytes / CHUNK_BYTES / view.server.shared.cache.layout().partitions as u64
    })
    .slab("chunks_per_page"),
    server("Partitions.", |view| view.server.shared.cache.layout().partitions as u64).slab("total_pages"),
    gauge("Units of all partitions.", |of| of.data_bytes / CHUNK_BYTES).slab("total_chunks"),
    gauge("Units of items that can be found.", |of| of.item_bytes_live / CHUNK_BYTES).slab("used_chunks"),
    gauge("Units that no item holds that can be found.", |of| {
        (of.data_bytes / CHUNK_BYTES).saturating_sub(of.item_bytes_live / CHUNK_BYTES)
    })
    .slab("free_chunks"),
];

pub(super) const ENGINE: &[Statistic] = &[
    server(
        "Limit in bytes of the memory for items, headers and index: -m, or what ctl memory or cache_memlimit \
         have set.",
        |view| view.memory_limit_bytes(),
    )
    .stat(&["limit_maxbytes"])
    .metric(metrics::MEMORY_LIMIT),
    server("The most bytes that the limit can be raised to while the server runs (--memory-max).", |view| {
        view.server.settings.memory_bytes_max as u64
    })
    .stat(&["limit_maxbytes_most"]),
    server(
        "Bytes of memory in use or free for items; more than the limit while the server gives memory back.",
        |view| view.server.shared.cache.memory_used_bytes() as u64,
    )
    .stat(&["total_malloced"])
    .metric("micanite_memory_used_bytes"),
    gauge("Items that can be found.", |of| of.items_live)
        .stat(&["curr_items"])
        .item("number")
        .metric(metrics::ITEMS),
    gauge("Bytes of items that can be found, with their headers.", |of| of.item_bytes_live)
        .stat(&["bytes"])
        .item("mem_requested")
        .slab("mem_requested")
        .part(&MEMORY, &[("use", "items")]),
    gauge("Bytes of the index.", |of| of.index_bytes)
        .stat(&["index_bytes", "hash_bytes"])
        .part(&MEMORY, &[("use", "index")]),
    gauge("Bytes that deleted and expired items still hold.", |of| of.early_bytes)
        .stat(&["expired_bytes"])
        .part(&MEMORY, &[("use", "deleted_or_expired")]),
    server("Memory that is free, or held by overwritten items.", |view| {
        let of = &view.engine;
        view.memory_limit_bytes().saturating_sub(of.item_bytes_live + of.index_bytes + of.early_bytes)
    })
    .part(&MEMORY, &[("use", "rest")]),
    counter("Items ever stored.", Stats::items_stored)
        .stat(&["total_items"])
        .metric("micanite_items_stored_total"),
    counter("Live items that had to leave.", |of| of.evicted_log + of.evicted_bucket)
        .stat(&["evictions"])
        .item("evicted"),
    counter("Live items that had to leave because the log was full.", |of| of.evicted_log)
        .part(&EVICTIONS, &[("reason", "log_full")]),
    counter("Live items that had to leave because their bucket was full.", |of| of.evicted_bucket)
        .stat(&["evicted_bucket_full"])
        .part(&EVICTIONS, &[("reason", "bucket_full")]),
    counter("Evicted items that nobody had asked for since they were stored.", |of| of.evicted_unfetched)
        .stat(&["evicted_unfetched"])
        .item("evicted_unfetched"),
    counter("Expired items that nobody had asked for since they were stored.", |of| of.expired_unfetched)
        .stat(&["expired_unfetched"])
        .item("expired_unfetched"),
    counter("Items removed after their expiry.", |of| of.expired)
        .stat(&["reclaimed", "items_expired"])
        .item("reclaimed")
        .metric(metrics::ITEMS_EXPIRED),
    counter("Items that eviction kept because they were asked for.", |of| of.reinserted)
        .stat(&["items_reinserted"])
        .metric("micanite_items_reinserted_total"),
    counter("Items that eviction moved from the small log to the main one.", |of| of.promoted)
        .stat(&["items_promoted"])
        .metric("micanite_items_promoted_total"),
    counter("New items that had been evicted shortly before.", |of| of.ghosts_met)
        .stat(&["ghosts_met"])
        .metric("micanite_ghosts_met_total"),
    counter("Writes of any kind that the engine refused for want of space.", |of| of.out_of_memory)
        .stat(&["out_of_memory"])
        .item("outofmemory")
        .metric("micanite_writes_refused_total"),
    counter("Optimistic reads that met a write and were repeated.", |of| of.read_retries)
        .stat(&["read_retries"])
        .metric("micanite_read_retries_total"),
    gauge(
        "The longest time that an item was there after its expiry, in the last sweep; clients never see it.",
        |of| of.expiry_lag_s,
    )
    .stat(&["expiry_lag_seconds"])
    .metric("micanite_expiry_lag_seconds"),
    gauge("Main buckets of the index.", |of| of.buckets).stat(&["buckets"]).metric("micanite_index_buckets"),
    gauge("Binary logarithm of the number of main buckets.", |of| of.buckets.max(1).ilog2().into())
        .stat(&["hash_power_level"]),
    gauge("Spare buckets of the index.", |of| of.spare_buckets)
        .stat(&["spare_buckets"])
        .metric("micanite_index_spare_buckets"),
    gauge("Spare buckets that continue a main one.", |of| of.spare_buckets_used)
        .stat(&["spare_buckets_used"])
        .metric("micanite_index_spare_buckets_used"),
    Statistic::gauge(
        "Pages of the memory: hugetlb, transparent (huge pages) or small.",
        Value::Text(|view| view.pages().to_owned()),
    )
    .stat(&["pages"]),
];
