//! `stats numa`: the memory of partitions on NUMA nodes (`--numa`).

use super::Lines;
use crate::limits::STATS_PARTITIONS_MAX;
use crate::output::Output;
use crate::shared::Server;

/// Writes it, without the final `END`. `micanite ctl numa` lists any number of partitions, and looks where
/// their pages are.
pub fn numa(server: &Server, output: &mut Output<'_>) {
    let numa = &server.numa;
    let mut lines = Lines::new(output);
    lines.stat("numa_nodes", numa.nodes());
    lines.stat("numa", if numa.is_active() { "bound" } else { "unbound" });
    if let Some(reason) = numa.reason() {
        lines.stat("numa_reason", reason);
        return;
    }
    numa.each_count(|name, count| lines.stat(&format!("numa_{name}"), count));
    for (partition, place) in numa.places().iter().take(STATS_PARTITIONS_MAX).enumerate() {
        lines.stat(&format!("{partition}:node"), place.wanted());
        lines.stat(&format!("{partition}:memory"), place.state.word());
    }
}
