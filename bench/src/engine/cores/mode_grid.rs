//! The three access modes on all cores, by skew and mix (MICA, figure 16): clients direct requests as
//! each mode allows.

use std::time::Duration;

use micanite_engine::Access;

use super::team::{Team, whole};
use super::threads::{Draw, Span};
use crate::Result;
use crate::engine::Options;
use crate::engine::contenders::config_of;
use crate::harness::popularity::Popularity;
use crate::results::measurement::Measurement;

const MODES: [(&str, Access); 3] = [("EREW", Access::Erew), ("CREW", Access::Crew), ("CRCW", Access::Crcw)];
const METRIC: &str = "throughput";
/// Operations of all cores together.
const OPERATIONS: usize = 2 << 20;

pub(crate) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let mut cases = Vec::new();
    for popularity in [Popularity::Uniform, Popularity::Zipf] {
        for get_percent in [50, 95] {
            let law = popularity.name();
            let name = format!("modes, {law}, {get_percent} % GET, {} cores", cpus.len());
            if options.common.wants(&name) {
                cases.push((name, popularity, get_percent));
            }
        }
    }
    if cases.is_empty() {
        return Ok(());
    }
    eprintln!("modes: filling {} items", options.items);
    let mut team = Team::new(&config_of::<8, 8>(options.items, cpus.len()), cpus)?;
    team.fill::<8, 8>(options.items)?;
    for (name, popularity, get_percent) in cases {
        let draw = Draw { popularity, items: options.items, get_percent, count: OPERATIONS, seed: 1 };
        let lists = MODES.map(|(_, access)| team.direct::<8>(cpus.len(), access, &draw));
        let mut rates = [const { Vec::new() }; MODES.len()];
        let mut of_cores = [const { Vec::new() }; MODES.len()];
        for round in 0..options.common.rounds() {
            eprint!("\r{name}, round {}   ", round + 1);
            for (mode, (_, access)) in MODES.iter().enumerate() {
                team.share(cpus.len(), *access)?;
                let of_each = team.rates::<8, 8>(&lists[mode], span(options))?;
                rates[mode].push(whole(&of_each, &lists[mode]) * 1e6);
                of_cores[mode].push(of_each);
            }
        }
        eprintln!();
        for ((mode, _), rates) in MODES.iter().zip(&rates) {
            let metric = format!("{METRIC}, {mode}");
            report.value(&name, &metric, "operations/s", rates);
        }
        for (mode, (word, _)) in MODES.iter().enumerate() {
            let of_mode = (&*lists[mode], &*rates[mode], &*of_cores[mode]);
            each_core((name.as_str(), *word), of_mode, report);
        }
        for ((mode, _), theirs) in MODES.iter().zip(&rates).skip(1) {
            let metric = (name.as_str(), METRIC, "operations/s");
            report.beside(metric, &rates[0], mode, theirs);
        }
    }
    Ok(())
}

/// Peak of each core, its share of the load, and its rate when the core that is loaded most
/// does what it can.
fn each_core(
    (name, mode): (&str, &str),
    (lists, whole, of_cores): (&[Vec<u32>], &[f64], &[Vec<f64>]),
    report: &mut Measurement,
) {
    let all: usize = lists.iter().map(Vec::len).sum();
    for (core, list) in lists.iter().enumerate() {
        let share = list.len() as f64 / all as f64;
        let peak: Vec<_> = of_cores.iter().map(|rates| rates[core] * 1e6).collect();
        let served: Vec<_> = whole.iter().map(|rate| rate * share).collect();
        let mut value = |what: &str, unit: &str, rounds: &[f64]| {
            report.value(name, &format!("{what} of core {core}, {mode}"), unit, rounds);
        };
        value("peak", "operations/s", &peak);
        value("share", "% of the load", &[share * 100.0]);
        value("served", "operations/s", &served);
    }
}

fn span(options: &Options) -> Span {
    Span::For(Duration::from_millis(if options.common.quick { 150 } else { 300 }))
}
