//! Throughput by data set, skew and mix (MICA, figure 10).

use super::Options;
use super::load::{Client, Data};
use super::rounds::{RATES, in_turns};
use super::sides::{self, Wanted};
use crate::Result;
use crate::results::measurement::Measurement;

/// A data set, and how many bytes its items have.
const DATA_SETS: [(&str, usize); 4] = [("tiny", 16), ("small", 80), ("large", 1152), ("xlarge", 1402)];
const LAWS: [(&str, &str); 2] = [("uniform", "uniform"), ("zipf 0.99", "zipf:0.99")];
const GET_PERCENTS: [&str; 2] = ["50", "95"];

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    for name in &options.datasets {
        let known = DATA_SETS.iter().find(|(known, _)| known == name);
        let (set, item_bytes) =
            known.ok_or_else(|| format!("no data set '{name}': tiny, small, large or xlarge"))?;
        data_set(options, cpus, (set, *item_bytes), report)?;
    }
    Ok(())
}

/// All contenders, all laws and mixes, in turns.
fn data_set(
    options: &Options,
    cpus: &[usize],
    (set, item_bytes): (&str, usize),
    report: &mut Measurement,
) -> Result<()> {
    let mut cases = Vec::new();
    for (law, popularity) in LAWS {
        for get_percent in GET_PERCENTS {
            let name = format!("throughput, {set}, {law}, {get_percent} % GET");
            if options.common.wants(&name) {
                cases.push((name, (popularity, get_percent)));
            }
        }
    }
    if cases.is_empty() {
        return Ok(());
    }
    let wanted =
        Wanted { native: true, all_memcacheds: true, memcached_udp: false, redis: true, elsewhere: true };
    let sides = sides::start(options, wanted, item_bytes, cpus[0], report)?;
    let data = Data {
        set,
        // As many bytes in fewer items, but not so few that they fit the CPU's caches.
        items: (options.items() * 16 / item_bytes as u64).max(options.items() / 16),
    };
    let client = Client::filled(options, cpus, data, &sides)?;
    report.note(format!("{set}: {} items", client.data.items));
    let turns = (&sides[..], options.common.rounds());
    in_turns(turns, &cases, &RATES, report, |(law, get_percent), side| {
        let load = ["--popularity", law, "--get", get_percent];
        client.slice(side, &[&load[..], side.busy].concat())
    })
}
