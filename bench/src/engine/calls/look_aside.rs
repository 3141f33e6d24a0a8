//! A look-aside cache under pressure: Zipfian requests, of which four to eight percent miss. What misses is
//! stored, and something leaves for it.

use std::hint::black_box;
use std::time::Instant;

use arrayvec::ArrayVec;
use micanite_engine::{
    BATCH_REQUESTS_MAX, Condition, Config, Expiry, Operation, Outcome, ReplySink, Request, ValueMeta, Worker,
};

use crate::Result;
use crate::engine::Options;
use crate::engine::contenders::{Contender, Done, Micanite, bytes, config_of, first_word};
use crate::engine::peers::{Foyer, Moka, QuickCache};
use crate::harness::popularity::Popularity;
use crate::results::measurement::Measurement;

pub(super) const COUNT: usize = 1 << 21;
/// Items that requests ask for, in parts of those that there is room for.
pub(super) const ITEMS_SHARE: u64 = 4;

/// A cache that is asked, and given what it lacks.
pub(crate) trait LookAside: Contender {
    fn look_aside(&mut self, items: &[u32]) -> Done;
}

/// A cache that threads share as it is.
pub(crate) trait SharedLookAside: Contender + Sync {
    /// Asks for the items one after the other, and stores what is missing.
    fn ask(&self, items: &[u32]) -> Done;
}

/// Rounds that fill a cache for so many items.
pub(super) fn rounds_to_fill(items: u64) -> u64 {
    4 * items / COUNT as u64 + 4
}

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    let room = options.items / 16;
    of_size::<8, 8>("8/8", room, options, report)?;
    of_size::<16, 64>("16/64", room / 2, options, report)?;
    of_size::<16, 400>("16/400", room / 4, options, report)
}

fn of_size<const K: usize, const V: usize>(
    name: &str,
    room: u64,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    let case = format!("look-aside, {name}, zipf 0.99 over {ITEMS_SHARE} times {room} items");
    if !options.common.wants(&case) {
        return Ok(());
    }
    let eviction = options.eviction.unwrap_or_default();
    let mut ours = Micanite::<K, V>::new(&Config { eviction, ..config_of::<K, V>(room, 1) })?;
    ours.cache().populate();
    let items = room * ITEMS_SHARE;
    let requests = |seed: u64| Popularity::Zipf.draw(items, COUNT, seed);
    // Until all memory of ours is used: then the others get room for as many items.
    for seed in 0..rounds_to_fill(items) {
        ours.look_aside(&requests(1000 + seed));
    }
    let there = ours.cache().stats().items_live;
    let (mut quick_cache, mut moka, mut foyer) =
        (QuickCache::<K, V>::of_room(there), Moka::<K, V>::new(there), Foyer::<K, V>::new(there));
    let mut all: [&mut dyn LookAside; 4] = [&mut ours, &mut quick_cache, &mut moka, &mut foyer];
    for seed in 0..rounds_to_fill(items) {
        let requests = requests(1000 + seed);
        for peer in all.iter_mut().skip(1) {
            peer.look_aside(&requests);
        }
    }
    let mut all_ns = [const { Vec::new() }; 4];
    let mut misses = [const { Vec::new() }; 4];
    for round in 0..options.common.rounds() as u64 {
        let requests = requests(round);
        for ((contender, all_ns), misses) in all.iter_mut().zip(&mut all_ns).zip(&mut misses) {
            let began = Instant::now();
            let done = contender.look_aside(&requests);
            all_ns.push(began.elapsed().as_nanos() as f64 / requests.len() as f64);
            if done.wrong > 0 {
                return Err(format!("{}: {} wrong values", contender.name(), done.wrong).into());
            }
            misses.push(done.misses as f64 / requests.len() as f64 * 100.0);
        }
    }
    for at in 1..all.len() {
        report.beside((&case, "request", "ns"), &all_ns[0], all[at].name(), &all_ns[at]);
        report.beside((&case, "misses", "%"), &misses[0], all[at].name(), &misses[at]);
    }
    Ok(())
}

/// Notes what misses.
struct Sink<'a, const V: usize> {
    items: &'a [u32],
    value: [u8; V],
    done: Done,
    missing: ArrayVec<u32, BATCH_REQUESTS_MAX>,
}

impl<const V: usize> ReplySink for Sink<'_, V> {
    #[inline]
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.value.get_mut(..meta.value_bytes)
    }

    #[inline]
    fn rollback(&mut self, _: usize) {}

    #[inline]
    fn finish(&mut self, index: usize, outcome: Outcome) {
        let item = self.items[index];
        match outcome {
            Outcome::Hit => self.done.count(Some(first_word(black_box(&self.value))), item.into()),
            Outcome::Stored => {}
            _ => {
                self.done.misses += 1;
                self.missing.push(item);
            }
        }
    }
}

impl<const K: usize, const V: usize> LookAside for Micanite<K, V> {
    fn look_aside(&mut self, items: &[u32]) -> Done {
        in_batches::<K, V>(self.worker(), items)
    }
}

/// Asks a worker for the items in the longest batches, and stores what is missing.
pub(super) fn in_batches<const K: usize, const V: usize>(worker: &mut Worker, items: &[u32]) -> Done {
    let mut total = Done::default();
    for items in items.chunks(BATCH_REQUESTS_MAX) {
        let keys: ArrayVec<[u8; K], BATCH_REQUESTS_MAX> = items.iter().map(|item| bytes(*item)).collect();
        let gets: ArrayVec<Request<'_>, BATCH_REQUESTS_MAX> = (keys.iter())
            .map(|key| Request {
                hash: worker.cache().hash(key),
                key,
                operation: Operation::Get { cas: false },
            })
            .collect();
        let mut sink = Sink::<V> { items, value: [0; V], done: Done::default(), missing: ArrayVec::new() };
        worker.execute(&gets, 0, &mut sink);
        total.add(sink.done);
        let missing = std::mem::take(&mut sink.missing);
        let pairs: ArrayVec<([u8; K], [u8; V]), BATCH_REQUESTS_MAX> =
            missing.iter().map(|item| (bytes(*item), bytes(*item))).collect();
        let sets: ArrayVec<Request<'_>, BATCH_REQUESTS_MAX> = (pairs.iter())
            .map(|(key, value)| {
                let (condition, expiry) = (Condition::Always, Expiry::NEVER);
                let operation = Operation::Store { condition, value, flags: 0, expiry };
                Request { hash: worker.cache().hash(key), key, operation }
            })
            .collect();
        worker.execute(&sets, 0, &mut sink);
    }
    total
}

/// Asks for the items one after the other, and inserts what is missing.
#[inline(always)]
pub(crate) fn one_by_one<const K: usize, const V: usize>(
    items: &[u32],
    get: impl Fn(&[u8; K]) -> Option<[u8; V]>,
    insert: impl Fn([u8; K], [u8; V]),
) -> Done {
    let mut done = Done::default();
    for item in items {
        let key = bytes(*item);
        let found = get(&key).map(|value| first_word(black_box(&value)));
        done.count(found, (*item).into());
        if found.is_none() {
            insert(key, bytes(*item));
        }
    }
    done
}
