//! `stats partitions`: mode, owner and requests of each. `stats numa`: the nodes of their memory.

use super::Lines;
use crate::limits::STATS_PARTITIONS_MAX;
use crate::output::Output;
use crate::shared::{Server, Shared};

/// Room for the lines of a partition that is interleaved over hundreds of nodes.
const NUMA_LINES_BYTES: usize = 1024;

/// Writes them, without the final `END`. `micanite ctl routes` lists any number.
pub fn partitions(shared: &Shared, output: &mut Output<'_>) {
    let mut lines = Lines::new(output);
    let counts = shared.loads.now(&shared.cache);
    for partition in 0..shared.cache.layout().partitions.min(STATS_PARTITIONS_MAX) {
        let Some(route) = shared.cache.route(partition) else {
            return;
        };
        let requests: u64 = counts.iter().map(|of_worker| of_worker[partition]).sum();
        lines.stat(&format!("{partition}:mode"), route.access.name());
        lines.stat(&format!("{partition}:owner"), route.owner);
        lines.stat(&format!("{partition}:requests"), requests);
    }
}

/// Writes the NUMA nodes of their memory (`--numa`), without the final `END`, as far as there is room.
/// `micanite ctl numa` lists any number of partitions, and looks where their pages are.
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
        if lines.room() < NUMA_LINES_BYTES {
            return;
        }
        lines.stat(&format!("{partition}:node"), place.wanted());
        lines.stat(&format!("{partition}:memory"), place.state.word());
    }
}
