//! `stats partitions`: mode, owner and requests of each.

use super::Lines;
use crate::limits::STATS_PARTITIONS_MAX;
use crate::output::Output;
use crate::shared::Shared;

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
