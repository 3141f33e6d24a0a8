//! `stats items` and `stats slabs`: memcached's view of the memory for items. There are no slab
//! classes here: all items are of class 1, whose chunks are the 8 bytes that items are multiples of,
//! and whose pages are the partitions.

use super::Lines;
use crate::output::Output;
use crate::shared::Server;

/// Items are multiples of so many bytes.
const CHUNK_BYTES: u64 = 8;

/// `stats items`, without the final `END`; nothing while there are no items, as in memcached.
pub fn items(server: &Server, output: &mut Output<'_>) {
    let (now, before) = (server.shared.cache.stats(), server.baseline().engine);
    if now.items_live == 0 {
        return;
    }
    let evicted = |stats: &micanite_engine::Stats| stats.evicted_log + stats.evicted_bucket;
    let mut lines = Lines::new(output);
    for (name, number) in [
        ("number", now.items_live),
        ("mem_requested", now.item_bytes_live),
        ("evicted", evicted(&now) - evicted(&before)),
        ("evicted_unfetched", now.evicted_unfetched - before.evicted_unfetched),
        ("expired_unfetched", now.expired_unfetched - before.expired_unfetched),
        ("outofmemory", now.out_of_memory - before.out_of_memory),
        ("reclaimed", now.expired - before.expired),
    ] {
        lines.stat(&format!("items:1:{name}"), number);
    }
}

/// `stats slabs`, without the final `END`.
pub fn slabs(server: &Server, output: &mut Output<'_>) {
    let engine = server.shared.cache.stats();
    let partitions = server.shared.cache.layout().partitions as u64;
    let count = server.totals().since(&server.baseline().totals);
    let chunks = engine.data_bytes / CHUNK_BYTES;
    let used = engine.item_bytes_live / CHUNK_BYTES;
    let mut lines = Lines::new(output);
    for (name, number) in [
        ("chunk_size", CHUNK_BYTES),
        ("chunks_per_page", chunks / partitions),
        ("total_pages", partitions),
        ("total_chunks", chunks),
        ("used_chunks", used),
        ("free_chunks", chunks.saturating_sub(used)),
        ("mem_requested", engine.item_bytes_live),
        ("get_hits", count.get_hits),
        ("cmd_set", count.cmd_set),
        ("delete_hits", count.delete_hits),
        ("incr_hits", count.incr_hits),
        ("decr_hits", count.decr_hits),
        ("cas_hits", count.cas_hits),
        ("cas_badval", count.cas_badval),
        ("touch_hits", count.touch_hits),
    ] {
        lines.stat(&format!("1:{name}"), number);
    }
    lines.stat("active_slabs", 1);
    lines.stat("total_malloced", server.shared.cache.memory_used_bytes());
}
