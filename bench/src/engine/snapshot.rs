//! A snapshot of a cache while a thread reads and writes it: how long it takes, and what the
//! thread still does meanwhile.

use std::time::{Duration, Instant};

use micanite_engine::{Access, Config};

use super::Options;
use super::contenders::config_of;
use super::cores::threads::{Draw, Pair, Span, alone};
use super::scratch::Scratch;
use crate::Result;
use crate::harness::popularity::Popularity;
use crate::results::measurement::Measurement;

const MEMORY_BYTES: usize = 1 << 30;
/// Nearly nine tenths of the memory, with headers and index.
const ITEMS: u64 = 1 << 20;
const VALUE_BYTES: usize = 768;

pub(crate) fn run(options: &Options, cpus: [usize; 2], report: &mut Measurement) -> Result<()> {
    let case = "snapshot of 1 GiB beside 50 % SET";
    if options.common.quick || !options.common.wants(case) {
        return Ok(());
    }
    let config = Config {
        memory_bytes: MEMORY_BYTES,
        access: Access::Crcw,
        ..config_of::<128, VALUE_BYTES>(ITEMS, 2)
    };
    let mut pair = Pair::new(&config, cpus)?;
    pair.cache.populate();
    pair.fill::<128, VALUE_BYTES>(ITEMS);
    let draw =
        Draw { popularity: Popularity::Uniform, items: ITEMS, get_percent: 50, count: 1 << 20, seed: 1 };
    let list = pair.draw::<128>(|_| true, &draw);
    let (mut durations, mut before, mut during) = (Vec::new(), Vec::new(), Vec::new());
    let mut copied = Vec::new();
    for round in 0..options.common.rounds() {
        eprint!("\r{case} round {}   ", round + 1);
        let span = Span::For(Duration::from_secs(1));
        before.push(pair.run::<128, VALUE_BYTES>([&list, &[]], span, alone)?[0]);
        let scratch = Scratch::new("snapshot")?;
        let cache = std::sync::Arc::clone(&pair.cache);
        let beside = |_: &_| {
            let start = Instant::now();
            let snapshot = cache.snapshot(scratch.path(), 0)?;
            durations.push(start.elapsed().as_secs_f64());
            copied.push(snapshot.bytes as f64 / (1 << 20) as f64);
            Ok(())
        };
        let lists: [&[u32]; 2] = [&list, &[]];
        during.push(pair.run::<128, VALUE_BYTES>(lists, Span::WhileBeside, beside)?[0]);
    }
    eprintln!();
    report.value(case, "duration", "s", &durations);
    report.value(case, "keys and values copied", "MiB", &copied);
    let what = (case, "operations of one thread meanwhile", "M/s");
    report.beside(what, &during, "before", &before);
    Ok(())
}
