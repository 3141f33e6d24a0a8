//! New keys, in batches: into an empty cache until all have come, and into a full one, where an old key
//! leaves for each.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use micanite_engine::{Config, Expiry, Outcome};

use crate::Result;
use crate::engine::Options;
use crate::engine::contenders::{Contender, Done, Micanite, SET, bytes, config_of};
use crate::engine::peers::{Foyer, Hashbrown, Moka, QuickCache};
use crate::engine::throughput::{fill, slice, store};
use crate::results::measurement::Measurement;

/// Insertions of a slice into a full cache, and slices in a row of the table that removes keys: it is
/// rehashed once in so many, and each of its figures is to have its share of that.
const COUNT: u64 = 1 << 20;
const TABLE_SLICES: u64 = 4;

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    let items = options.items / 2;
    of_size::<8, 8>("8/8", items, options, report)?;
    of_size::<16, 64>("16/64", items / 2, options, report)?;
    of_size::<16, 400>("16/400", items / 8, options, report)
}

fn of_size<const K: usize, const V: usize>(
    name: &str,
    items: u64,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    let case = |what: &str| format!("new keys, {name}, {items} items, {what}");
    let (growing, sized, full) = (case("growing"), case("sized"), case("into a full cache"));
    let steps = case("the slowest while growing");
    if options.common.wants(&growing) {
        empty::<K, V>(&growing, items, false, options, report)?;
    }
    if options.common.wants(&sized) {
        empty::<K, V>(&sized, items, true, options, report)?;
    }
    if options.common.wants(&steps) {
        slowest::<K, V>(&steps, items, options, report)?;
    }
    if options.common.wants(&full) {
        into_full::<K, V>(&full, items, options, report)?;
    }
    Ok(())
}

/// The time of a key when a new cache is filled. The memory of ours is there before; the table beside it gets
/// its own before (`sized`) or as it grows, from the system.
fn empty<const K: usize, const V: usize>(
    case: &str,
    items: u64,
    sized: bool,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    let (mut ours_ns, mut peer_ns) = (Vec::new(), Vec::new());
    for round in 0..=options.common.rounds() {
        let config = Config {
            item_bytes_hint: sized.then_some(K + V),
            eviction: options.eviction.unwrap_or_default(),
            ..config_of::<K, V>(items, 1)
        };
        let mut ours = Micanite::<K, V>::new(&config)?;
        ours.cache().populate();
        let of_ours = ns(&mut ours, 0..items)?;
        let there = ours.cache().stats().items_live;
        if there < items / 100 * 99 {
            return Err(format!("{case}: {there} items of {items}").into());
        }
        drop(ours);
        let mut peer = Hashbrown::<K, V>::new(if sized { items } else { 0 });
        let of_peer = ns(&mut peer, 0..items)?;
        // The first round warms up.
        if round > 0 {
            ours_ns.push(of_ours);
            peer_ns.push(of_peer);
        }
    }
    report.beside((case, "insertion", "ns"), &ours_ns, "hashbrown 0.17", &peer_ns);
    Ok(())
}

/// The 99.9th percentile of the time of a SET by itself while the index grows with its items, beside one that
/// had its size before: the cost of a step of the growth for the request that meets it.
fn slowest<const K: usize, const V: usize>(
    case: &str,
    items: u64,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    let mut all_ns = [const { Vec::new() }; 2];
    for _ in 0..options.common.rounds() {
        for (hint, all_ns) in [None, Some(K + V)].into_iter().zip(&mut all_ns) {
            let eviction = options.eviction.unwrap_or_default();
            let config = Config { item_bytes_hint: hint, eviction, ..config_of::<K, V>(items, 1) };
            let mut ours = Micanite::<K, V>::new(&config)?;
            ours.cache().populate();
            let mut times_ns: Vec<u64> = (0..items as u32)
                .map(|item| {
                    let (key, value) = (bytes::<K>(item), bytes::<V>(item));
                    let began = Instant::now();
                    let stored = ours.worker().set(&key, &value, Expiry::NEVER, 0);
                    let took = began.elapsed();
                    debug_assert_eq!(stored, Outcome::Stored);
                    took.as_nanos() as u64
                })
                .collect();
            let place = times_ns.len() * 999 / 1000;
            all_ns.push(*times_ns.select_nth_unstable(place).1 as f64);
        }
    }
    let [growing, sized] = all_ns;
    report.beside((case, "p99.9 of a SET", "ns"), &growing, "sized before", &sized);
    Ok(())
}

/// The time of a new key in a full cache, beside caches that hold as many items, and a table that removes the
/// oldest.
fn into_full<const K: usize, const V: usize>(
    case: &str,
    items: u64,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    let eviction = options.eviction.unwrap_or_default();
    let mut ours = Micanite::<K, V>::new(&Config { eviction, ..config_of::<K, V>(items, 1) })?;
    ours.cache().populate();
    // As often as it takes for the logs to have laps, whatever the policy is.
    fill(&mut ours, 4 * items);
    let there = ours.cache().stats().items_live;
    let mut table = Oldest::<K, V>::new(there);
    let (mut quick_cache, mut moka) = (QuickCache::<K, V>::of_room(there), Moka::<K, V>::new(there));
    let mut foyer = Foyer::<K, V>::new(there);
    let mut peers: [&mut dyn Contender; 4] = [&mut table, &mut quick_cache, &mut moka, &mut foyer];
    peers.iter_mut().for_each(|peer| store(*peer, 0..there + there / 4));
    let mut ours_ns = Vec::new();
    let mut peers_ns = [const { Vec::new() }; 4];
    for round in 0..=options.common.rounds() as u64 {
        let first = 4 * items + round * COUNT;
        let of_ours = ns(&mut ours, first..first + COUNT)?;
        ours_ns.extend((round > 0).then_some(of_ours));
        let counts = [TABLE_SLICES * COUNT, COUNT, COUNT, COUNT];
        for ((peer, all_ns), count) in peers.iter_mut().zip(&mut peers_ns).zip(counts) {
            let first = 4 * items + round * count;
            let of_peer = ns(*peer, first..first + count)?;
            all_ns.extend((round > 0).then_some(of_peer));
        }
    }
    let stats = ours.cache().stats();
    let full_percent =
        stats.evicted_bucket as f64 / (stats.evicted_log + stats.evicted_bucket).max(1) as f64 * 100.0;
    report.note(format!("{case}: full buckets chose {full_percent:.2} % of what left ours"));
    for (peer, all_ns) in peers.iter().zip(&peers_ns) {
        report.beside((case, "insertion", "ns"), &ours_ns, peer.name(), all_ns);
    }
    Ok(())
}

fn ns(contender: &mut dyn Contender, items: Range<u64>) -> Result<f64> {
    let operations: Vec<_> = items.map(|item| item as u32 | SET).collect();
    let (rate, _) = slice(contender, &operations)?;
    Ok(1e3 / rate)
}

/// hashbrown as a cache: it removes the oldest key for each that is new.
struct Oldest<const K: usize, const V: usize> {
    table: Hashbrown<K, V>,
    keys: VecDeque<[u8; K]>,
    room: usize,
}

impl<const K: usize, const V: usize> Oldest<K, V> {
    fn new(room: u64) -> Self {
        let keys = VecDeque::with_capacity(room as usize + 1);
        Self { table: Hashbrown::new(room + 1), keys, room: room as usize }
    }
}

impl<const K: usize, const V: usize> Contender for Oldest<K, V> {
    fn name(&self) -> &'static str {
        "hashbrown 0.17 that removes the oldest"
    }

    fn run(&mut self, operations: &[u32]) -> Done {
        for operation in operations {
            if self.keys.len() == self.room
                && let Some(oldest) = self.keys.pop_front()
            {
                self.table.remove(&oldest);
            }
            let key = bytes(*operation);
            self.keys.push_back(key);
            self.table.put(key, bytes(*operation));
        }
        Done::default()
    }
}
