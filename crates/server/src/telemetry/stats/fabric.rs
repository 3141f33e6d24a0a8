//! `stats fabric`: clients over libfabric, and the cache area that they read.

use super::Lines;
use crate::output::Output;
use crate::shared::Server;

/// Writes them, without the final `END`; nothing where there is no fabric.
pub fn fabric(server: &Server, output: &mut Output<'_>) {
    let (Some(fabric), Some(settings)) = (&server.shared.fabric, &server.settings.fabric) else {
        return;
    };
    let mut lines = Lines::new(output);
    lines.stat("fabric", &settings.address);
    lines.stat("clients_max", settings.clients_max);
    lines.stat("message_bytes", settings.message_bytes);
    lines.stat("frozen_seconds", settings.frozen_s);
    lines.stat("push_ms", settings.push_ms);
    for (name, count) in fabric.totals() {
        lines.stat(name, count);
    }
    for (name, count) in fabric.requests() {
        lines.stat(name, count);
    }
    let Some(cache) = &settings.cache else {
        return;
    };
    lines.stat("cache_bytes", cache.geometry.bytes());
    lines.stat("cache_pages", cache.geometry.pages());
    lines.stat("cache_page_bytes", cache.geometry.page_bytes());
    lines.stat("cache_write", if cache.writes_back { "back" } else { "through" });
    chunks(server, |name, _, count| lines.stat(name, count));
}

/// Calls with the name of each count of the cache area, whether it only grows, and the count.
pub fn chunks(server: &Server, mut visit: impl FnMut(&'static str, bool, u64)) {
    let stats = server.shared.cache.chunk_stats();
    let (events, usage) = (stats.counters, stats.usage);
    for (name, count) in [
        ("chunks_published", events.published),
        ("chunks_killed", events.killed),
        ("chunks_evicted", events.evicted),
        ("chunks_crowded_out", events.crowded_out),
        ("chunks_given_back", events.given_back),
        ("chunks_copied_back", events.copied_back),
        ("chunks_dropped", events.dropped),
        ("items_too_long", events.too_long),
        ("items_without_chunk", events.no_space),
        ("pages_emptied", events.pages_emptied),
        ("voids", events.voids),
        ("prefetched", stats.prefetched),
        ("loads_refused", stats.loads_refused),
    ] {
        visit(name, true, count);
    }
    for (name, count) in [
        ("chunks_living", usage.living),
        ("chunks_living_bytes", usage.living_bytes),
        ("chunks_dying", usage.dying),
        ("chunks_dirty", usage.dirty),
        ("pages_free", usage.free_pages),
    ] {
        visit(name, false, count);
    }
}
