//! The memory of partitions on NUMA nodes: nothing where there is one node, or nothing is bound.

use std::collections::BTreeMap;

use super::super::exposition::{Exposition, Type};
use crate::control::numa::sampled;
use crate::limits::STATS_PARTITIONS_MAX;
use crate::shared::Server;

pub(super) fn write(server: &Server, to: &mut Exposition) {
    let numa = &server.numa;
    if numa.nodes() < 2 {
        return;
    }
    let help = "Whether partitions are bound to the NUMA nodes of their owners.";
    to.one("micanite_numa_bound", Type::Gauge, help, u8::from(numa.is_active()));
    if !numa.is_active() {
        return;
    }
    let places = numa.places();
    let mut by_node: BTreeMap<String, u64> = BTreeMap::new();
    places.iter().for_each(|place| *by_node.entry(place.wanted()).or_default() += 1);
    to.family("micanite_numa_partitions", Type::Gauge, "Partitions by the NUMA node that they are bound to.");
    for (node, count) in &by_node {
        to.sample(&[("node", node)], count);
    }
    to.family(
        "micanite_partition_numa_node",
        Type::Gauge,
        "1: the partition is bound to these NUMA nodes; the first 128 partitions.",
    );
    for (partition, place) in places.iter().take(STATS_PARTITIONS_MAX).enumerate() {
        to.sample(&[("partition", &partition), ("node", &place.wanted())], 1);
    }
    let mut pages: BTreeMap<u16, u64> = BTreeMap::new();
    for partition in 0..places.len().min(STATS_PARTITIONS_MAX) {
        let sample = sampled(&server.shared.cache, partition);
        sample.into_iter().for_each(|(node, count)| *pages.entry(node).or_default() += count);
    }
    to.family(
        "micanite_numa_sampled_pages",
        Type::Gauge,
        "Pages by the NUMA node that they are on, of 64 of each of the first 128 partitions.",
    );
    for (node, count) in &pages {
        to.sample(&[("node", node)], count);
    }
    for (family, prefix, help) in [
        ("micanite_numa_moves_total", "moves_", "Moves of a partition's memory to other NUMA nodes."),
        (
            "micanite_numa_pages_total",
            "pages_",
            "Pages of 4 KiB that have moved to another NUMA node, or could not.",
        ),
    ] {
        to.family(family, Type::Counter, help);
        numa.each_count(|name, count| {
            if let Some(result) = name.strip_prefix(prefix) {
                to.sample(&[("result", &result)], count);
            }
        });
    }
}
