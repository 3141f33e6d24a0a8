//! Parts of a GET's time in the engine, by differences: loops over the same operations, each of which does a
//! step more than the one before (billion-rps, figure 6), with and without prefetching.

use std::hint::black_box;
use std::time::Instant;

use micanite_engine::KeyHash;

use super::Options;
use super::contenders::{Contender, Micanite, SEED, bytes, config_of};
use super::throughput::fill;
use crate::Result;
use crate::harness::popularity::Popularity;
use crate::results::measurement::Measurement;
use crate::results::statistics::median;

/// Loops, by what each adds to the one before.
const STEPS: [&str; 4] = ["key", "hash", "index", "item and copy"];
const TINY: &str = "parts of a GET, tiny 8/8";
const LARGE: &str = "parts of a GET, large 128/1024";

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    data_set::<8, 8>(TINY, options.items, options, report)?;
    data_set::<128, 1024>(LARGE, options.items / 32, options, report)
}

fn data_set<const K: usize, const V: usize>(
    name: &str,
    items: u64,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    if !options.common.wants(name) {
        return Ok(());
    }
    eprintln!("{name}: filling {items} items");
    let mut engine = Micanite::<K, V>::new(&config_of::<K, V>(items, 1))?;
    engine.cache().populate();
    fill(&mut engine, items);
    let present = Popularity::Uniform.draw(items, 1 << 20, 7);
    // The keys of items that were never stored: the index knows nothing of them.
    let absent: Vec<_> = present.iter().map(|item| item + items as u32).collect();
    for (prefetch, is_on) in [("prefetch on", true), ("prefetch off", false)] {
        engine.cache().set_prefetch(is_on);
        let mut loops_ns = [const { Vec::new() }; STEPS.len()];
        for round in 0..=options.common.rounds() {
            let of_round = [
                ns_of_each(&present, keys::<K>),
                ns_of_each(&present, hashes::<K>),
                ns_of_each(&absent, |list| engine.run(list).misses),
                ns_of_each(&present, |list| engine.run(list).hits),
            ];
            // The first warms up.
            for (loop_ns, (ns, _)) in loops_ns.iter_mut().zip(of_round) {
                loop_ns.extend((round > 0).then_some(ns));
            }
            let (missed, found) = (of_round[2].1, of_round[3].1);
            if missed * 100 < present.len() as u64 * 99 || found * 10 < present.len() as u64 * 9 {
                return Err(format!("{name}: {missed} missed, {found} found").into());
            }
        }
        let case = format!("{name}, {prefetch}");
        let mut before_ns = 0.0;
        for (step, loop_ns) in STEPS.iter().zip(&loops_ns) {
            let added_ns: Vec<_> = loop_ns.iter().map(|ns| ns - before_ns).collect();
            report.value(&case, step, "ns", &added_ns);
            before_ns = median(loop_ns);
        }
        report.value(&case, "all", "ns", &loops_ns[STEPS.len() - 1]);
    }
    engine.cache().set_prefetch(true);
    Ok(())
}

/// The time of each operation, and what the loop counted.
fn ns_of_each(list: &[u32], run: impl FnOnce(&[u32]) -> u64) -> (f64, u64) {
    let start = Instant::now();
    // The compiler would leave out a loop whose result is unused.
    let count = black_box(run(list));
    (start.elapsed().as_nanos() as f64 / list.len() as f64, count)
}

fn keys<const K: usize>(list: &[u32]) -> u64 {
    list.iter().fold(0, |sum, item| sum ^ u64::from(black_box(bytes::<K>(*item))[0]))
}

/// Makes and hashes them.
fn hashes<const K: usize>(list: &[u32]) -> u64 {
    list.iter().fold(0, |sum, item| sum ^ KeyHash::of(&black_box(bytes::<K>(*item)), SEED).0)
}
