//! The page `docs/reference/statistics.md`, made from the declarations of statistics.

use std::fmt::Write;

use super::families::FAMILIES;
use crate::control::{local, numa};
use crate::native::fabric::FabricCounters;
use crate::native::{FrameStats, NativeCounters};
use crate::telemetry::stats::{CHUNK_EVENTS, CHUNK_USE, FILTER};
use crate::telemetry::table::group::Row;
use crate::telemetry::table::{self, Family, Statistic};
use crate::udp::UdpCounters;

/// Names and meanings of a group of counters.
type Help = Vec<(&'static str, &'static str)>;

fn groups() -> [(&'static str, Help); 9] {
    [
        ("`stats native`: of each worker, as `0:requests`", NativeCounters::HELP.to_vec()),
        (
            "`stats native`: of each worker at a port around the kernel (`--bypass`)",
            FrameStats::HELP.to_vec(),
        ),
        (
            "`stats native`: of the filter in front of an AF_XDP port, as `port_0:filter_redirected`",
            help(&FILTER),
        ),
        ("`stats udp`", UdpCounters::HELP.to_vec()),
        ("`stats kernel`, behind `kernel_get_` (`--kernel-get`)", micanite_kernel::Counters::HELP.to_vec()),
        ("`stats local`, behind `local_` (`--local`)", help(&local::COUNTS)),
        ("`stats numa`, behind `numa_`", help(&numa::COUNTS)),
        ("`stats fabric` (`--fabric`)", FabricCounters::HELP.to_vec()),
        (
            "`stats fabric`: the cache area (`--fabric-cache`)",
            [help(&CHUNK_EVENTS), help(&CHUNK_USE)].concat(),
        ),
    ]
}

fn help<T>(rows: &[Row<T>]) -> Help {
    rows.iter().map(|(name, help, _)| (*name, *help)).collect()
}

/// Returns the tables of the page.
pub fn reference() -> String {
    let mut page = String::new();
    names(&mut page, "`stats`", |of| of.general.to_vec());
    names(&mut page, "`stats items`, behind `items:1:`", |of| of.item.into_iter().collect());
    names(&mut page, "`stats slabs`, behind `1:`", |of| of.slab.into_iter().collect());
    for (group, help) in groups() {
        let _ = write!(page, "\n## {group}\n\n| name | meaning |\n|---|---|\n");
        for (name, help) in help {
            let _ = writeln!(page, "| `{name}` | {} |", help.trim_ascii_start());
        }
    }
    page.push_str("\n## Metrics\n\n| metric | type | meaning |\n|---|---|---|\n");
    for (family, parts) in table::families() {
        metric(&mut page, &family);
        for part in parts.into_iter().filter(|part| !part.metric_labels().is_empty()) {
            let labels = part.metric_labels().iter().map(|(name, value)| format!("{name}=\"{value}\""));
            let labels = labels.collect::<Vec<_>>().join(", ");
            let _ = writeln!(page, "| … `{labels}` | | {} |", part.help());
        }
    }
    FAMILIES.iter().for_each(|family| metric(&mut page, family));
    page
}

/// Writes a table of those statistics that have names in a group.
fn names(page: &mut String, group: &str, names: impl Fn(&Statistic) -> Vec<&'static str>) {
    let _ = write!(page, "\n## {group}\n\n| name | type | meaning |\n|---|---|---|\n");
    for of in table::all() {
        let names: Vec<_> = names(of).iter().map(|name| format!("`{name}`")).collect();
        let kind = match of.begins_anew() {
            _ if of.is_text() => "text",
            true => "counter, reset",
            false => of.kind.name(),
        };
        if !names.is_empty() {
            let _ = writeln!(page, "| {} | {kind} | {} |", names.join(", "), of.help());
        }
    }
}

fn metric(page: &mut String, family: &Family) {
    let labels = family.labels.join(",");
    let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
    let _ = writeln!(page, "| `{}{labels}` | {} | {} |", family.name, family.kind.name(), family.help);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::table::Kind;

    #[test]
    fn each_metric_is_declared_once() {
        let of_table = table::families().into_iter().map(|(family, _)| family.name);
        let mut names: Vec<_> = of_table.chain(FAMILIES.iter().map(|family| family.name)).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for Family { name, kind, help, .. } in FAMILIES {
            assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}");
            assert!(help.ends_with('.'), "{name}");
        }
    }
}
