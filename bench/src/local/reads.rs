//! Gets of 8-byte keys and values by a reader, beside the engine's own on memory of this process: one at a
//! time, where each key depends on the value before, and in batches of 64.

use std::sync::Arc;
use std::time::Instant;

use micanite_client::LocalLink;
use micanite_engine::{
    Access, BATCH_REQUESTS_MAX, Cache, Config, Operation, Outcome, ReplySink, Request, Route, ValueMeta,
    Worker,
};

use super::Options;
use super::place::{BYTES, Place};
use crate::Result;
use crate::engine::contenders::{Contender, Done, Micanite, bytes, config_of, first_word, run_worker};
use crate::engine::throughput::fill;
use crate::harness::popularity::Popularity;
use crate::results::measurement::Measurement;

/// Items that fit the caches of a core.
const ITEMS_CACHED: u64 = 16 << 10;

pub(super) fn run(options: &Options, cpu: usize, report: &mut Measurement) -> Result<()> {
    data_set("tiny 8/8 in the caches", ITEMS_CACHED, options, cpu, report)?;
    data_set(&format!("tiny 8/8, {} Mi items", options.items() >> 20), options.items(), options, cpu, report)
}

fn data_set(name: &str, items: u64, options: &Options, cpu: usize, report: &mut Measurement) -> Result<()> {
    let (single, batched) = (format!("{name}, one at a time"), format!("{name}, batches of 64"));
    if !options.common.wants(&single) && !options.common.wants(&batched) {
        return Ok(());
    }
    eprintln!("local: filling {items} items, three times");
    let config = config_of::<BYTES, BYTES>(items, 1);
    let server = Place::start(&options.binaries.server, config.memory_bytes, cpu)?;
    server.fill(items)?;
    let mut link = server.link()?;
    let mut own = Micanite::<BYTES, BYTES>::new(&config)?;
    own.cache().populate();
    fill(&mut own, items);
    let mut crew = crew_reader(&config, items)?;
    let mut list = Popularity::Uniform.draw(items, if options.common.quick { 1 << 20 } else { 2 << 20 }, 7);
    list.truncate(list.len() / BATCH_REQUESTS_MAX * BATCH_REQUESTS_MAX);
    let mut ns = [const { Vec::new() }; 5];
    for round in 0..=options.common.rounds() {
        eprint!("\r{name} round {round}   ");
        let of_round = [
            ns_of_each(&list, |list| reader_single(&mut link, list))?,
            ns_of_each(&list, |list| Ok(worker_single(own.worker(), list)))?,
            ns_of_each(&list, |list| reader_batches(&mut link, list))?,
            ns_of_each(&list, |list| Ok(run_worker::<BYTES, BYTES>(&mut crew, list)))?,
            ns_of_each(&list, |list| Ok(own.run(list)))?,
        ];
        // The first warms up.
        for (ns, of_round) in ns.iter_mut().zip(of_round) {
            ns.extend((round > 0).then_some(of_round));
        }
    }
    eprintln!();
    let [reader, worker, reader_batch, crew_batch, own_batch] = ns;
    report.beside((&single, "GET by a reader", "ns"), &reader, "the engine's own GET", &worker);
    let rates = |ns: &[f64]| ns.iter().map(|ns| 1e3 / ns).collect::<Vec<_>>();
    let ours = rates(&reader_batch);
    report.beside((&batched, "GETs by a reader", "M/s"), &ours, "the engine, CREW", &rates(&crew_batch));
    report.beside((&batched, "GETs by a reader", "M/s"), &ours, "the engine's owner", &rates(&own_batch));
    Ok(())
}

/// A worker that may only read, and whose owner does nothing meanwhile.
fn crew_reader(config: &Config, items: u64) -> Result<Worker> {
    let config = Config { workers: 2, ..config.clone() };
    let cache = Arc::new(Cache::new(&config)?);
    cache.populate();
    let mut worker = cache.worker(0).ok_or("no worker")?;
    let sets: Vec<u32> = (0..items as u32).map(|item| item | crate::engine::contenders::SET).collect();
    run_worker::<BYTES, BYTES>(&mut worker, &sets);
    for partition in 0..cache.layout().partitions {
        cache.set_route(partition, Route { access: Access::Crew, owner: 1 })?;
    }
    Ok(worker)
}

fn ns_of_each(list: &[u32], run: impl FnOnce(&[u32]) -> Result<Done>) -> Result<f64> {
    let start = Instant::now();
    let done = run(list)?;
    let ns = start.elapsed().as_nanos() as f64 / list.len() as f64;
    done.check("gets")?;
    Ok(ns)
}

fn reader_single(link: &mut LocalLink, list: &[u32]) -> Result<Done> {
    let (mut done, mut value, mut chain) = (Done::default(), Vec::new(), 0);
    for item in list {
        // Zero, which the compiler does not know: a get begins when the one before has its value.
        let key: [u8; BYTES] = bytes(*item ^ chain);
        let found = link.get(&key, &mut value)?.map(|_| first_word(std::hint::black_box(&value)));
        chain = std::hint::black_box(found.unwrap_or(0) as u32) & 0x8000_0000;
        done.count(found, u64::from(*item));
    }
    Ok(done)
}

fn reader_batches(link: &mut LocalLink, list: &[u32]) -> Result<Done> {
    let mut done = Done::default();
    for chunk in list.chunks(BATCH_REQUESTS_MAX) {
        let mut keys = [[0; BYTES]; BATCH_REQUESTS_MAX];
        for (key, item) in keys.iter_mut().zip(chunk) {
            *key = bytes(*item);
        }
        let names: [&[u8]; BATCH_REQUESTS_MAX] = std::array::from_fn(|at| &keys[at][..]);
        link.get_many(&names[..chunk.len()], |at, found| {
            let found = found.map(|(value, _)| first_word(std::hint::black_box(value)));
            done.count(found, u64::from(chunk[at]));
        })?;
    }
    Ok(done)
}

/// Copies one value out.
struct Sink {
    value: [u8; BYTES],
    outcome: Outcome,
}

impl ReplySink for Sink {
    #[inline]
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.value.get_mut(..meta.value_bytes)
    }

    #[inline]
    fn rollback(&mut self, _: usize) {}

    #[inline]
    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.outcome = outcome;
    }
}

fn worker_single(worker: &mut Worker, list: &[u32]) -> Done {
    let (mut done, mut chain) = (Done::default(), 0);
    let mut sink = Sink { value: [0; BYTES], outcome: Outcome::NotFound };
    for item in list {
        let key: [u8; BYTES] = bytes(*item ^ chain);
        let request =
            Request { hash: worker.cache().hash(&key), key: &key, operation: Operation::Get { cas: false } };
        worker.execute(&[request], 0, &mut sink);
        let found = (sink.outcome == Outcome::Hit).then(|| first_word(std::hint::black_box(&sink.value)));
        chain = std::hint::black_box(found.unwrap_or(0) as u32) & 0x8000_0000;
        done.count(found, u64::from(*item));
    }
    done
}
