//! `stats fabric`: clients over libfabric, and the cache area that they read.

use micanite_engine::ChunkStats;

use super::Lines;
use crate::output::Output;
use crate::shared::Server;
use crate::telemetry::table::group::Row;

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
    let stats = server.shared.cache.chunk_stats();
    CHUNK_EVENTS.iter().chain(&CHUNK_USE).for_each(|(name, _, count)| lines.stat(name, count(&stats)));
}

/// Events of the cache area, which grow.
pub(crate) const CHUNK_EVENTS: [Row<ChunkStats>; 13] = [
    ("chunks_published", "Copies of items that were published.", |of| of.counters.published),
    ("chunks_killed", "Copies that a write has ended.", |of| of.counters.killed),
    ("chunks_evicted", "Copies that were evicted.", |of| of.counters.evicted),
    ("chunks_crowded_out", "Copies that had to leave for others of their place.", |of| {
        of.counters.crowded_out
    }),
    ("chunks_given_back", "Copies that were given back.", |of| of.counters.given_back),
    ("chunks_copied_back", "Changes that were copied back to the log.", |of| of.counters.copied_back),
    ("chunks_dropped", "Changes that were dropped, because their items had gone.", |of| of.counters.dropped),
    ("items_too_long", "Items that are too long for a copy.", |of| of.counters.too_long),
    ("items_without_chunk", "Items that found no space for a copy.", |of| of.counters.no_space),
    ("pages_emptied", "Pages of the area that were emptied.", |of| of.counters.pages_emptied),
    ("voids", "Times at which all copies of a partition were ended.", |of| of.counters.voids),
    ("prefetched", "Copies made ahead of requests.", |of| of.prefetched),
    ("loads_refused", "Copies ahead of requests that were refused.", |of| of.loads_refused),
];

/// Use of the cache area.
pub(crate) const CHUNK_USE: [Row<ChunkStats>; 5] = [
    ("chunks_living", "Copies that clients may read.", |of| of.usage.living),
    ("chunks_living_bytes", "Bytes of these.", |of| of.usage.living_bytes),
    ("chunks_dying", "Copies that have ended and whose space is not free yet.", |of| of.usage.dying),
    ("chunks_dirty", "Copies whose changes are not in the log yet.", |of| of.usage.dirty),
    ("pages_free", "Free pages of the area.", |of| of.usage.free_pages),
];
