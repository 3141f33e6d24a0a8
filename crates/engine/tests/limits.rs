//! The limit of the memory changes while requests run: a store keeps all that it acknowledged, a cache may
//! miss and never lies, and the memory goes back to the system.

#[path = "common/directory.rs"]
mod directory;
#[path = "common/random.rs"]
mod random;

use std::collections::HashMap;
use std::env::temp_dir;
use std::path::Path;
use std::sync::Arc;

use directory::Directory;
use micanite_engine::*;
use random::Random;

const NOW_S: u32 = 1000;
const MIB: usize = 1 << 20;
const MAX_BYTES: usize = 16 * MIB;
/// Calls of upkeep within which the memory has followed a limit.
const ROUNDS_MAX: usize = 10_000;

fn config(semantics: Semantics, image: Option<&Directory>) -> Config {
    Config {
        memory_bytes: 8 * MIB,
        memory_bytes_max: Some(MAX_BYTES),
        partition_bytes_max: 4 * MIB,
        value_bytes_max: 4096,
        semantics,
        image: image.map(|directory| directory.0.clone()),
        ..Config::default()
    }
}

fn value(key: u64, version: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![version as u8; bytes.max(16)];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value[8..16].copy_from_slice(&version.to_le_bytes());
    value
}

fn get(worker: &mut Worker, key: u64) -> Option<Vec<u8>> {
    worker.get_with(&key.to_le_bytes(), NOW_S, |value, _| value.to_vec()).unwrap()
}

/// Calls upkeep until the memory is as small, or as large, as its limit.
fn settle(cache: &Cache, worker: &mut Worker) {
    for _ in 0..ROUNDS_MAX {
        if cache.follows_memory_limit() {
            return;
        }
        worker.maintain(NOW_S);
    }
    panic!("{} bytes are used, the limit is {}", cache.memory_used_bytes(), cache.memory_limit_bytes());
}

/// Requests beside a model, in a cache or a store whose limit changes all the time.
struct Run {
    cache: Arc<Cache>,
    worker: Worker,
    model: HashMap<u64, Vec<u8>>,
    random: Random,
    is_store: bool,
    /// Limits that were set, and those that were refused.
    changes: [usize; 2],
    refused: usize,
    hits: usize,
}

impl Run {
    fn new(config: &Config, seed: u64) -> Self {
        let cache = Arc::new(Cache::new(config).unwrap());
        let worker = cache.worker(0).unwrap();
        let is_store = config.semantics == Semantics::Store;
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { cache, worker, model: HashMap::new(), random, is_store, changes: [0; 2], refused: 0, hits: 0 }
    }

    fn set(&mut self, key: u64, bytes: usize) {
        let value = value(key, self.random.below(1 << 40), bytes);
        let outcome = self.worker.set(&key.to_le_bytes(), &value, Expiry::NEVER, NOW_S);
        match outcome {
            Outcome::Stored => drop(self.model.insert(key, value)),
            Outcome::OutOfMemory => self.refused += 1,
            other => panic!("{other:?}"),
        }
        // A cache forgets the old value of a key that it has no room for; a store keeps it.
        if outcome != Outcome::Stored && !self.is_store {
            self.model.remove(&key);
        }
    }

    fn check(&mut self, key: u64) {
        let found = get(&mut self.worker, key);
        let expected = self.model.get(&key);
        self.hits += usize::from(found.is_some());
        if self.is_store || found.is_some() {
            assert!(found.as_ref() == expected, "key {key}");
        }
    }

    fn step(&mut self) {
        let key = self.random.below(20_000);
        match self.random.below(1000) {
            0..500 => {
                let bytes = if self.random.below(50) == 0 { 3000 } else { 16 + self.random.below(600) };
                self.set(key, bytes as usize);
            }
            500..900 => self.check(key),
            900..980 => {
                self.worker.delete(&key.to_le_bytes(), NOW_S);
                self.model.remove(&key);
            }
            980..995 => self.worker.maintain(NOW_S),
            _ => {
                let bytes = MIB + self.random.below((MAX_BYTES - MIB) as u64 + 1) as usize;
                let result = self.cache.set_memory_limit(bytes);
                self.changes[usize::from(result.is_err())] += 1;
                if let Err(LimitError::TooSmall { least_bytes }) = result {
                    self.cache.set_memory_limit(least_bytes).unwrap();
                }
            }
        }
    }

    /// Ends without closing an image.
    fn end(self) -> HashMap<u64, Vec<u8>> {
        self.model
    }

    fn check_all(&mut self) {
        let keys: Vec<u64> = self.model.keys().copied().collect();
        keys.into_iter().for_each(|key| self.check(key));
    }
}

fn model(semantics: Semantics, image: bool) {
    for seed in 1..4 {
        let directory = Directory::new(&temp_dir(), &format!("limits-model-{semantics:?}-{image}-{seed}"));
        let config = config(semantics, image.then_some(&directory));
        let mut run = Run::new(&config, seed);
        for round in 0..6 {
            (0..20_000).for_each(|_| run.step());
            if round % 2 == 1 {
                settle(&run.cache, &mut run.worker);
            }
            run.check_all();
        }
        assert!(run.changes[0] > 50 && run.hits > 10_000, "{:?}, {}", run.changes, run.hits);
        if !image {
            continue;
        }
        // The process ends without closing the image, in the middle of a change.
        let least = [4, 6, 8, 10].into_iter().find(|mib| run.cache.set_memory_limit(mib * MIB).is_ok());
        assert!(least.is_some());
        run.worker.maintain(NOW_S);
        let mut run =
            Run { model: run.end(), ..Run::new(&Config { memory_bytes: MAX_BYTES, ..config }, seed) };
        assert_eq!(*run.cache.image_state(), ImageState::Recovered);
        run.check_all();
        settle(&run.cache, &mut run.worker);
        assert_eq!(run.cache.memory_used_bytes(), MAX_BYTES);
        run.check_all();
        (0..20_000).for_each(|_| run.step());
        run.check_all();
    }
}

#[test]
fn a_cache_whose_limit_changes_never_lies() {
    model(Semantics::Cache, false);
}

#[test]
fn a_store_whose_limit_changes_loses_nothing() {
    model(Semantics::Store, false);
}

/// A store whose owner had not yet followed a lower limit took more than the limit allows. An overwrite then
/// lost the old value, or left the new one in the reserve, where the next overwrite lost it, and the image
/// could not be opened again.
#[test]
fn overwrites_in_a_store_above_its_limit_lose_nothing() {
    for (bytes, image) in [(400, true), (400, false), (20, true), (3000, true)] {
        let directory = Directory::new(&temp_dir(), &format!("limits-above-{bytes}-{image}"));
        let config = config(Semantics::Store, image.then_some(&directory));
        let mut run = Run::new(&config, bytes);
        let items = 2 * MIB as u64 / (bytes + 40);
        (0..items).for_each(|key| run.set(key, bytes as usize));
        let Err(LimitError::TooSmall { least_bytes }) = run.cache.set_memory_limit(MIB) else {
            panic!("{bytes}: a limit of half of the items");
        };
        run.cache.set_memory_limit(least_bytes).unwrap();
        for round in 0..4 {
            (items..2 * items).for_each(|key| run.set(key, bytes as usize));
            let refused = run.refused;
            assert!(refused > 0, "{bytes}: no new item was refused");
            let keys: Vec<u64> = run.model.keys().copied().collect();
            keys.iter().for_each(|key| run.set(*key, bytes as usize));
            assert_eq!(run.refused, refused, "{bytes}: an overwrite was refused");
            run.check_all();
            (0..20 * round).for_each(|_| run.worker.maintain(NOW_S));
        }
        settle(&run.cache, &mut run.worker);
        run.check_all();
        if image {
            run.cache.close().unwrap();
            let mut run = Run { model: run.end(), ..Run::new(&config, bytes) };
            assert_eq!(*run.cache.image_state(), ImageState::Clean);
            run.check_all();
        }
    }
}

#[test]
fn a_cache_in_files_whose_limit_changes_never_lies() {
    model(Semantics::Cache, true);
}

#[test]
fn a_store_in_files_whose_limit_changes_loses_nothing() {
    model(Semantics::Store, true);
}

/// A lower limit keeps the newest items of a cache, about as many as fit, and files take less of the disk.
#[test]
fn a_lower_limit_evicts_the_oldest_and_gives_memory_back() {
    // ext4 goes on counting blocks that were given back.
    let directory = Directory::new(Path::new("/dev/shm"), "limits-lower");
    let config = Config {
        memory_bytes: MAX_BYTES,
        eviction: Eviction::Fifo,
        ..config(Semantics::Cache, Some(&directory))
    };
    let mut run = Run::new(&config, 1);
    for key in 0..20_000u64 {
        run.set(key, 1000);
    }
    let full = run.cache.stats().items_live;
    assert!(directory.allocated_bytes() > 15 * MIB);
    run.cache.set_memory_limit(6 * MIB).unwrap();
    settle(&run.cache, &mut run.worker);
    (0..20).for_each(|_| run.worker.maintain(NOW_S));
    let allocated = directory.allocated_bytes();
    assert!(allocated < 10 * MIB, "{allocated}");
    let kept = run.cache.stats().items_live;
    assert!(kept * 16 > full * 5 && kept * 16 < full * 6, "{kept} of {full}");
    let newest: Vec<u64> = (20_000 - kept * 8 / 10..20_000).collect();
    let found = newest.iter().filter(|key| get(&mut run.worker, **key).is_some()).count();
    assert!(found * 100 >= newest.len() * 95, "{found} of {}", newest.len());
    // It grows again, and then holds what it held.
    run.cache.set_memory_limit(MAX_BYTES).unwrap();
    settle(&run.cache, &mut run.worker);
    for key in 20_000..40_000u64 {
        run.set(key, 1000);
    }
    let again = run.cache.stats().items_live;
    assert!(again * 100 > full * 97, "{again} of {full}");
    assert!(directory.allocated_bytes() > 15 * MIB);
}

/// Calls upkeep until nothing is left to do for the limit.
fn settle_wholly(run: &mut Run) {
    for _ in 0..ROUNDS_MAX {
        run.worker.maintain(NOW_S);
        if !run.cache.is_following_limit() {
            return;
        }
    }
    panic!("the limit is not followed");
}

/// A full cache uses the space of a higher limit: new items come beside the old ones.
#[test]
fn a_higher_limit_is_used_before_anything_is_evicted() {
    for eviction in [Eviction::S3Fifo, Eviction::Fifo] {
        let mut run = Run::new(&Config { eviction, ..config(Semantics::Cache, None) }, 1);
        (0..12_000u64).for_each(|key| run.set(key, 1000));
        let full = run.cache.stats();
        assert!(full.evicted_log > 3_000);
        run.cache.set_memory_limit(MAX_BYTES).unwrap();
        settle_wholly(&mut run);
        let moved = run.cache.stats();
        assert!(moved.items_live * 100 > full.items_live * 99, "{} of {}", moved.items_live, full.items_live);
        (20_000..26_000u64).for_each(|key| run.set(key, 1000));
        let after = run.cache.stats();
        let evicted = after.evicted_log - moved.evicted_log;
        assert!(evicted < 100, "{eviction:?}: {evicted} evicted, {} live", after.items_live);
        run.check_all();
    }
}

/// A lower limit evicts nothing as long as everything fits: items of the small log move to main.
#[test]
fn a_lower_limit_keeps_what_fits() {
    let config = Config { memory_bytes: MAX_BYTES, ..config(Semantics::Cache, None) };
    let mut run = Run::new(&config, 1);
    (0..2_500u64).for_each(|key| run.set(key, 1000));
    run.cache.set_memory_limit(6 * MIB).unwrap();
    settle_wholly(&mut run);
    assert_eq!(run.cache.stats().evicted_log, 0);
    run.check_all();
    assert_eq!(run.hits, 2_500);
}

/// Pages that were used again after a higher limit go back with the next lower one.
#[test]
fn memory_goes_back_each_time() {
    // ext4 counts blocks of the last filling for a while, however the pages went.
    let directory = Directory::new(Path::new("/dev/shm"), "limits-again");
    let config = Config { memory_bytes: MAX_BYTES, ..config(Semantics::Cache, Some(&directory)) };
    let mut run = Run::new(&config, 1);
    for _ in 0..2 {
        run.cache.set_memory_limit(MAX_BYTES).unwrap();
        settle_wholly(&mut run);
        (0..20_000u64).for_each(|key| run.set(key, 1000));
        assert!(directory.allocated_bytes() > 15 * MIB);
        run.cache.set_memory_limit(6 * MIB).unwrap();
        settle_wholly(&mut run);
        let allocated = directory.allocated_bytes();
        assert!(allocated < 10 * MIB, "{allocated}");
    }
    run.check_all();
}

/// A limit out of bounds is refused with the limit that is possible, and that one is taken.
#[test]
fn an_impossible_limit_is_refused_with_one_that_is_possible() {
    let mut run = Run::new(&config(Semantics::Store, None), 1);
    for key in 0..5_000u64 {
        run.set(key, 1000);
    }
    assert_eq!(run.refused, 0);
    let too_large = run.cache.set_memory_limit(MAX_BYTES + MIB).unwrap_err();
    assert_eq!(too_large, LimitError::TooLarge { most_bytes: MAX_BYTES });
    let Err(LimitError::TooSmall { least_bytes }) = run.cache.set_memory_limit(4 * MIB) else {
        panic!("5 MB of items have no room in 4 MiB");
    };
    assert_eq!(run.cache.memory_limit_bytes(), 8 * MIB);
    assert!(least_bytes > 5 * MIB && least_bytes < 8 * MIB, "{least_bytes}");
    run.cache.set_memory_limit(least_bytes).unwrap();
    settle(&run.cache, &mut run.worker);
    run.check_all();
    for key in 5_000..20_000u64 {
        run.set(key, 1000);
    }
    assert!(run.refused > 13_000, "{}", run.refused);
    run.cache.set_memory_limit(MAX_BYTES).unwrap();
    settle(&run.cache, &mut run.worker);
    for key in 5_000..10_000u64 {
        run.set(key, 1000);
    }
    assert!(run.model.len() > 9_900, "{}", run.model.len());
    run.check_all();
}

/// An image remembers the limit: the next start begins with its own, and finds all items.
#[test]
fn an_image_with_another_limit_is_opened() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let directory = Directory::new(&temp_dir(), &format!("limits-reopen-{semantics:?}"));
        let config = config(semantics, Some(&directory));
        let mut run = Run::new(&config, 1);
        (0..3_000u64).for_each(|key| run.set(key, 1000));
        run.cache.set_memory_limit(5 * MIB).unwrap();
        settle(&run.cache, &mut run.worker);
        let count = run.cache.stats().items_live;
        run.cache.close().unwrap();
        let model = run.end();
        for memory_bytes in [5 * MIB, 12 * MIB, 8 * MIB] {
            let mut run = Run::new(&Config { memory_bytes, ..config.clone() }, 1);
            run.model.clone_from(&model);
            assert_eq!(*run.cache.image_state(), ImageState::Clean);
            settle(&run.cache, &mut run.worker);
            assert_eq!(run.cache.memory_limit_bytes(), memory_bytes);
            assert_eq!(run.cache.stats().items_live, count);
            run.check_all();
            assert_eq!(run.hits as u64, count);
            run.cache.close().unwrap();
            run.end();
        }
    }
}
