//! `stats`, `stats items` and `stats slabs`: the table of statistics.
//!
//! There are no slab classes here: all items are of class 1, whose chunks are the 8 bytes that items are
//! multiples of, and whose pages are the partitions.

use super::Lines;
use crate::output::Output;
use crate::shared::Server;
use crate::telemetry::table::{self, View};

/// Writes the general statistics, without the final `END`.
pub fn general(server: &Server, now_s: u32, output: &mut Output<'_>) {
    let (view, mut lines) = (View::new(server, now_s), Lines::new(output));
    for statistic in table::all().filter(|statistic| !statistic.general.is_empty()) {
        if let Some(shown) = view.shown(statistic) {
            statistic.general.iter().for_each(|name| lines.stat(name, &shown));
        }
    }
}

/// Writes `stats items`, without the final `END`; nothing while there are no items, as in memcached.
pub fn items(server: &Server, now_s: u32, output: &mut Output<'_>) {
    let (view, mut lines) = (View::new(server, now_s), Lines::new(output));
    if view.engine.items_live == 0 {
        return;
    }
    for statistic in table::all() {
        if let (Some(name), Some(shown)) = (statistic.item, view.shown(statistic)) {
            lines.stat(&format!("items:1:{name}"), shown);
        }
    }
}

/// Writes `stats slabs`, without the final `END`.
pub fn slabs(server: &Server, now_s: u32, output: &mut Output<'_>) {
    let (view, mut lines) = (View::new(server, now_s), Lines::new(output));
    for statistic in table::all() {
        if let (Some(name), Some(shown)) = (statistic.slab, view.shown(statistic)) {
            lines.stat(&format!("1:{name}"), shown);
        }
    }
    lines.stat("active_slabs", 1);
    lines.stat("total_malloced", server.shared.cache.memory_used_bytes());
}
