//! The memory of partitions on NUMA nodes: nothing where there is one node, or nothing is bound.

use std::collections::BTreeMap;

use super::super::exposition::Exposition;
use super::families;
use crate::control::numa::sampled;
use crate::limits::STATS_PARTITIONS_MAX;
use crate::shared::Server;

pub(super) fn write(server: &Server, to: &mut Exposition) {
    let numa = &server.numa;
    if numa.nodes() < 2 {
        return;
    }
    to.one(&families::NUMA_BOUND, u8::from(numa.is_active()));
    if !numa.is_active() {
        return;
    }
    let places = numa.places();
    let mut by_node: BTreeMap<String, u64> = BTreeMap::new();
    places.iter().for_each(|place| *by_node.entry(place.wanted()).or_default() += 1);
    to.family(&families::NUMA_PARTITIONS);
    for (node, count) in &by_node {
        to.sample(&[("node", node)], count);
    }
    to.family(&families::NUMA_NODE);
    for (partition, place) in places.iter().take(STATS_PARTITIONS_MAX).enumerate() {
        to.sample(&[("partition", &partition), ("node", &place.wanted())], 1);
    }
    let mut pages: BTreeMap<u16, u64> = BTreeMap::new();
    for partition in 0..places.len().min(STATS_PARTITIONS_MAX) {
        let sample = sampled(&server.shared.cache, partition);
        sample.into_iter().for_each(|(node, count)| *pages.entry(node).or_default() += count);
    }
    to.family(&families::NUMA_PAGES_SAMPLED);
    for (node, count) in &pages {
        to.sample(&[("node", node)], count);
    }
    for (family, prefix) in [(families::NUMA_MOVES, "moves_"), (families::NUMA_PAGES, "pages_")] {
        to.family(&family);
        numa.each_count(|name, count| {
            if let Some(result) = name.strip_prefix(prefix) {
                to.sample(&[("result", &result)], count);
            }
        });
    }
}
