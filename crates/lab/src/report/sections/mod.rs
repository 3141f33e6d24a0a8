//! The sections, one file each, in the order of the page.

mod balance;
mod connections;
mod direction;
mod engine;
mod facebook;
mod grid;
mod items;
mod lacking;
mod latency;
mod misses;
mod modes;
mod parts;
mod prefetch;
mod scaling;
mod tables;
mod throughput;
mod workloads;

use crate::report::section::{Command, Form, Section};

/// All sections.
pub fn all() -> Vec<Section> {
    vec![
        throughput::SECTION,
        latency::SECTION,
        engine::SECTION,
        modes::SECTION,
        direction::SECTION,
        scaling::SECTION,
        prefetch::SECTION,
        parts::SECTION,
        connections::SECTION,
        tables::SECTION,
        facebook::SECTION,
        misses::SECTION,
        workloads::YCSB,
        workloads::INNERCACHE,
        balance::SECTION,
        items::SECTION,
        lacking::SECTION,
    ]
}

/// Cases of `micanite-lab engine` with tiny items that the CPU's caches do not hold.
fn engine(form: Form) -> Command {
    let words = form.pick("engine --quick --rounds 3 --items 4194304", "engine --rounds 7 --items 16777216");
    Command::lab("engine", words)
}

/// Cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
