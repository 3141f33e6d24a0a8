//! The sections, in the order of the page. Their texts are in `texts.toml`.

mod direction;
mod engine;
mod facebook;
pub(crate) mod grid;
mod items;
mod lacking;
mod latency;
mod misses;
mod parts;
mod scaling;
mod tables;
mod throughput;
mod workers;

use std::collections::BTreeMap;

use crate::bypass::sections::{bound, ports};
use crate::fabric::section as fabric;
use crate::report::plan::section as plan;
use crate::report::section::{Command, Commands, Draw, Form, Section, Text};

/// All sections.
///
/// # Errors
/// When a section has no text.
pub(crate) fn all() -> Result<Vec<Section>, String> {
    let sections: [(&str, Commands, Draw); 21] = [
        ("throughput", throughput::commands, throughput::draw),
        ("latency", latency::commands, latency::draw),
        ("ports", ports::commands, ports::draw),
        ("engine", engine::commands, engine::draw),
        ("modes", workers::modes::commands, workers::modes::draw),
        ("direction", direction::commands, direction::draw),
        ("bound", bound::commands, bound::draw),
        ("scaling", scaling::commands, scaling::draw),
        ("prefetch", engine::prefetch_commands, engine::draw_prefetch),
        ("parts", parts::commands, parts::draw),
        ("connections", throughput::connection_commands, throughput::draw_connections),
        ("tables", tables::commands, tables::draw),
        ("facebook", facebook::commands, facebook::draw),
        ("misses", misses::commands, misses::draw),
        ("ycsb", throughput::ycsb, throughput::draw_workloads),
        ("innercache", throughput::innercache, throughput::draw_workloads),
        ("fabric", fabric::commands, fabric::draw),
        ("balance", workers::balance::commands, workers::balance::draw),
        ("items", items::commands, items::draw),
        ("plan", plan::commands, plan::draw),
        ("lacking", lacking::commands, lacking::draw),
    ];
    let texts = toml::from_str(include_str!("texts.toml"));
    let mut texts: BTreeMap<String, Text> = texts.map_err(|error| error.to_string())?;
    let sections = sections.into_iter().map(|(id, commands, draw)| {
        let text = texts.remove(id).ok_or_else(|| format!("the section {id} has no text"))?;
        Ok(Section { id, text, commands, draw })
    });
    sections.collect()
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
