//! The page `docs/reference/statistics.md`, made from the declarations of statistics.

use std::fmt::Write;

use super::families::FAMILIES;
use crate::native::{FrameStats, NativeCounters, fabric::FabricCounters};
use crate::telemetry::table::{self, Kind, Statistic};
use crate::udp::UdpCounters;

/// Names and meanings of a group of counters.
type Help = &'static [(&'static str, &'static str)];

const GROUPS: [(&str, &str, Help); 4] = [
    ("native", "of each worker, as `0:requests`", NativeCounters::HELP),
    ("native", "of each worker at a port around the kernel (`--bypass`)", FrameStats::HELP),
    ("udp", "of all workers together", UdpCounters::HELP),
    ("fabric", "of all workers together", FabricCounters::HELP),
];

/// Returns the tables of the page.
pub fn reference() -> String {
    let mut page = String::new();
    names(&mut page, "`stats`", |of| of.general.to_vec());
    names(&mut page, "`stats items`, behind `items:1:`", |of| of.item.into_iter().collect());
    names(&mut page, "`stats slabs`, behind `1:`", |of| of.slab.into_iter().collect());
    for (group, place, help) in GROUPS {
        let _ = write!(page, "\n## `stats {group}`, {place}\n\n| name | meaning |\n|---|---|\n");
        for (name, help) in help {
            let _ = writeln!(page, "| `{name}` |{help} |");
        }
    }
    page.push_str("\n## Metrics\n\n| metric | type | meaning |\n|---|---|---|\n");
    let mut last = None;
    for of in table::all() {
        let Some(name) = of.metric_name().filter(|name| last.replace(*name) != Some(*name)) else {
            continue;
        };
        let workers = of.is_of_workers().then_some("worker");
        let labels = workers.into_iter().chain(of.metric_labels().iter().map(|(label, _)| *label));
        let (kind, help) = of.family();
        metric(&mut page, name, &labels.collect::<Vec<_>>(), (kind, help));
    }
    for family in FAMILIES {
        metric(&mut page, family.name, family.labels, (family.kind, family.help));
    }
    page
}

/// Writes a table of those statistics that have names in a group.
fn names(page: &mut String, group: &str, names: impl Fn(&Statistic) -> Vec<&'static str>) {
    let _ = write!(page, "\n## {group}\n\n| name | type | meaning |\n|---|---|---|\n");
    for of in table::all() {
        let names: Vec<_> = names(of).iter().map(|name| format!("`{name}`")).collect();
        if !names.is_empty() {
            let kind = if of.is_text() { "text" } else { of.kind.name() };
            let _ = writeln!(page, "| {} | {kind} | {} |", names.join(", "), of.help());
        }
    }
}

fn metric(page: &mut String, name: &str, labels: &[&str], (kind, help): (Kind, &str)) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(page, "| `{name}{labels}` | {} | {help} |", kind.name());
}
