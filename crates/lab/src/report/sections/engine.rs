//! The engine alone on one core.

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results, Section};
use crate::results::charts;

pub(super) const SECTION: Section = Section {
    id: "engine",
    title: "The engine alone",
    question: "How many GETs and SETs does one core do without any network, beside other hash tables and beside what the memory allows?",
    source: "MICA (NSDI 2014), figure 12",
    published: "In words only: \"skewed workloads grant good throughput for local key-value processing due to the data locality\".",
    differs: "One core. Beside hashbrown (a hash table without eviction or expiry), quick_cache (a concurrent cache that evicts by S3-FIFO), and the limit: two dependent cache lines for each operation, prefetched 32 operations ahead, and nothing else. All make the key, hash it, copy the value and compare it; ours takes batches of 64 as the server does. Fewer items than MICA's 192 Mi: 4 Mi in the short form, 16 Mi in the full one.",
    commands,
    draw,
};

fn commands(form: Form) -> Vec<Command> {
    let words = form.pick(
        "engine --quick --rounds 3 --items 4194304 --case",
        "engine --rounds 3 --items 16777216 --quick --case",
    );
    vec![Command::lab("engine", words).with("tiny 8/8 ")]
}

fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("engine")?;
    let title = ("The engine beside others on one core", "ratio of operations per second");
    let beside_others = charts::ratios(title, &records, |record| {
        let peer = record.peer.as_deref()?;
        let is_other =
            ["two dependent lines", "hashbrown", "quick_cache"].iter().any(|name| peer.starts_with(name));
        is_other.then_some((record.case.as_str(), peer))
    });
    let title = "Operations of one core, in millions per second, beside others and beside each other";
    let own: Vec<_> = records.iter().filter(|record| !record.case.starts_with("backing")).cloned().collect();
    let mut shown = vec![Exhibit::Bars(beside_others), Exhibit::Table(grid::ratios(&own, title))];
    for peer in ["hashbrown", "quick_cache"] {
        let what = "Operations of the engine on one core, tiny items, uniform, 95 % GET";
        let place = ("tiny 8/8 uniform 95 % GET", "operations per core", peer);
        shown.extend(grid::headline(&records, what, place, ""));
    }
    Ok(shown)
}
