//! Contents of the directory of an image when a process opens it: files of a creation that was cut
//! short, missing files, files that were changed.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use micanite_engine::*;

const NOW_S: u32 = 1000;
const PARTITIONS: usize = 4;
const ITEMS: u64 = 1000;
const CLEAN_WORD: u64 = 56;
const BOOT_WORD: u64 = 57;

/// A directory that is removed with its test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("micanite-files-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn file(&self, number: usize) -> PathBuf {
        self.0.join(format!("partition-{number:04}"))
    }

    fn config(&self, semantics: Semantics) -> Config {
        Config {
            memory_bytes: PARTITIONS * (1 << 20),
            partition_bytes_max: 1 << 20,
            value_bytes_max: 1024,
            semantics,
            image: Some(self.0.clone()),
            ..Config::default()
        }
    }

    /// Returns the names and bytes of all files.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
        paths.into_iter().map(read).collect()
    }

    /// Makes an image with items in it.
    fn fill(&self, semantics: Semantics) {
        let cache = Arc::new(Cache::new(&self.config(semantics)).unwrap());
        assert_eq!(cache.layout().partitions, PARTITIONS);
        let mut worker = cache.worker(0).unwrap();
        for number in 0..ITEMS {
            let stored = worker.set(&number.to_le_bytes(), b"value", Expiry::NEVER, NOW_S);
            assert_eq!(stored, Outcome::Stored);
        }
        let in_use = Cache::new(&self.config(semantics)).unwrap_err();
        assert_eq!(in_use.kind(), CreateErrorKind::InUse);
        drop(worker);
        cache.close().unwrap();
    }

    /// Leaves the image of a cache as a process of an earlier boot that was killed does.
    fn distrust(&self) {
        drop(Cache::new(&self.config(Semantics::Cache)).unwrap());
        (0..PARTITIONS).for_each(|number| change(&self.file(number), BOOT_WORD, |boot| boot ^ 2));
    }

    /// Returns how many of these items are found.
    fn found(&self, semantics: Semantics) -> usize {
        let cache = Arc::new(Cache::new(&self.config(semantics)).unwrap());
        let mut worker = cache.worker(0).unwrap();
        let hit = |number: &u64| worker.get_with(&number.to_le_bytes(), NOW_S, |_, _| ()) == Ok(Some(()));
        (0..ITEMS).filter(hit).count()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn change(file: &Path, word: u64, change: impl Fn(u64) -> u64) {
    let file = fs::File::options().read(true).write(true).open(file);
    let file = file.unwrap();
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, word * 8).unwrap();
    let word_bytes = change(u64::from_le_bytes(bytes)).to_le_bytes();
    file.write_all_at(&word_bytes, word * 8).unwrap();
}

/// Proves that an image without its first file is kept. It was once removed silently.
#[test]
fn an_image_whose_first_file_is_missing_is_refused_and_kept() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let directory = Directory::new("first");
        directory.fill(semantics);
        let away = directory.0.join("away");
        fs::rename(directory.file(0), &away).unwrap();
        let before = directory.files();
        let error = Cache::new(&directory.config(semantics)).unwrap_err();
        assert_eq!(error.kind(), CreateErrorKind::Damaged);
        assert!(error.to_string().contains("partition-0000 is missing"), "{error}");
        fs::rename(&away, directory.file(0)).unwrap();
        let after = directory.files();
        assert!(before.iter().all(|(path, bytes)| {
            *path == away || after.iter().any(|(other, of)| (path, bytes) == (other, of))
        }));
        assert_eq!(directory.found(semantics), ITEMS as usize);
    }
}

/// Proves that the first file of a store that is empty is no reason to remove the others.
#[test]
fn a_store_whose_first_file_is_empty_is_refused_and_kept() {
    let directory = Directory::new("empty");
    directory.fill(Semantics::Store);
    let bytes = fs::read(directory.file(0)).unwrap();
    for empty in [vec![], vec![0; bytes.len()]] {
        fs::write(directory.file(0), empty).unwrap();
        let before = directory.files();
        // Also by a cache, which is the default of a server.
        for semantics in [Semantics::Store, Semantics::Cache] {
            let error = Cache::new(&directory.config(semantics)).unwrap_err();
            assert_eq!(error.kind(), CreateErrorKind::Damaged, "{error}");
            assert!(directory.files() == before);
        }
    }
    fs::write(directory.file(0), bytes).unwrap();
    assert_eq!(directory.found(Semantics::Store), ITEMS as usize);
}

/// Proves that a creation that was cut short is begun anew. A process that was killed while it made
/// an image once stopped all later ones.
#[test]
fn an_interrupted_creation_is_started_again() {
    let format = |header: &mut Vec<u8>| header[..8].fill(0); // the magic, which is written last
    for semantics in [Semantics::Cache, Semantics::Store] {
        for cut in 0..3 {
            let directory = Directory::new("creation");
            drop(Cache::new(&directory.config(semantics)).unwrap());
            let first = directory.file(0);
            let mut bytes = fs::read(&first).unwrap();
            match cut {
                0 => fs::remove_file(&first).unwrap(),
                1 => fs::write(&first, vec![0; bytes.len() / 3]).unwrap(),
                _ => {
                    format(&mut bytes);
                    fs::write(&first, bytes).unwrap();
                }
            }
            let cache = Cache::new(&directory.config(semantics)).unwrap();
            assert_eq!(*cache.image_state(), ImageState::Created);
        }
    }
}

/// Proves that a damaged first word is reported as damage. The owner of such a store was once told
/// to remove it.
#[test]
fn an_image_without_its_first_word_is_damaged() {
    for value in [0, 1] {
        let directory = Directory::new("magic");
        directory.fill(Semantics::Store);
        change(&directory.file(0), 0, |word| word * value + value);
        let before = directory.files();
        let error = Cache::new(&directory.config(Semantics::Store)).unwrap_err();
        assert_eq!(error.kind(), CreateErrorKind::Damaged);
        assert!(!error.to_string().contains("remove"), "{error}");
        assert!(directory.files() == before);
    }
}

/// Proves that an unusable cache is made anew, also if that was cut short before.
#[test]
fn a_partly_discarded_cache_is_created_again() {
    let directory = Directory::new("given-up");
    directory.fill(Semantics::Cache);
    let config = directory.config(Semantics::Cache);
    drop(Cache::new(&config).unwrap());
    fs::File::create(directory.file(0)).unwrap();
    let cache = Cache::new(&config).unwrap();
    assert_eq!(*cache.image_state(), ImageState::Created);
    drop(cache);
    directory.distrust();
    let cache = Cache::new(&config).unwrap();
    assert!(matches!(cache.image_state(), ImageState::Discarded { .. }));
}

/// Proves that nothing stays of a discarded cache that had more partitions, also if it was cut short at any
/// file: it would take room, and keep a later start from making the cache anew.
#[test]
fn a_discarded_cache_of_more_partitions_leaves_nothing() {
    for removed in [None, Some(0), Some(1), Some(PARTITIONS - 1)] {
        let directory = Directory::new("fewer");
        directory.fill(Semantics::Cache);
        directory.distrust();
        if let Some(first) = removed {
            fs::File::create(directory.file(0)).unwrap();
            (first.max(1)..PARTITIONS).for_each(|number| fs::remove_file(directory.file(number)).unwrap());
        }
        let config = Config { partition_bytes_max: 2 << 20, ..directory.config(Semantics::Cache) };
        let cache = Cache::new(&config).unwrap();
        assert_eq!(matches!(cache.image_state(), ImageState::Discarded { .. }), removed.is_none());
        let partitions = cache.layout().partitions;
        assert!(partitions < PARTITIONS);
        assert!((partitions..PARTITIONS).all(|number| !directory.file(number).exists()), "{removed:?}");
    }
}

/// Proves that a cache whose new image does not fit is made anew later.
#[test]
fn a_discarded_cache_without_room_is_created_later() {
    let directory = Directory::new("no-room");
    directory.fill(Semantics::Cache);
    directory.distrust();
    // More than any file system has.
    let larger =
        Config { memory_bytes: 1 << 43, partition_bytes_max: 1 << 34, ..directory.config(Semantics::Cache) };
    let error = Cache::new(&larger).unwrap_err();
    assert_eq!(error.kind(), CreateErrorKind::NoSpace, "{error}");
    let cache = Cache::new(&directory.config(Semantics::Cache)).unwrap();
    assert_eq!(*cache.image_state(), ImageState::Created);
}

/// Proves that a snapshot whose server was killed is no image: items that it lacks would be lost.
#[test]
fn an_unfinished_snapshot_is_not_used() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        let (directory, copy) = (Directory::new("copied"), Directory::new("unfinished"));
        let cache = Cache::new(&directory.config(semantics)).unwrap();
        cache.snapshot(&copy.0, NOW_S).unwrap();
        // As it is before the mark of its end.
        (0..PARTITIONS).for_each(|number| change(&copy.file(number), CLEAN_WORD, |_| 0));
        // As a kill leaves it while another snapshot removes it.
        (1..PARTITIONS).for_each(|number| fs::remove_file(copy.file(number)).unwrap());
        match Cache::new(&copy.config(semantics)) {
            Ok(cache) => {
                let ImageState::Discarded { reason } = cache.image_state() else {
                    panic!("{:?}", cache.image_state());
                };
                assert!(semantics == Semantics::Cache && reason.contains("not finished"), "{reason}");
            }
            Err(error) => {
                assert!(semantics == Semantics::Store && error.kind() == CreateErrorKind::Mismatch);
                assert!(error.to_string().contains("a copy that was not finished"), "{error}");
            }
        }
    }
}

/// Proves that a snapshot takes the place of one that a kill cut short, and of no other.
#[test]
fn a_snapshot_replaces_one_that_was_cut_short() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        let (directory, copy) = (Directory::new("again"), Directory::new("cut"));
        directory.fill(semantics);
        let cache = Cache::new(&directory.config(semantics)).unwrap();
        cache.snapshot(&copy.0, NOW_S).unwrap();
        (0..PARTITIONS).for_each(|number| change(&copy.file(number), CLEAN_WORD, |_| 0));
        assert_eq!(cache.snapshot(&copy.0, NOW_S).unwrap().items, ITEMS);
        assert!(cache.snapshot(&copy.0, NOW_S).is_err(), "that one is complete");
        assert_eq!(copy.found(semantics), ITEMS as usize);
    }
}

/// Proves that a snapshot into the served image names the process that has it open.
#[test]
fn a_snapshot_into_the_open_image_is_refused_with_the_reason() {
    let directory = Directory::new("own");
    let cache = Cache::new(&directory.config(Semantics::Cache)).unwrap();
    let error = cache.snapshot(&directory.0, NOW_S).unwrap_err();
    assert!(error.to_string().contains("this process has it open"), "{error}");
}
