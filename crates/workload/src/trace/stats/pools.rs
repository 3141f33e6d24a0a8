//! The pools of Facebook's Memcached, as traces: what was published of them comes out again, and why reads
//! miss in the engine itself.

use micanite_engine::Eviction;

use crate::{Miss, Pool};

use super::figures::Figures;
use super::gather::{Gathered, Question, gather};
use super::groups::ALL;
use crate::trace::generate::Generated;
use crate::trace::simulate::Policy;
use crate::trace::{Failure, Operation, Reader, Request};

const KEYS: u64 = 3000;

/// A pool's requests of so many hours, in a server with so many bytes.
fn gathered(pool: Pool, hours: f64, memory_bytes: Option<u64>, daily: bool) -> Gathered {
    let requests = pool.gets_per_hour(KEYS) * hours / pool.mix()[0];
    let mut generated = Generated::of_pool(pool, KEYS, requests as u64, daily);
    let cache = memory_bytes.map(|bytes| (Policy::Engine(Eviction::default()), bytes));
    let question = Question { cache, ..Question::new(1 << 24) };
    gather(&mut generated, &question, &mut |_| {}).unwrap()
}

fn figures(gathered: &Gathered) -> &Figures {
    let (number, _, figures) = gathered.groups.shown(0).remove(0);
    assert_eq!(number, ALL);
    figures
}

/// A memory that holds as many items as the pool's hit rate takes.
fn memory_bytes(pool: Pool) -> u64 {
    const ITEM_OVERHEAD_BYTES: usize = 8 + 15;
    let (mut items, mut bytes) = (0, 0);
    let mut generated = Generated::of_pool(pool, KEYS, 0, false);
    while let Ok(Some(request)) = generated.next() {
        let payload_bytes = request.payload_bytes().unwrap_or(0) as usize;
        // One value of a megabyte would be most of so small a server.
        if payload_bytes < 100_000 {
            items += 1;
            bytes += payload_bytes.next_multiple_of(8) + ITEM_OVERHEAD_BYTES;
        }
    }
    pool.items_held(KEYS) * bytes as u64 / items
}

/// Two days to warm up, and three that count.
#[test]
fn hit_rates_and_causes_of_misses_in_the_engine() {
    for (pool, hits, cause, share) in [
        (Pool::Usr, 98.2, Miss::Eviction, 87.0),
        (Pool::App, 92.9, Miss::Eviction, 72.0),
        (Pool::Etc, 81.4, Miss::Eviction, 22.0),
        (Pool::Var, 93.7, Miss::Compulsory, 100.0),
        (Pool::Sys, 98.7, Miss::Compulsory, 100.0),
    ] {
        // The times of day change all pools alike: one has to do.
        let daily = pool == Pool::Etc;
        let memory_bytes = Some(memory_bytes(pool));
        let [warm, all] =
            [48.0, 120.0].map(|hours| figures(&gathered(pool, hours, memory_bytes, daily)).reads);
        let [found, compulsory, invalidation, capacity]: [f64; 4] =
            std::array::from_fn(|read| all[read] - warm[read]);
        let misses = compulsory + invalidation + capacity;
        let found = 100.0 * found / (found + misses);
        assert!((found - hits).abs() < 1.0, "{pool}: {found} % hit");
        let causes = [compulsory, invalidation, capacity].map(|reads| 100.0 * reads / misses);
        let found = causes[cause as usize];
        assert!((found - share).abs() < 5.0, "{pool}: {causes:?}");
    }
}

/// Operations, lengths and reuse, as `stats` finds them.
#[test]
fn published_figures_come_out_again() {
    let gathered = gathered(Pool::Etc, 60.0, None, false);
    let etc = figures(&gathered);
    let filled = Pool::Etc.prefill_items(KEYS);
    let share = |operation: Operation| {
        let filled = if operation == Operation::Set { filled } else { 0 };
        let all = etc.requests - Pool::Etc.prefill_items(KEYS);
        100.0 * (etc.operations[operation as usize] - filled) as f64 / all as f64
    };
    for (operation, published) in [(Operation::Get, 73.6), (Operation::Set, 2.3), (Operation::Delete, 24.1)] {
        let found = share(operation);
        assert!((found - published).abs() < 0.3, "{operation:?}: {found}");
    }
    let up_to = |bytes: u32| {
        let sizes = etc.value_bytes.cumulative();
        let last = sizes.iter().rfind(|up_to| up_to.bytes <= bytes);
        last.map_or(0.0, |up_to| up_to.count_share)
    };
    // By requests, not by items, and the hottest of few items weigh much.
    let tiny = up_to(3) + up_to(11) - up_to(10);
    assert!((tiny - 0.4).abs() < 0.1, "{tiny}");
    assert!(etc.reused_within(1) < etc.reused_within(2) && etc.reused_within(6) > 0.94);
}

/// A pool's reads alone: what was published of reuse and popularity is about GETs.
struct ReadsOnly(Generated);

impl Reader for ReadsOnly {
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        self.0.next_read()
    }
}

/// About a fifth of APP's and ETC's keys are asked for at most once in any hour of a week, and 88.5 % of
/// ETC's reuse comes within an hour, as published. 40 % of APP's keys get 1 % of the requests, as
/// published, and 39 % of ETC's, which are to be 50 %.
#[test]
fn a_week_by_the_day() {
    for (pool, unpopular) in [(Pool::App, 0.4), (Pool::Etc, 0.39)] {
        let requests = pool.gets_per_hour(KEYS) * 168.0 / pool.mix()[0];
        let mut reads = ReadsOnly(Generated::of_pool(pool, KEYS, requests as u64, true));
        let gathered = gather(&mut reads, &Question::new(1 << 24), &mut |_| {}).unwrap();
        let once = gathered.never_twice_in_an_hour(ALL).unwrap();
        assert!((once - 0.2).abs() < 0.03, "{pool}: {once}");
        let popularity = gathered.popularity(ALL);
        let keys = popularity.points.iter().take_while(|(_, requests)| *requests <= 0.01);
        let keys = keys.last().map_or(0.0, |(keys, _)| *keys);
        assert!((keys - unpopular).abs() < 0.05, "{pool}: {keys}");
        if pool == Pool::Etc {
            let found = [1, 2, 6].map(|hours| 100.0 * figures(&gathered).reused_within(hours));
            for (found, published) in found.into_iter().zip([88.5, 92.5, 96.4]) {
                assert!((found - published).abs() < 2.0, "{found}, not {published}");
            }
        }
    }
}

/// Bursts show in a trace, some with more hits than before and some with fewer.
#[test]
fn bursts_raise_and_lower_the_hits() {
    let mut generated = Generated::of_pool(Pool::App, 3000, 1_330_000, true);
    let cache = Some((Policy::Lru, 2_170_000));
    let question = Question { cache, interval_s: 60, ..Question::new(1 << 24) };
    let gathered = gather(&mut generated, &question, &mut |_| {}).unwrap();
    let changes: Vec<f64> = gathered.bursts.listed().iter().filter_map(|burst| burst.change()).collect();
    let (more, fewer) = changes.iter().partition::<Vec<f64>, _>(|change| **change > 0.0);
    assert!(more.len() > 1 && fewer.len() > 1, "{changes:?}");
    assert!(gathered.bursts.listed().iter().any(|burst| burst.peak > 2.0));
}
