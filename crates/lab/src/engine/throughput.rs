//! Operations per second on one core: data sets, popularities, mixes; and prefetch on and off.

use std::time::Instant;

use super::Options;
use super::contenders::{Contender, Done, Hashbrown, Micanite, QuickCache, SET};
use crate::Result;
use crate::huge_pages::Resident;
use crate::popularity::{Popularity, Random};
use crate::report::Report;
use crate::statistics::{median, ratios, spread};

const GET_PERCENTS: [u64; 4] = [100, 95, 50, 0];

pub(crate) fn run(options: &Options, report: &mut Report) -> Result<()> {
    data_set::<8, 8>("tiny 8/8", options, report)?;
    data_set::<16, 64>("small 16/64", options, report)
}

fn data_set<const K: usize, const V: usize>(
    name: &str,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let cases = cases(name, options);
    let prefetch_case = format!("{name} uniform 100 % GET, prefetch");
    if cases.is_empty() && !options.common.wants(&prefetch_case) {
        return Ok(());
    }
    eprintln!("{name}: filling {} items, three times", options.items);
    let mut ours = Micanite::<K, V>::new(options.items)?;
    ours.cache().populate();
    fill(&mut ours, options.items);
    let lost = ours.cache().stats().evicted_bucket as f64 / options.items as f64;
    report.note(format!(
        "{name}: memory on {}; full buckets cost {:.2} % of the items",
        ours.cache().pages().name(),
        lost * 100.0
    ));
    prefetch::<K, V>(&prefetch_case, &mut ours, options, report)?;
    if cases.is_empty() {
        return Ok(());
    }
    let mut hashbrown = filled(|| Hashbrown::<K, V>::new(options.items), options, report)?;
    let mut quick_cache = filled(|| QuickCache::<K, V>::new(options.items), options, report)?;
    for case in &cases {
        let operations = case.operations(options);
        let contenders: [&mut dyn Contender; 3] = [&mut ours, &mut hashbrown, &mut quick_cache];
        measure(case, &operations, contenders, options, report)?;
    }
    Ok(())
}

/// A peer with all items, and a note of the pages it got.
fn filled<C: Contender>(
    new: impl FnOnce() -> C,
    options: &Options,
    report: &mut Report,
) -> Result<C> {
    let before = Resident::now()?;
    let mut peer = new();
    fill(&mut peer, options.items);
    let huge_percent = Resident::now()?.huge_percent_since(before);
    report.note(format!(
        "{}: {huge_percent:.0} % of its memory on transparent huge pages",
        peer.name()
    ));
    Ok(peer)
}

struct Case {
    name: String,
    popularity: Popularity,
    get_percent: u64,
}

impl Case {
    fn operations(&self, options: &Options) -> Vec<u32> {
        let count = if options.common.quick {
            1 << 20
        } else {
            4 << 20
        };
        let mut operations = self.popularity.draw(options.items, count, 11);
        let mut random = Random::new(5);
        for operation in &mut operations {
            if random.below(100) >= self.get_percent {
                *operation |= SET;
            }
        }
        operations
    }
}

fn cases(data_set: &str, options: &Options) -> Vec<Case> {
    let quick = options.common.quick;
    let mut cases = Vec::new();
    for popularity in [Popularity::Uniform, Popularity::Zipf] {
        for get_percent in GET_PERCENTS {
            let name = format!("{data_set} {} {get_percent} % GET", popularity.name());
            let skip = quick && popularity == Popularity::Zipf && get_percent != 95;
            if options.common.wants(&name) && !skip {
                cases.push(Case {
                    name,
                    popularity,
                    get_percent,
                });
            }
        }
    }
    cases
}

fn fill(contender: &mut dyn Contender, items: u64) {
    let step = 1 << 20;
    for first in (0..items).step_by(step) {
        let end = items.min(first + step as u64);
        let operations: Vec<_> = (first..end).map(|item| item as u32 | SET).collect();
        contender.run(&operations);
    }
}

/// One slice: the rate in million operations per second, checked.
fn slice(contender: &mut dyn Contender, operations: &[u32]) -> Result<(f64, Done)> {
    let start = Instant::now();
    let done = contender.run(operations);
    let rate = operations.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
    done.check(contender.name())?;
    Ok((rate, done))
}

fn measure(
    case: &Case,
    operations: &[u32],
    mut contenders: [&mut dyn Contender; 3],
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let mut rates = [const { Vec::new() }; 3];
    let mut hit_percents = [const { Vec::new() }; 3];
    for contender in &mut contenders {
        slice(*contender, &operations[..operations.len() / 8])?;
    }
    for round in 0..options.common.rounds() {
        for (at, contender) in contenders.iter_mut().enumerate() {
            let (rate, done) = slice(*contender, operations)?;
            rates[at].push(rate);
            hit_percents[at].extend(done.hit_percent());
        }
        let (name, rounds) = (&case.name, options.common.rounds());
        eprint!("\r{name} round {} of {rounds}   ", round + 1);
    }
    eprintln!();
    for (peer, theirs) in contenders.iter().zip(&rates).skip(1) {
        let what = (case.name.as_str(), "operations per core", "M/s");
        report.beside(what, &rates[0], peer.name(), theirs);
    }
    if !hit_percents[0].is_empty() {
        report.value(&case.name, "gets that hit", "%", &hit_percents[0]);
    }
    for (peer, theirs) in contenders.iter().zip(&hit_percents).skip(1) {
        if theirs.iter().any(|percent| *percent < 100.0) {
            let (name, least) = (peer.name(), spread(theirs).min);
            report.note(format!("{}: {name} missed, hits {least:.2} %", case.name));
        }
    }
    Ok(())
}

fn prefetch<const K: usize, const V: usize>(
    case: &str,
    ours: &mut Micanite<K, V>,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    if !options.common.wants(case) {
        return Ok(());
    }
    let uniform = Case {
        name: case.to_owned(),
        popularity: Popularity::Uniform,
        get_percent: 100,
    };
    let operations = uniform.operations(options);
    let (mut on, mut off) = (Vec::new(), Vec::new());
    slice(ours, &operations)?;
    for _ in 0..options.common.rounds() {
        ours.cache().set_prefetch(true);
        on.push(slice(ours, &operations)?.0);
        ours.cache().set_prefetch(false);
        off.push(slice(ours, &operations)?.0);
    }
    ours.cache().set_prefetch(true);
    report.beside(
        (case, "operations per core", "M/s"),
        &on,
        "prefetch off",
        &off,
    );
    let ratio = median(&ratios(&on, &off));
    if ratio < 1.1 && options.items >= 16 << 20 {
        return Err(
            format!("prefetching does nothing ({ratio:.2} x): look at the disassembly").into(),
        );
    }
    Ok(())
}
