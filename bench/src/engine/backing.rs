//! Cost of the memory of `--kernel-get` for the engine: BPF arrays, which are 4 KiB pages, beside
//! fresh memory on huge pages; and the time that it takes to make them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use micanite_bpf::{Map, MapOptions, MapType};
use micanite_engine::{Cache, Config, Layout, Maps};

use super::Options;
use super::contenders::{Contender, Micanite, SET, config_of};
use super::throughput::{fill, slice};
use crate::Result;
use crate::harness::popularity::{Popularity, Random};
use crate::results::measurement::Measurement;

/// The most bytes of an array that a program can address: the verifier bounds offsets.
const ARRAY_BYTES_MAX: usize = 512 << 20;
/// Items that fit the caches.
const ITEMS_CACHED: u64 = 16 << 10;
const MADE_BYTES: usize = 1 << 30;

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    if let Err(error) = array(4096) {
        report.note(format!("BPF arrays as backing were not measured: {error}"));
        return Ok(());
    }
    make(options, report)?;
    data_set::<8, 8>("tiny 8/8 in the caches", ITEMS_CACHED, options, report)?;
    data_set::<8, 8>("tiny 8/8", options.items, options, report)?;
    data_set::<16, 64>("small 16/64", options.items, options, report)
}

/// Arrays for the partitions of a cache.
fn maps(config: &Config) -> Result<Maps> {
    let layout = Layout::of(config)?;
    let of_partition = |_| array(layout.partition_bytes);
    let descriptors: io::Result<_> = (0..layout.partitions).map(of_partition).collect();
    Ok(Maps { descriptors: descriptors?, kept: false })
}

fn array(bytes: usize) -> io::Result<Arc<OwnedFd>> {
    let name = (MapType::Array, "mc_partition");
    let map = Map::create(&MapOptions { mmapable: true, ..MapOptions::new(name, 4, bytes, 1) })?;
    Ok(Arc::new(map.into()))
}

/// The time until 1 GiB is there and every page can be written.
fn make(options: &Options, report: &mut Measurement) -> Result<()> {
    let case = "backing: 1 GiB";
    if !options.common.wants(case) {
        return Ok(());
    }
    let config =
        Config { memory_bytes: MADE_BYTES, partition_bytes_max: ARRAY_BYTES_MAX, ..Config::default() };
    let (mut created, mut opened, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.common.rounds() {
        eprint!("\r{case} round {}   ", round + 1);
        let start = Instant::now();
        let maps = Some(maps(&config)?);
        created.push(start.elapsed().as_secs_f64());
        Cache::new(&Config { maps, ..config.clone() })?.populate();
        opened.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        Cache::new(&config)?.populate();
        fresh.push(start.elapsed().as_secs_f64());
    }
    eprintln!();
    report.value(case, "BPF arrays created", "s", &created);
    let what = (case, "BPF arrays created and mapped, all pages present", "s");
    report.beside(what, &opened, "fresh memory", &fresh);
    Ok(())
}

/// Both backings in turns, in every mix.
fn data_set<const K: usize, const V: usize>(
    name: &str,
    items: u64,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    let cases = cases(name, items, options);
    if cases.is_empty() {
        return Ok(());
    }
    eprintln!("backing: filling {items} items of {name}, twice");
    let config = Config { partition_bytes_max: ARRAY_BYTES_MAX, ..config_of::<K, V>(items, 1) };
    let maps = Some(maps(&config)?);
    let mut arrays = Micanite::<K, V>::new(&Config { maps, ..config.clone() })?;
    let mut fresh = Micanite::<K, V>::new(&config)?;
    for ours in [&mut arrays, &mut fresh] {
        ours.cache().populate();
        fill(ours, items);
    }
    let pages = [&arrays, &fresh].map(|ours| ours.cache().pages().name());
    report.note(format!("backing, {name}: {} beside {}", pages[0], pages[1]));
    for (case, operations) in cases {
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..=options.common.rounds() {
            eprint!("\r{case} round {round}   ");
            let both: [&mut dyn Contender; 2] = [&mut arrays, &mut fresh];
            for (ours, rates) in both.into_iter().zip(&mut rates) {
                let (rate, _) = slice(ours, &operations)?;
                // The first round warms up.
                rates.extend((round > 0).then_some(rate));
            }
        }
        eprintln!();
        let what = (case.as_str(), "operations per core", "M/s");
        report.beside(what, &rates[0], "fresh memory", &rates[1]);
    }
    Ok(())
}

/// The cases that are wanted, with their operations.
fn cases(data_set: &str, items: u64, options: &Options) -> Vec<(String, Vec<u32>)> {
    let count = if options.common.quick { 1 << 20 } else { 4 << 20 };
    let mut cases = Vec::new();
    for popularity in [Popularity::Uniform, Popularity::Zipf] {
        for get_percent in [100, 50] {
            let popular = popularity.name();
            let case = format!("backing: {data_set} {popular} {get_percent} % GET");
            let skip = options.common.quick && popularity == Popularity::Zipf;
            if !options.common.wants(&case) || skip {
                continue;
            }
            let mut operations = popularity.draw(items, count, 11);
            let mut random = Random::new(5);
            for operation in &mut operations {
                if random.below(100) >= get_percent {
                    *operation |= SET;
                }
            }
            cases.push((case, operations));
        }
    }
    cases
}
