//! Nanoseconds of an operation by the length of the batch and of the key, over items that the caches hold:
//! what a short batch costs, and a key whose length is no multiple of a word.

use std::time::Instant;

use crate::Result;
use crate::engine::Options;
use crate::engine::contenders::{Micanite, SET, config_of, run_batches};
use crate::engine::throughput::fill;
use crate::harness::popularity::Popularity;
use crate::results::measurement::Measurement;

/// Items that fit the caches.
const ITEMS: u64 = 16 << 10;
const COUNT: usize = 1 << 20;
const BATCHES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const KINDS: [(&str, u32); 2] = [("GET", 0), ("SET", SET)];

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    of_batches(options, report)?;
    beside::<5, 8>(options, report)?;
    beside::<11, 16>(options, report)?;
    beside::<20, 24>(options, report)?;
    beside::<31, 32>(options, report)
}

fn filled<const K: usize>() -> Result<Micanite<K, 8>> {
    let mut ours = Micanite::new(&config_of::<K, 8>(ITEMS, 1))?;
    ours.cache().populate();
    fill(&mut ours, ITEMS);
    Ok(ours)
}

fn operations(kind: u32) -> Vec<u32> {
    let drawn = Popularity::Uniform.draw(ITEMS, COUNT, 13);
    drawn.into_iter().map(|item| item | kind).collect()
}

/// The time of an operation in batches of `batch`.
fn ns<const K: usize>(ours: &mut Micanite<K, 8>, operations: &[u32], batch: usize) -> Result<f64> {
    let start = Instant::now();
    let done = run_batches::<K, 8>(ours.worker(), operations, batch);
    let ns = start.elapsed().as_nanos() as f64 / operations.len() as f64;
    done.check("micanite")?;
    Ok(ns)
}

fn of_batches(options: &Options, report: &mut Measurement) -> Result<()> {
    let case = |kind: &str, batch: usize| format!("in the caches, {kind}, batches of {batch}");
    let wanted = |kind: &str| BATCHES.iter().any(|batch| options.common.wants(&case(kind, *batch)));
    if !KINDS.iter().any(|(kind, _)| wanted(kind)) {
        return Ok(());
    }
    let mut ours = filled::<8>()?;
    for (kind, bit) in KINDS {
        let operations = operations(bit);
        let mut of_batches = [const { Vec::new() }; BATCHES.len()];
        for round in 0..=options.common.rounds() {
            for (batch, all_ns) in BATCHES.iter().zip(&mut of_batches) {
                let ns = ns(&mut ours, &operations, *batch)?;
                // The first round warms up.
                all_ns.extend((round > 0).then_some(ns));
            }
        }
        for (batch, all_ns) in BATCHES.iter().zip(&of_batches) {
            report.value(&case(kind, *batch), "operation", "ns", all_ns);
        }
    }
    Ok(())
}

/// Keys of `K` bytes beside keys of the nearest multiple of a word.
fn beside<const K: usize, const WHOLE: usize>(options: &Options, report: &mut Measurement) -> Result<()> {
    let case = |kind: &str| format!("in the caches, {kind}, keys of {K} bytes");
    if !KINDS.iter().any(|(kind, _)| options.common.wants(&case(kind))) {
        return Ok(());
    }
    let (mut odd, mut whole) = (filled::<K>()?, filled::<WHOLE>()?);
    let batch = BATCHES[BATCHES.len() - 1];
    for (kind, bit) in KINDS {
        let operations = operations(bit);
        let (mut odd_ns, mut whole_ns) = (Vec::new(), Vec::new());
        for round in 0..=options.common.rounds() {
            let of_round = (ns(&mut odd, &operations, batch)?, ns(&mut whole, &operations, batch)?);
            if round > 0 {
                odd_ns.push(of_round.0);
                whole_ns.push(of_round.1);
            }
        }
        let (case, peer) = (case(kind), format!("{WHOLE} bytes"));
        report.beside((&case, "operation", "ns"), &odd_ns, &peer, &whole_ns);
    }
    Ok(())
}
