//! Operations per second on one core: data sets, popularities, mixes, cache and store, beside
//! peers and the limit of two dependent lines; and prefetch on and off.

use std::ops::Range;
use std::time::Instant;

use micanite_engine::{Config, Semantics};

use super::Options;
use super::contenders::{Contender, Done, Micanite, SET, config_of};
use super::peers::{Hashbrown, QuickCache};
use crate::Result;
use crate::harness::huge_pages::Resident;
use crate::harness::popularity::{Popularity, Random};
use crate::limits::TwoLines;
use crate::results::measurement::Measurement;
use crate::results::statistics::{median, ratios, spread};

const GET_PERCENTS: [u64; 4] = [100, 95, 50, 0];
/// Bytes of a tiny item for the limit: header, key and value.
const TINY_ITEM_BYTES: usize = 24;

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    data_set::<8, 8>("tiny 8/8", options, report)?;
    data_set::<16, 64>("small 16/64", options, report)?;
    if options.common.quick {
        return Ok(());
    }
    larger("tiny 8/8, four times the items,", options, report)
}

/// All contenders, all cases, in turns.
fn data_set<const K: usize, const V: usize>(
    name: &str,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    let cases = cases(name, options.items, options);
    let prefetch_case = format!("{name} uniform 100 % GET, prefetch");
    if cases.is_empty() && !options.common.wants(&prefetch_case) {
        return Ok(());
    }
    eprintln!("{name}: filling {} items, four times", options.items);
    let mut ours = ours::<K, V>(name, options.items, Semantics::Cache, options, report)?;
    prefetch(&prefetch_case, &mut ours, options, report)?;
    if cases.is_empty() {
        return Ok(());
    }
    let mut store = ours_store::<K, V>(name, options, report)?;
    let mut hashbrown = filled(|| Hashbrown::<K, V>::new(options.items), options, report)?;
    let mut quick_cache = filled(|| QuickCache::<K, V>::new(options.items), options, report)?;
    let mut limit = match V {
        8 => Some(TwoLines::new(options.items as usize, TINY_ITEM_BYTES)?),
        _ => None,
    };
    let mut contenders: [&mut dyn Contender; 4] = [&mut ours, &mut store, &mut hashbrown, &mut quick_cache];
    let measured = measure(&cases, &mut contenders, limit.as_mut(), options)?;
    for (case, of) in cases.iter().zip(&measured) {
        of.report(case, &contenders, report);
    }
    compare(name, &cases, &measured, report);
    Ok(())
}

/// Measures more items, beside the limit only.
fn larger(name: &str, options: &Options, report: &mut Measurement) -> Result<()> {
    let items = 4 * options.items;
    let mut cases = cases(name, items, options);
    cases.retain(|case| case.popularity == Popularity::Uniform);
    if cases.is_empty() {
        return Ok(());
    }
    eprintln!("{name} filling {items}");
    let mut ours = ours::<8, 8>(name, items, Semantics::Cache, options, report)?;
    let mut limit = TwoLines::new(items as usize, TINY_ITEM_BYTES)?;
    let mut contenders: [&mut dyn Contender; 1] = [&mut ours];
    let measured = measure(&cases, &mut contenders, Some(&mut limit), options)?;
    for (case, of) in cases.iter().zip(&measured) {
        of.report(case, &contenders, report);
    }
    Ok(())
}

fn ours<const K: usize, const V: usize>(
    name: &str,
    items: u64,
    semantics: Semantics,
    options: &Options,
    report: &mut Measurement,
) -> Result<Micanite<K, V>> {
    let config =
        Config { semantics, eviction: options.eviction.unwrap_or_default(), ..config_of::<K, V>(items, 1) };
    let mut ours = Micanite::new(&config)?;
    ours.cache().populate();
    fill(&mut ours, items);
    let stats = ours.cache().stats();
    report.note(format!(
        "{name}: {} on {}; full buckets cost {:.2} % of the items, {:.2} % were evicted, {:.2} % refused",
        ours.name(),
        ours.cache().pages().name(),
        stats.evicted_bucket as f64 / items as f64 * 100.0,
        stats.evicted_log as f64 / items as f64 * 100.0,
        stats.out_of_memory as f64 / items as f64 * 100.0,
    ));
    Ok(ours)
}

fn ours_store<const K: usize, const V: usize>(
    name: &str,
    options: &Options,
    report: &mut Measurement,
) -> Result<Micanite<K, V>> {
    let store = ours::<K, V>(name, options.items, Semantics::Store, options, report)?;
    if store.cache().stats().out_of_memory > 0 {
        return Err(format!("{name}: the store was too small for the items").into());
    }
    Ok(store)
}

/// A peer with all items, and a note of the pages it got.
fn filled<C: Contender>(new: impl FnOnce() -> C, options: &Options, report: &mut Measurement) -> Result<C> {
    let before = Resident::now()?;
    let mut peer = new();
    fill(&mut peer, options.items);
    let huge_percent = Resident::now()?.huge_percent_since(before);
    report.note(format!("{}: {huge_percent:.0} % of its memory on transparent huge pages", peer.name()));
    Ok(peer)
}

struct Case {
    name: String,
    popularity: Popularity,
    get_percent: u64,
    operations: Vec<u32>,
}

impl Case {
    fn new(name: String, popularity: Popularity, get_percent: u64, items: u64, options: &Options) -> Self {
        let count = if options.common.quick { 1 << 20 } else { 4 << 20 };
        let mut operations = popularity.draw(items, count, 11);
        let mut random = Random::new(5);
        for operation in &mut operations {
            if random.below(100) >= get_percent {
                *operation |= SET;
            }
        }
        Self { name, popularity, get_percent, operations }
    }
}

fn cases(data_set: &str, items: u64, options: &Options) -> Vec<Case> {
    let quick = options.common.quick;
    let mut cases = Vec::new();
    for popularity in [Popularity::Uniform, Popularity::Zipf] {
        for get_percent in GET_PERCENTS {
            let name = format!("{data_set} {} {get_percent} % GET", popularity.name());
            let skip = quick && popularity == Popularity::Zipf && get_percent != 95;
            if options.common.wants(&name) && !skip {
                cases.push(Case::new(name, popularity, get_percent, items, options));
            }
        }
    }
    cases
}

/// Stores every item once.
pub(crate) fn fill(contender: &mut dyn Contender, items: u64) {
    store(contender, 0..items);
}

/// Stores some of the items.
pub(super) fn store(contender: &mut dyn Contender, items: Range<u64>) {
    let step = 1 << 20;
    for first in items.clone().step_by(step) {
        let end = items.end.min(first + step as u64);
        let operations: Vec<_> = (first..end).map(|item| item as u32 | SET).collect();
        contender.run(&operations);
    }
}

/// One slice: the rate in million operations per second, checked.
pub(super) fn slice(contender: &mut dyn Contender, operations: &[u32]) -> Result<(f64, Done)> {
    let start = Instant::now();
    let done = contender.run(operations);
    let rate = operations.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
    done.check(contender.name())?;
    Ok((rate, done))
}

/// The rounds of one case, by contender.
struct Measured {
    rates: Vec<Vec<f64>>,
    hit_percents: Vec<Vec<f64>>,
    limit: Vec<f64>,
}

/// A round is every case once, a case every contender once, so that everything stands beside
/// everything else of its round.
fn measure(
    cases: &[Case],
    contenders: &mut [&mut dyn Contender],
    mut limit: Option<&mut TwoLines>,
    options: &Options,
) -> Result<Vec<Measured>> {
    let of = |_: &Case| Measured {
        rates: vec![Vec::new(); contenders.len()],
        hit_percents: vec![Vec::new(); contenders.len()],
        limit: Vec::new(),
    };
    let mut measured: Vec<_> = cases.iter().map(of).collect();
    let rounds = options.common.rounds();
    for round in 0..=rounds {
        for (case, of) in cases.iter().zip(&mut measured) {
            // The first round warms up, and does not count.
            let count = case.operations.len() >> if round == 0 { 3 } else { 0 };
            let operations = &case.operations[..count];
            eprint!("\r{} round {round} of {rounds}   ", case.name);
            if let Some(limit) = limit.as_mut().filter(|_| case.uniform()) {
                let rate = count as f64 / limit.run(count)?.as_secs_f64() / 1e6;
                of.limit.extend((round > 0).then_some(rate));
            }
            for (at, contender) in contenders.iter_mut().enumerate() {
                let (rate, done) = slice(*contender, operations)?;
                if round > 0 {
                    of.rates[at].push(rate);
                    of.hit_percents[at].extend(done.hit_percent());
                }
            }
        }
    }
    eprintln!();
    Ok(measured)
}

impl Case {
    fn uniform(&self) -> bool {
        self.popularity == Popularity::Uniform
    }
}

impl Measured {
    fn report(&self, case: &Case, contenders: &[&mut dyn Contender], report: &mut Measurement) {
        let name = case.name.as_str();
        let what = (name, "operations per core", "M/s");
        if !self.limit.is_empty() {
            report.beside(what, &self.rates[0], "two dependent lines", &self.limit);
        }
        // The store has lines of its own.
        for (peer, theirs) in contenders.iter().zip(&self.rates).skip(2) {
            report.beside(what, &self.rates[0], peer.name(), theirs);
        }
        if !self.hit_percents[0].is_empty() {
            report.value(name, "gets that hit", "%", &self.hit_percents[0]);
        }
        for (peer, theirs) in contenders.iter().zip(&self.hit_percents).skip(1) {
            if theirs.iter().any(|percent| *percent < 100.0) {
                let (name, least) = (peer.name(), spread(theirs).min);
                report.note(format!("{}: {name} missed, hits {least:.2} %", case.name));
            }
        }
    }
}

/// Cases beside each other: SET beside GET, Zipf beside uniform, the store beside the cache.
fn compare(data_set: &str, cases: &[Case], measured: &[Measured], report: &mut Measurement) {
    let find = |popularity: Popularity, get_percent: u64| {
        let at =
            cases.iter().position(|case| case.popularity == popularity && case.get_percent == get_percent)?;
        Some(&measured[at].rates)
    };
    let metric = "operations per core";
    for popularity in [Popularity::Uniform, Popularity::Zipf] {
        if let (Some(get), Some(set)) = (find(popularity, 100), find(popularity, 0)) {
            for (at, who) in ["", " in the store"].iter().enumerate() {
                let case = format!("{data_set} {}, SET{who}", popularity.name());
                report.beside((&case, metric, "M/s"), &set[at], "GET", &get[at]);
            }
        }
    }
    for get_percent in GET_PERCENTS {
        let zipf = find(Popularity::Zipf, get_percent);
        if let (Some(uniform), Some(zipf)) = (find(Popularity::Uniform, get_percent), zipf) {
            let case = format!("{data_set} {get_percent} % GET, zipf 0.99");
            report.beside((&case, metric, "M/s"), &zipf[0], "uniform", &uniform[0]);
        }
    }
    for (case, of) in cases.iter().zip(measured) {
        let name = format!("{}, store", case.name);
        report.beside((&name, metric, "M/s"), &of.rates[1], "cache", &of.rates[0]);
    }
}

fn prefetch<const K: usize, const V: usize>(
    case: &str,
    ours: &mut Micanite<K, V>,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    if !options.common.wants(case) {
        return Ok(());
    }
    let name = case.to_owned();
    let uniform = Case::new(name, Popularity::Uniform, 100, options.items, options);
    let operations = uniform.operations;
    let (mut on, mut off) = (Vec::new(), Vec::new());
    slice(ours, &operations)?;
    for _ in 0..options.common.rounds() {
        ours.cache().set_prefetch(true);
        on.push(slice(ours, &operations)?.0);
        ours.cache().set_prefetch(false);
        off.push(slice(ours, &operations)?.0);
    }
    ours.cache().set_prefetch(true);
    let what = (case, "operations per core", "M/s");
    report.beside(what, &on, "prefetch off", &off);
    let ratio = median(&ratios(&on, &off));
    if ratio < 1.1 && options.items >= 16 << 20 {
        let advice = "look at the disassembly";
        return Err(format!("prefetching does nothing ({ratio:.2} x): {advice}").into());
    }
    Ok(())
}
