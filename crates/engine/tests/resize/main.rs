//! An image of another size: its items are copied to a new one, which takes its place, wherever the process
//! is killed.

mod room;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use micanite_engine::*;

const NOW_S: u32 = 1000;
const MIB: usize = 1 << 20;
const ITEMS: u64 = 4000;

/// A directory that is removed with its test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("micanite-resize-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn image(&self) -> PathBuf {
        self.0.join("image")
    }

    fn config(&self, semantics: Semantics, mib: usize) -> Config {
        Config {
            memory_bytes: mib * MIB,
            partition_bytes_max: 4 * MIB,
            value_bytes_max: 4096,
            semantics,
            image: Some(self.image()),
            ..Config::default()
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(config: &Config) -> (Arc<Cache>, Worker) {
    let cache = Arc::new(Cache::new(config).unwrap());
    let worker = cache.worker(0).unwrap();
    (cache, worker)
}

fn value(key: u64) -> Vec<u8> {
    let mut value = vec![key as u8; 100 + key as usize % 900];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value
}

fn set(worker: &mut Worker, key: u64, expiry: Expiry) -> Outcome {
    worker.set(&key.to_le_bytes(), &value(key), expiry, NOW_S)
}

fn fill(config: &Config) {
    let (cache, mut worker) = open(config);
    for key in 0..ITEMS {
        assert_eq!(set(&mut worker, key, Expiry::NEVER), Outcome::Stored);
    }
    cache.close().unwrap();
}

/// Returns the keys that are found, each with its own value.
fn found(worker: &mut Worker, now_s: u32) -> Vec<u64> {
    let mut keys = Vec::new();
    for key in 0..ITEMS {
        let there = worker.get_with(&key.to_le_bytes(), now_s, |bytes, _| bytes == value(key)).unwrap();
        if let Some(same) = there {
            assert!(same, "key {key}");
            keys.push(key);
        }
    }
    keys
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("partition-"));
    files.sort();
    files
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in files(from) {
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// Larger and smaller images hold the same items, whether the old one was closed or its process was killed.
#[test]
fn items_stay_in_an_image_of_another_size() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let directory = Directory::new(&format!("sizes-{semantics:?}"));
        fill(&directory.config(semantics, 8));
        for (mib, close) in [(16, true), (6, false), (7, true), (64, false), (8, true)] {
            let config = directory.config(semantics, mib);
            let (cache, mut worker) = open(&config);
            let ImageState::Resized { to_bytes, .. } = *cache.image_state() else {
                panic!("{:?}", cache.image_state());
            };
            assert_eq!(to_bytes, mib * MIB);
            assert_eq!(found(&mut worker, NOW_S).len() as u64, ITEMS);
            assert_eq!(cache.stats().items_live, ITEMS);
            if close {
                cache.close().unwrap();
            }
        }
    }
}

/// Flushed items and those of invalid namespaces do not return, and expiries stay.
#[test]
fn what_was_flushed_does_not_return() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let directory = Directory::new(&format!("flushed-{semantics:?}"));
        let config = Config { namespace_delimiter: Some(b':'), ..directory.config(semantics, 8) };
        let (cache, mut worker) = open(&config);
        for key in 0..1000 {
            set(&mut worker, key, Expiry::NEVER);
        }
        worker.flush_all(NOW_S, NOW_S);
        for key in 1000..2000 {
            let expiry = if key < 1500 { Expiry::NEVER } else { Expiry(NOW_S + 50) };
            set(&mut worker, key, expiry);
        }
        worker.set(b"name:key", b"value", Expiry::NEVER, NOW_S);
        worker.invalidate_namespace(b"name", NOW_S).unwrap();
        cache.close().unwrap();
        drop((cache, worker));
        let (cache, mut worker) = open(&Config { memory_bytes: 12 * MIB, ..config });
        assert!(cache.image_state().is_kept());
        assert!(found(&mut worker, NOW_S).into_iter().eq(1000..2000));
        assert_eq!(worker.get_with(b"name:key", NOW_S, |_, _| ()), Ok(None));
        assert!(found(&mut worker, NOW_S + 60).into_iter().eq(1000..1500));
    }
}

/// A process that was killed while it exchanged the files leaves the rest to the next one.
#[test]
fn an_exchange_that_was_cut_short_is_completed() {
    let directory = Directory::new("exchange");
    let (small, large) = (directory.config(Semantics::Store, 8), directory.config(Semantics::Store, 20));
    fill(&small);
    let (old, new) = (directory.0.join("old"), directory.0.join("new"));
    copy_files(&directory.image(), &old);
    let (cache, worker) = open(&large);
    cache.close().unwrap();
    drop((cache, worker));
    copy_files(&directory.image(), &new);
    let count = files(&new).len();
    assert!(count > files(&old).len());
    for moved in [0, 1, count / 2, count - 1, count] {
        fs::remove_dir_all(directory.image()).unwrap();
        copy_files(&old, &directory.image());
        let complete = directory.image().join("resized");
        copy_files(&new, &complete);
        for file in files(&complete).into_iter().rev().take(moved) {
            fs::rename(&file, directory.image().join(file.file_name().unwrap())).unwrap();
        }
        let (cache, mut worker) = open(&large);
        assert_eq!(*cache.image_state(), ImageState::Clean, "{moved}");
        assert_eq!(found(&mut worker, NOW_S).len() as u64, ITEMS);
        assert!(!complete.exists());
        assert_eq!(files(&directory.image()).len(), count);
    }
}

/// A new image that was not completed is removed, and the old one is as it was.
#[test]
fn an_image_that_was_not_completed_is_removed() {
    let directory = Directory::new("incomplete");
    let config = directory.config(Semantics::Store, 8);
    fill(&config);
    let beside = directory.image().join("resizing");
    copy_files(&directory.image(), &beside);
    let (cache, mut worker) = open(&config);
    assert_eq!(*cache.image_state(), ImageState::Clean);
    assert_eq!(found(&mut worker, NOW_S).len() as u64, ITEMS);
    assert!(!beside.exists());
}

/// A store whose items have no room is refused, and the image stays; the size that the text names suffices.
#[test]
fn a_store_is_refused_with_a_size_that_suffices() {
    let directory = Directory::new("refused");
    let config = directory.config(Semantics::Store, 8);
    fill(&config);
    let error = Cache::new(&directory.config(Semantics::Store, 2)).unwrap_err();
    assert_eq!(error.kind(), CreateErrorKind::Mismatch);
    let text = error.to_string();
    let least = text.rsplit("-m ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((3..8).contains(&least), "{text}");
    let (cache, mut worker) = open(&config);
    assert_eq!(*cache.image_state(), ImageState::Clean);
    assert_eq!(found(&mut worker, NOW_S).len() as u64, ITEMS);
    cache.close().unwrap();
    drop((cache, worker));
    let (_cache, mut worker) = open(&directory.config(Semantics::Store, least));
    assert_eq!(found(&mut worker, NOW_S).len() as u64, ITEMS);
}

/// A smaller cache keeps the items that were stored last.
#[test]
fn a_smaller_cache_keeps_the_newest_items() {
    let directory = Directory::new("newest");
    let config = Config { eviction: Eviction::Fifo, ..directory.config(Semantics::Cache, 8) };
    fill(&config);
    let (_cache, mut worker) = open(&Config { memory_bytes: MIB, ..config });
    let found = found(&mut worker, NOW_S);
    assert!(found.len() > 1000 && found.len() < 2500, "{}", found.len());
    let newest = found.iter().filter(|key| **key >= ITEMS - found.len() as u64).count();
    assert!(newest * 100 > found.len() * 95, "{newest} of {}", found.len());
}

/// Fills an image whose limit was raised from 8 to 24 MiB while it was open, and closes it or is killed.
/// Returns its configuration and the keys that it holds.
fn grown(directory: &Directory, semantics: Semantics, value_bytes: usize, close: bool) -> (Config, Vec<u64>) {
    let config = Config { memory_bytes_max: Some(24 * MIB), ..directory.config(semantics, 8) };
    let (cache, mut worker) = open(&config);
    cache.set_memory_limit(24 * MIB).unwrap();
    while cache.is_following_limit() {
        worker.maintain(NOW_S);
    }
    let value = vec![7; value_bytes];
    let keys = (0..(20 * MIB / (value_bytes + 40)) as u64)
        .filter(|key| worker.set(&key.to_le_bytes(), &value, Expiry::NEVER, NOW_S) == Outcome::Stored);
    let keys = keys.collect();
    let snapshot = directory.0.join("snapshot");
    assert_eq!(cache.snapshot(&snapshot, NOW_S).unwrap().left_out, 0);
    if close {
        cache.close().unwrap();
    }
    (config, keys)
}

fn count_found(worker: &mut Worker, keys: &[u64]) -> usize {
    let is_there = |key: &&u64| worker.get_with(&key.to_le_bytes(), NOW_S, |_, _| ()).unwrap().is_some();
    keys.iter().filter(is_there).count()
}

/// After the limit was raised while a server ran, its image was refused for good. It is opened at the least
/// limit that fits, and a store has all of its items.
#[test]
fn an_image_that_has_grown_is_opened_at_the_least_limit_that_fits() {
    for (semantics, value_bytes, close) in [
        (Semantics::Store, 1000, true),
        (Semantics::Store, 8, false),
        (Semantics::Cache, 1000, false),
        (Semantics::Cache, 8, true),
    ] {
        let directory = Directory::new(&format!("grown-{semantics:?}-{value_bytes}-{close}"));
        let (config, keys) = grown(&directory, semantics, value_bytes, close);
        assert!(Cache::try_out(&config, false).is_ok());
        let (cache, mut worker) = open(&config);
        let limit = cache.memory_limit_bytes();
        let needs_more = semantics == Semantics::Store || value_bytes == 8;
        assert!(if needs_more { limit > 8 * MIB && limit < 24 * MIB } else { limit == 8 * MIB }, "{limit}");
        while cache.is_following_limit() {
            worker.maintain(NOW_S);
        }
        assert!(cache.memory_used_bytes() <= limit);
        let found = count_found(&mut worker, &keys);
        match semantics {
            Semantics::Store => assert_eq!(found, keys.len()),
            Semantics::Cache => assert!(found * 5 > keys.len(), "{found} of {}", keys.len()),
        }
        // A smaller limit is refused with the same bound, once less is there it is taken.
        if semantics == Semantics::Store {
            assert!(cache.set_memory_limit(8 * MIB).is_err());
            for key in &keys[keys.len() / 8..] {
                worker.delete(&key.to_le_bytes(), NOW_S);
            }
            (0..4000).for_each(|_| worker.maintain(NOW_S));
            cache.set_memory_limit(8 * MIB).unwrap();
        }
    }
}

/// Another size has the same rule: a store gets a higher limit than the configured one, as far as the
/// greatest one allows it.
#[test]
fn a_store_of_another_size_gets_the_limit_that_it_needs() {
    let directory = Directory::new("other-size");
    let (config, keys) = grown(&directory, Semantics::Store, 1000, true);
    let too_small = Config { memory_bytes_max: Some(16 * MIB), ..config.clone() };
    assert_eq!(Cache::try_out(&too_small, false).unwrap_err().kind(), CreateErrorKind::Mismatch);
    assert_eq!(Cache::new(&too_small).unwrap_err().kind(), CreateErrorKind::Mismatch);
    let larger = Config { memory_bytes_max: Some(32 * MIB), ..config };
    Cache::try_out(&larger, false).unwrap();
    let (cache, mut worker) = open(&larger);
    assert!(matches!(cache.image_state(), ImageState::Resized { .. }));
    assert!(cache.memory_limit_bytes() > 20 * MIB && cache.memory_limit_bytes() < 32 * MIB);
    assert_eq!(count_found(&mut worker, &keys), keys.len());
}

/// A store far below its greatest limit was damaged to the next process, because its check and its snapshot
/// counted a small log, which it does not have.
#[test]
fn a_store_far_below_its_greatest_limit_opens_again() {
    for (mib, mib_max, lowered_mib, close) in
        [(8, 9, 7, true), (8, 32, 6, false), (8, 80, 6, true), (6, 256, 6, false)]
    {
        let directory = Directory::new(&format!("far-below-{mib_max}-{close}"));
        let config =
            Config { memory_bytes_max: Some(mib_max * MIB), ..directory.config(Semantics::Store, mib) };
        let (cache, mut worker) = open(&config);
        let keys: Vec<u64> = (0..10_000).collect();
        for key in &keys {
            assert_eq!(worker.set(&key.to_le_bytes(), b"x", Expiry::NEVER, NOW_S), Outcome::Stored);
        }
        cache.set_memory_limit(lowered_mib * MIB).unwrap();
        while cache.is_following_limit() {
            worker.maintain(NOW_S);
        }
        assert_eq!(cache.snapshot(&directory.0.join("snapshot"), NOW_S).unwrap().left_out, 0);
        if close {
            cache.close().unwrap();
        }
        drop((cache, worker));
        for image in [directory.image(), directory.0.join("snapshot")] {
            let (cache, mut worker) = open(&Config { image: Some(image), ..config.clone() });
            assert_eq!(count_found(&mut worker, &keys), keys.len());
            cache.close().unwrap();
        }
    }
}

/// A limit that fell by less than a log gives up at a time, and was taken back or not reached, left a log
/// that was damaged to the next process.
#[test]
fn a_small_change_of_the_limit_leaves_a_sound_image() {
    for (rounds, back) in [(0, false), (1, false), (1, true), (5, true)] {
        let directory = Directory::new(&format!("small-change-{rounds}-{back}"));
        let config = directory.config(Semantics::Cache, 16);
        let (cache, mut worker) = open(&config);
        for key in 0..200_000_u64 {
            worker.set(&key.to_le_bytes(), &value(key), Expiry::NEVER, NOW_S);
        }
        cache.set_memory_limit(16 * MIB - 256 * 1024).unwrap();
        (0..rounds).for_each(|_| worker.maintain(NOW_S));
        if back {
            cache.set_memory_limit(16 * MIB).unwrap();
            (0..100).for_each(|_| worker.maintain(NOW_S));
        }
        cache.close().unwrap();
        drop((cache, worker));
        assert!(Cache::try_out(&config, false).is_ok());
        let (cache, _worker) = open(&config);
        assert!(matches!(cache.image_state(), ImageState::Clean | ImageState::Resized { .. }));
    }
}

/// The index of a copy that may grow found no place in the memory that is not present.
#[test]
fn copies_with_a_greatest_limit_hold_all_small_items() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        let directory = Directory::new(&format!("small-items-{semantics:?}"));
        let config = Config { memory_bytes_max: Some(48 * MIB), ..directory.config(semantics, 16) };
        let (cache, mut worker) = open(&config);
        let keys: Vec<u64> = (0..100_000).collect();
        for key in &keys {
            assert_eq!(worker.set(&key.to_le_bytes(), b"x", Expiry::NEVER, NOW_S), Outcome::Stored);
            if key % 1000 == 0 {
                worker.maintain(NOW_S);
            }
        }
        assert_eq!(count_found(&mut worker, &keys), keys.len());
        let snapshot = directory.0.join("snapshot");
        assert_eq!(cache.snapshot(&snapshot, NOW_S).unwrap().left_out, 0);
        cache.close().unwrap();
        drop((cache, worker));
        let copy = Config { image: Some(snapshot), ..config.clone() };
        let resized = Config { memory_bytes_max: Some(40 * MIB), ..config };
        for config in [copy, resized] {
            let (cache, mut worker) = open(&config);
            let found = count_found(&mut worker, &keys);
            assert_eq!(found, keys.len(), "{semantics:?}: {:?}", cache.image_state());
            cache.close().unwrap();
        }
    }
}
