//! Time until a cache serves again from its image: after it was closed, and after it was not.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use micanite_engine::{Cache, Config, ImageState, Worker};

use super::Options;
use super::contenders::{SET, config_of, run_worker};
use super::scratch::Scratch;
use crate::Result;
use crate::harness::popularity::Random;
use crate::results::measurement::Measurement;

const MEMORY_BYTES: usize = 4 << 30;
/// About nine tenths of the memory, with headers and index.
const ITEMS: u32 = 3_200_000;
const FIRST_GETS: usize = 1000;

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    let case = "start on an image of 4 GiB, 128/1024";
    if options.common.quick || !options.common.wants(case) {
        return Ok(());
    }
    let scratch = Scratch::new("restart")?;
    eprintln!("{case}: filling");
    let (cache, mut worker) = open(scratch.path(), &ImageState::Created)?;
    for first in (0..ITEMS).step_by(1 << 16) {
        let last = ITEMS.min(first + (1 << 16));
        let items: Vec<_> = (first..last).map(|item| item | SET).collect();
        run_worker::<128, 1024>(&mut worker, &items);
    }
    let items = cache.stats().items_live;
    report.note(format!("{case}: {items} items are there"));
    cache.close()?;
    drop((worker, cache));
    let (mut clean, mut recovered) = (Vec::new(), Vec::new());
    for round in 0..options.common.rounds() {
        eprint!("\r{case} round {}   ", round + 1);
        let mut random = Random::new(round as u64 + 1);
        // Not closed, so the next start finds what a killed process leaves.
        clean.push(start(scratch.path(), &ImageState::Clean, &mut random, false)?);
        recovered.push(start(scratch.path(), &ImageState::Recovered, &mut random, true)?);
    }
    eprintln!();
    let metric = "until 1000 GETs are served";
    let closed = format!("{case}, closed before");
    report.value(&closed, metric, "ms", &clean);
    let killed = format!("{case}, not closed before");
    report.value(&killed, metric, "ms", &recovered);
    Ok(())
}

fn open(directory: &Path, expected: &ImageState) -> Result<(Arc<Cache>, Worker)> {
    let config = Config {
        memory_bytes: MEMORY_BYTES,
        image: Some(directory.to_owned()),
        ..config_of::<128, 1024>(1, 1)
    };
    let cache = Arc::new(Cache::new(&config)?);
    if cache.image_state() != expected {
        return Err(format!("the image is {:?}", cache.image_state()).into());
    }
    let worker = cache.worker(0).ok_or("no worker")?;
    Ok((cache, worker))
}

/// Milliseconds from the start to the first thousand values served, checked.
fn start(directory: &Path, expected: &ImageState, random: &mut Random, close: bool) -> Result<f64> {
    let gets: Vec<_> = (0..FIRST_GETS).map(|_| random.below(ITEMS.into()) as u32).collect();
    let start = Instant::now();
    let (cache, mut worker) = open(directory, expected)?;
    let done = run_worker::<128, 1024>(&mut worker, &gets);
    let elapsed = start.elapsed();
    done.check("the image")?;
    if close {
        cache.close()?;
    }
    Ok(elapsed.as_secs_f64() * 1e3)
}
