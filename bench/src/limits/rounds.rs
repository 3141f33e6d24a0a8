//! Interleaved rounds of variants beside the limit.

use std::time::{Duration, Instant};

use super::Options;
use super::item::value_of;
use super::pipeline::{Found, Lookup, Schedule};
use super::two_lines::TwoLines;
use crate::Result;
use crate::harness::popularity::Popularity;
use crate::results::measurement::Measurement;

/// One way of doing something: a name, and a run that returns million operations per second.
pub(super) struct Variant<'a> {
    pub name: String,
    pub run: Box<dyn FnMut() -> Result<f64> + 'a>,
}

impl<'a> Variant<'a> {
    /// Lookups of drawn items, checked against the values of those items.
    pub fn lookups<L: Lookup + 'a>(name: &str, drawn: &'a Drawn, lookup: L, schedule: Schedule) -> Self {
        let name = format!("{name}{}", schedule.name());
        let run = move || {
            let start = Instant::now();
            let items = &drawn.items;
            let found = schedule.run(&lookup, items.len(), |at| u64::from(items[at]));
            let rate = items.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
            drawn.check(found)?;
            Ok(rate)
        };
        Self { name, run: Box::new(run) }
    }
}

/// The items that are asked for, and what asking for them must find.
pub(super) struct Drawn {
    items: Vec<u32>,
    expected: Found,
    lost_percent: f64,
}

impl Drawn {
    pub fn new(popularity: Popularity, items: u64, options: &Options) -> Self {
        let items = popularity.draw(items, operations(options), 11);
        let sum = items.iter().fold(0, |sum: u64, item| sum.wrapping_add(value_of(u64::from(*item))));
        let hits = items.len() as u64;
        Self { items, expected: Found { hits, sum }, lost_percent: 0.0 }
    }

    /// Expects a table without room for some items.
    pub fn with_lost(mut self, percent: f64) -> Self {
        self.lost_percent = percent;
        self
    }

    fn check(&self, found: Found) -> Result<()> {
        if self.lost_percent == 0.0 && found != self.expected {
            return Err(format!("found {found:?} instead of {:?}", self.expected).into());
        }
        let missed = 100.0 - 100.0 * found.hits as f64 / self.expected.hits as f64;
        if missed > self.lost_percent * 1.5 + 0.01 {
            return Err(format!("{missed:.2} % of the lookups missed").into());
        }
        Ok(())
    }
}

pub(super) fn operations(options: &Options) -> usize {
    if options.common.quick { 1 << 19 } else { 1 << 21 }
}

/// Runs the variants of a case, each once in every round, and the limit before each of them.
pub(super) fn beside_limit(
    case: &str,
    variants: Vec<Variant>,
    limit: &mut TwoLines,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    let operations = operations(options);
    let mut limit_run =
        || -> Result<f64> { Ok(operations as f64 / limit.run(operations)?.as_secs_f64() / 1e6) };
    let mut variants: Vec<_> =
        variants.into_iter().map(|variant| (variant, Vec::new(), Vec::new())).collect();
    for round in 0..options.common.rounds() {
        for (variant, rates, limits) in &mut variants {
            limits.push(pausing(&mut limit_run)?);
            rates.push(pausing(&mut variant.run)?);
        }
        eprint!("\r{case} round {} of {}   ", round + 1, options.common.rounds());
    }
    eprintln!();
    for (variant, rates, limits) in &variants {
        let what = (case, variant.name.as_str(), "M/s");
        report.beside(what, rates, "two dependent lines", limits);
    }
    Ok(())
}

/// Runs and then sleeps for a ninth of the time that passed. The kernel lets real-time tasks have
/// 95 % of each second at most: who leaves the rest free himself is not stopped during a run.
fn pausing(run: &mut dyn FnMut() -> Result<f64>) -> Result<f64> {
    let start = Instant::now();
    let rate = run();
    pause_after(start.elapsed());
    rate
}

/// The pause for something that took so long.
pub(super) fn pause_after(elapsed: Duration) {
    const SECOND: Duration = Duration::from_secs(1);
    std::thread::sleep(elapsed.min(SECOND) / 9);
}
