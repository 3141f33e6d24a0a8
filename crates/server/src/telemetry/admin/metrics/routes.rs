//! Partitions, their owners, and balancing.

use micanite_control::Balance;

use super::super::exposition::{Exposition, Type};
use crate::limits::STATS_PARTITIONS_MAX;
use crate::shared::Server;

/// `/directory` lists any number of partitions; samples of single ones are bounded.
pub(super) fn write(server: &Server, to: &mut Exposition) {
    let cache = &server.shared.cache;
    let partitions = cache.layout().partitions;
    to.one("micanite_partitions", Type::Gauge, "Partitions.", partitions);
    to.one(
        "micanite_route_generation",
        Type::Gauge,
        "Grows with each change of a route.",
        cache.generation(),
    );
    to.one(
        "micanite_balance_auto",
        Type::Gauge,
        "Whether routes follow the load.",
        u8::from(server.balance.get() == Balance::Auto),
    );
    to.one(
        "micanite_balance_changes_total",
        Type::Counter,
        "Routes changed because of the load.",
        server.balance.changes(),
    );
    let owners = (0..partitions).filter_map(|partition| cache.route(partition));
    let mut owned = vec![0; server.settings.threads];
    owners.for_each(|route| owned[route.owner] += 1);
    to.family("micanite_worker_partitions", Type::Gauge, "Partitions that a worker owns.");
    for (worker, count) in owned.iter().enumerate() {
        to.sample(&[("worker", &worker)], count);
    }
    to.family(
        "micanite_partition_owner",
        Type::Gauge,
        "The worker that owns a partition; the first 128 partitions.",
    );
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
        to.family(
            "micanite_partition_busy_ratio",
            Type::Gauge,
            "Time that a partition's requests take their worker, in parts of a core, as balancing has \
             estimated it last; the first 128 partitions.",
        );
        for (partition, ns) in costs.iter().take(STATS_PARTITIONS_MAX).enumerate() {
            to.sample(&[("partition", &partition)], *ns as f64 / 1e9);
        }
    }
    let counts = server.shared.loads.now(cache);
    to.family(
        "micanite_partition_requests_total",
        Type::Counter,
        "Requests for a partition; the first 128 partitions.",
    );
    for partition in 0..partitions.min(STATS_PARTITIONS_MAX) {
        let sum: u64 = counts.iter().map(|of_worker| of_worker[partition]).sum();
        to.sample(&[("partition", &partition)], sum);
    }
}
