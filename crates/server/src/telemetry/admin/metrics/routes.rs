//! Partitions, their owners, and balancing.

use super::super::exposition::Exposition;
use super::families;
use crate::limits::STATS_PARTITIONS_MAX;
use crate::shared::Server;

/// `/directory` lists any number of partitions; samples of single ones are bounded.
pub(super) fn write(server: &Server, to: &mut Exposition) {
    let cache = &server.shared.cache;
    let partitions = cache.layout().partitions;
    let owners = (0..partitions).filter_map(|partition| cache.route(partition));
    let mut owned = vec![0; server.settings.threads];
    owners.for_each(|route| owned[route.owner] += 1);
    to.family(&families::WORKER_PARTITIONS);
    for (worker, count) in owned.iter().enumerate() {
        to.sample(&[("worker", &worker)], count);
    }
    to.family(&families::PARTITION_OWNER);
    for partition in 0..partitions.min(STATS_PARTITIONS_MAX) {
        if let Some(route) = cache.route(partition) {
            to.sample(&[("partition", &partition)], route.owner);
        }
    }
    if server.settings.threads == 1 {
        // A single worker counts nothing by partition.
        return;
    }
    let costs = server.balance.costs();
    if !costs.is_empty() {
        to.family(&families::PARTITION_BUSY);
        for (partition, ns) in costs.iter().take(STATS_PARTITIONS_MAX).enumerate() {
            to.sample(&[("partition", &partition)], *ns as f64 / 1e9);
        }
    }
    let counts = server.shared.loads.now(cache);
    to.family(&families::PARTITION_REQUESTS);
    for partition in 0..partitions.min(STATS_PARTITIONS_MAX) {
        let sum: u64 = counts.iter().map(|of_worker| of_worker[partition]).sum();
        to.sample(&[("partition", &partition)], sum);
    }
}
