//! Pages of the gaps that a limit leaves: whatever happens, no more is allocated, or resident, than the limit
//! and what [`Config::growth_bytes`] names.

#[path = "common/directory.rs"]
mod directory;
#[path = "common/random.rs"]
mod random;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use directory::Directory;
use micanite_engine::*;
use micanite_memory::numa::Policy;
use random::Random;

const NOW_S: u32 = 1000;
const MIB: usize = 1 << 20;
const MAX_BYTES: usize = 128 * MIB;
/// Calls of upkeep within which the memory has followed a limit.
const ROUNDS_MAX: usize = 100_000;
/// Memory of the test itself: names, lists, the allocator's.
const OWN_BYTES: usize = 2 * MIB;

/// Makes a directory in memory if there is such a file system: only there files have huge pages, and a load
/// from a hole takes space.
fn directory(name: &str) -> Directory {
    let shared = Path::new("/dev/shm");
    let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    Directory::new(&parent, &format!("pages-{name}"))
}

/// Keeps other tests of this process from taking memory, until the result is dropped.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what is resident of this process.
fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn config(semantics: Semantics, image: Option<&Directory>) -> Config {
    Config {
        memory_bytes: 24 * MIB,
        memory_bytes_max: Some(MAX_BYTES),
        value_bytes_max: 4096,
        semantics,
        image: image.map(|directory| directory.0.clone()),
        ..Config::default()
    }
}

/// Counts the items of a walk.
#[derive(Default)]
struct Count(usize, usize);

impl Visitor for Count {
    fn item(&mut self, _: &ItemInfo<'_>) -> Visit {
        self.1 += 1;
        Visit::Next
    }

    fn take_back(&mut self) {
        self.1 = 0;
    }

    fn keep(&mut self) {
        self.0 += std::mem::take(&mut self.1);
    }
}

/// A cache, or store, and all that touches its memory.
struct Run {
    cache: Arc<Cache>,
    worker: Worker,
    random: Random,
    config: Config,
    resident_before: usize,
}

impl Run {
    fn new(config: &Config, seed: u64) -> Self {
        let resident_before = resident_bytes();
        let cache = Arc::new(Cache::new(config).unwrap());
        let worker = cache.worker(0).unwrap();
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { cache, worker, random, config: config.clone(), resident_before }
    }

    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.worker.maintain(NOW_S);
            if !self.cache.is_following_limit() {
                return;
            }
        }
        panic!("the limit of {} bytes is not followed", self.cache.memory_limit_bytes());
    }

    fn fill(&mut self, count: u64) {
        for _ in 0..count {
            let (key, bytes) = (self.random.below(300_000), self.random.below(1500) as usize);
            if self.random.below(10) == 0 {
                self.worker.delete(&key.to_le_bytes(), NOW_S);
            } else {
                self.worker.set(&key.to_le_bytes(), &vec![key as u8; bytes], Expiry::NEVER, NOW_S);
            }
        }
    }

    /// Has everything look at the memory that does.
    fn touch(&mut self) {
        while self.cache.collapse_used() {}
        let (mut walk, mut count) = (Walk::default(), Count::default());
        while self.cache.walk(&mut walk, 1000, NOW_S, &mut count) != Walked::End {}
        assert_eq!(count.0 as u64, self.cache.stats().items_live);
        for partition in 0..self.cache.layout().partitions {
            let bytes = self.cache.layout().partition_bytes;
            self.cache.move_memory(partition, 0, bytes, &Policy::Prefer(0)).unwrap();
        }
        self.cache.populate();
        self.worker.maintain(NOW_S);
    }

    fn check(&self, directory: Option<&Directory>) {
        let limit_bytes = self.cache.memory_limit_bytes();
        let growth = Config { memory_bytes: limit_bytes, ..self.config.clone() }.growth_bytes().unwrap();
        if let Some(directory) = directory {
            let allocated = directory.allocated_bytes();
            assert!(allocated <= limit_bytes + growth, "{allocated} allocated, the limit is {limit_bytes}");
        }
        let resident = resident_bytes() - self.resident_before;
        let most = limit_bytes + growth + OWN_BYTES;
        assert!(resident <= most, "{resident} resident, the limit is {limit_bytes}");
    }
}

fn history(semantics: Semantics, image: bool) {
    let _alone = alone();
    for seed in 1..4 {
        let directory = directory(&format!("history-{semantics:?}-{image}-{seed}"));
        let directory = image.then_some(&directory);
        let mut run = Run::new(&config(semantics, directory), seed);
        run.touch();
        run.check(directory);
        for _ in 0..8 {
            let count = run.random.below(30_000);
            run.fill(count);
            let mib = 8 + run.random.below(121) as usize;
            let wanted = mib * MIB;
            if let Err(LimitError::TooSmall { least_bytes }) = run.cache.set_memory_limit(wanted) {
                run.cache.set_memory_limit(least_bytes).unwrap();
            }
            // Some changes come before the last one is complete.
            for _ in 0..run.random.below(40) {
                run.worker.maintain(NOW_S);
                run.cache.collapse_used();
            }
            if run.random.below(3) == 0 {
                continue;
            }
            run.settle();
            run.touch();
            run.settle();
            run.check(directory);
        }
        if image {
            run.cache.close().unwrap();
        }
    }
}

#[test]
fn a_cache_takes_no_more_than_its_limit_and_what_is_printed() {
    history(Semantics::Cache, false);
}

#[test]
fn a_store_takes_no_more_than_its_limit_and_what_is_printed() {
    history(Semantics::Store, false);
}

#[test]
fn a_cache_in_files_takes_no_more_than_its_limit_and_what_is_printed() {
    history(Semantics::Cache, true);
}

#[test]
fn a_store_in_files_takes_no_more_than_its_limit_and_what_is_printed() {
    history(Semantics::Store, true);
}

/// Huge pages were put under an empty cache, from its beginning to the end of what the greatest limit uses.
#[test]
fn an_empty_cache_with_a_high_greatest_limit_takes_little() {
    let _alone = alone();
    let directory = directory("empty");
    let config = Config { memory_bytes_max: Some(2048 * MIB), ..config(Semantics::Cache, Some(&directory)) };
    for _ in 0..2 {
        let mut run = Run::new(&config, 1);
        run.touch();
        run.settle();
        run.check(Some(&directory));
        run.cache.close().unwrap();
    }
}

/// The index of a store that shrinks beside a gap gives its lines to the items, whose space then reaches into
/// pages that had gone back.
#[test]
fn an_index_that_shrinks_beside_a_gap_loses_nothing() {
    let _alone = alone();
    let directory = directory("shrink");
    let mut run = Run::new(&config(Semantics::Store, Some(&directory)), 1);
    for key in 0..100_000u64 {
        run.worker.set(&key.to_le_bytes(), b"small", Expiry::NEVER, NOW_S);
    }
    run.settle();
    for key in 1000..100_000u64 {
        run.worker.delete(&key.to_le_bytes(), NOW_S);
    }
    let before = run.cache.stats().buckets;
    (0..2000).for_each(|_| run.worker.maintain(NOW_S));
    assert!(run.cache.stats().buckets < before / 2);
    let mut stored = 0u64;
    while run.worker.set(&(1 << 32 | stored).to_le_bytes(), &[7; 4000], Expiry::NEVER, NOW_S)
        == Outcome::Stored
    {
        stored += 1;
    }
    run.settle();
    run.check(Some(&directory));
    for key in (0..1000).chain((0..stored).map(|number| 1 << 32 | number)) {
        assert!(run.worker.get_with(&u64::to_le_bytes(key), NOW_S, |_, _| ()).unwrap().is_some(), "{key}");
    }
}
