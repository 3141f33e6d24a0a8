//! The answer of `ctl numa`, and lines for the log.

use std::collections::BTreeMap;
use std::fmt::Write;

use micanite_engine::{Cache, Route};

use super::{Follow, NumaState, Place, State};
use crate::limits::NUMA_SAMPLES;

impl NumaState {
    /// Returns a line for the log of the start; none on one node.
    pub fn line(&self) -> Option<String> {
        if self.nodes < 2 {
            return None;
        }
        let nodes = self.nodes;
        let Ok(workers) = &self.workers else {
            return Some(format!("{nodes} nodes; partitions are not bound to them"));
        };
        let all = workers.all();
        Some(format!("{nodes} nodes, workers on {all}; partitions are bound to the nodes of their owners"))
    }

    /// Returns the answer of `ctl numa`: a summary by nodes, an empty line, a table of partitions.
    pub fn report(&self, cache: &Cache) -> String {
        let mut text = match &self.workers {
            Err(reason) => return format!("memory is not bound to NUMA nodes: {reason}\n"),
            Ok(_) => {
                format!("{} NUMA nodes, partitions are bound to those of their owners", self.nodes)
            }
        };
        self.each_count(|name, count| {
            let name = name.replace('_', " ");
            let _ = write!(text, "; {count} {name}");
        });
        text.push('\n');
        let places = self.places();
        let samples: Vec<_> = (0..places.len()).map(|partition| sampled(cache, partition)).collect();
        summary(&mut text, &places, &samples);
        let _ = writeln!(
            text,
            "\n{:>9}  {:<4}  {:>5}  {:<6}  {:<24}  memory",
            "partition", "mode", "owner", "node", "sampled pages by node"
        );
        for (partition, (place, sample)) in places.iter().zip(&samples).enumerate() {
            let Some(Route { access, owner }) = cache.route(partition) else {
                continue;
            };
            let (mode, node, by_node) = (access.name(), place.wanted(), counts(sample));
            let state = described(&place.state);
            // Writing to a String cannot fail.
            let _ =
                writeln!(text, "{partition:>9}  {mode:<4}  {owner:>5}  {node:<6}  {by_node:<24}  {state}");
        }
        text
    }
}

impl Follow {
    /// Returns what to tell of one partition, or of several; nothing if nothing follows.
    pub fn text(&self, partition: usize) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Moves(policy) => format!(
                "partition {partition}: its memory moves to node {policy} in the background, see ctl numa\n"
            ),
            Self::Stays(reason) => format!("partition {partition}: its memory stays where it is: {reason}\n"),
        }
    }
}

/// Returns a sample of a partition's pages by node.
pub fn sampled(cache: &Cache, partition: usize) -> BTreeMap<u16, u64> {
    let mut by_node = BTreeMap::new();
    // What cannot be seen is in no sample.
    for node in cache.sample_nodes(partition, NUMA_SAMPLES).unwrap_or_default() {
        *by_node.entry(node).or_default() += 1;
    }
    by_node
}

fn summary(text: &mut String, places: &[Place], samples: &[BTreeMap<u16, u64>]) {
    let mut groups: BTreeMap<String, (Vec<String>, BTreeMap<u16, u64>)> = BTreeMap::new();
    for (partition, (place, sample)) in places.iter().zip(samples).enumerate() {
        let (partitions, by_node) = groups.entry(place.wanted()).or_default();
        partitions.push(partition.to_string());
        sample.iter().for_each(|(node, count)| *by_node.entry(*node).or_default() += count);
    }
    for (nodes, (partitions, by_node)) in groups {
        let (count, list) = (partitions.len(), partitions.join(" "));
        let found = counts(&by_node);
        let _ = writeln!(text, "node {nodes}: {count} partitions ({list}); sampled pages by node: {found}");
    }
}

fn counts(by_node: &BTreeMap<u16, u64>) -> String {
    let words: Vec<_> = by_node.iter().map(|(node, count)| format!("N{node}={count}")).collect();
    if words.is_empty() { "none yet".into() } else { words.join(" ") }
}

fn described(state: &State) -> String {
    match state {
        State::Moving(percent) => format!("moving, {percent} % visited"),
        State::Partly(failed, reason) => format!("moved but for {failed} pages of 4 KiB: {reason}"),
        State::Stays(reason) => format!("stays: {reason}"),
        State::Bound | State::Queued | State::Moved => state.word().into(),
    }
}
