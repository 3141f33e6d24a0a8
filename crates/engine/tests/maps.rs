//! Images in memory that comes as descriptors; files without a name stand for the maps of the
//! kernel.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use micanite_engine::*;

const PARTITION_BYTES: usize = 16 << 20;
const NOW_S: u32 = 1000;
/// Words of the header (docs/partition-image.md).
const LAYOUT_VERSION_WORD: u64 = 1;
const CLEAN_WORD: u64 = 56;
const BOOT_WORD: u64 = 57;

/// Memory that two openings of a cache share.
struct Memory(Vec<File>);

impl Memory {
    fn new(partitions: usize) -> Self {
        Self((0..partitions).map(|_| nameless(PARTITION_BYTES)).collect())
    }

    fn maps(&self, kept: bool) -> Maps {
        let descriptor = |file: &File| Arc::new(file.try_clone().unwrap().into());
        Maps { descriptors: self.0.iter().map(descriptor).collect(), kept }
    }

    fn word(&self, partition: usize, word: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0[partition].read_exact_at(&mut bytes, word * 8).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn set_word(&self, partition: usize, word: u64, value: u64) {
        let bytes = value.to_le_bytes();
        self.0[partition].write_all_at(&bytes, word * 8).unwrap();
    }
}

fn nameless(bytes: usize) -> File {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("micanite-map-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(&path);
    std::fs::remove_file(path).unwrap();
    let file = file.unwrap();
    file.set_len(bytes as u64).unwrap();
    file
}

/// Returns the configuration of a cache of four partitions.
fn config(maps: Maps) -> Config {
    Config {
        memory_bytes: 4 * PARTITION_BYTES,
        partition_bytes_max: PARTITION_BYTES,
        value_bytes_max: 100_000,
        seed: 7,
        maps: Some(maps),
        ..Config::default()
    }
}

fn open(config: Config) -> Arc<Cache> {
    Arc::new(Cache::new(&config).unwrap())
}

fn refusal(config: &Config) -> String {
    Cache::new(config).unwrap_err().to_string()
}

/// Returns a value of its own, with a length of its own, for each key.
fn value(key: u32) -> Vec<u8> {
    key.to_le_bytes().repeat(1 + key as usize % 100)
}

fn fill(cache: &Arc<Cache>, keys: u32) {
    let mut worker = cache.worker(0).unwrap();
    for key in 0..keys {
        let stored = worker.set(&key.to_le_bytes(), &value(key), Expiry::NEVER, NOW_S);
        assert_eq!(stored, Outcome::Stored);
    }
}

fn hits(cache: &Arc<Cache>, keys: u32) -> u32 {
    let mut worker = cache.worker(0).unwrap();
    let is_there = |key: &u32| {
        let same = worker.get_with(&key.to_le_bytes(), NOW_S, |found, _| found == value(*key)).unwrap();
        assert_ne!(same, Some(false), "another value");
        same.is_some()
    };
    (0..keys).filter(is_there).count() as u32
}

#[test]
fn kept_maps_keep_their_items_closed_or_not() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let memory = Memory::new(4);
        let config = |maps| Config { semantics, ..config(maps) };
        let cache = open(config(memory.maps(false)));
        assert_eq!(*cache.image_state(), ImageState::Created);
        assert_eq!(cache.pages(), Pages::Small);
        assert!(!cache.collapse_used());
        fill(&cache, 5000);
        cache.close().unwrap();
        drop(cache);
        let other_seed = Config { seed: 8, ..config(memory.maps(true)) };
        let cache = open(other_seed);
        assert_eq!(*cache.image_state(), ImageState::Clean);
        assert_eq!((cache.seed(), cache.geometry().seed), (7, 7));
        assert_eq!(hits(&cache, 5000), 5000);
        drop(cache);
        let cache = open(config(memory.maps(true)));
        assert_eq!(*cache.image_state(), ImageState::Recovered);
        assert_eq!(hits(&cache, 5000), 5000);
        fill(&cache, 6000);
        assert_eq!(hits(&cache, 6000), 6000);
    }
}

/// Proves that flushed items are not counted after a kill. A store that was killed once counted
/// them again, forever.
#[test]
fn items_flushed_before_a_kill_are_not_counted_after_it() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let memory = Memory::new(4);
        let config = |kept| Config { semantics, ..config(memory.maps(kept)) };
        let cache = open(config(false));
        fill(&cache, 1000);
        cache.worker(0).unwrap().flush_all(NOW_S, NOW_S);
        fill(&cache, 10);
        drop(cache);
        let cache = open(config(true));
        assert_eq!(*cache.image_state(), ImageState::Recovered);
        assert_eq!((cache.stats().items_live, hits(&cache, 1000)), (10, 10));
        fill(&cache, 1000);
        assert_eq!((cache.stats().items_live, hits(&cache, 1000)), (1000, 1000));
    }
}

#[test]
fn maps_that_are_not_kept_begin_anew_whatever_they_contain() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let memory = Memory::new(4);
        for keys in [5000, 0, 3000] {
            let cache = open(Config { semantics, ..config(memory.maps(false)) });
            assert_eq!(*cache.image_state(), ImageState::Created);
            assert_eq!((cache.stats().items_live, hits(&cache, 5000)), (0, 0));
            fill(&cache, keys);
            assert_eq!(hits(&cache, 5000), keys);
        }
    }
}

#[test]
fn maps_without_a_complete_image_begin_anew() {
    let memory = Memory::new(4);
    let cache = open(config(memory.maps(true)));
    assert_eq!(*cache.image_state(), ImageState::Created);
    fill(&cache, 100);
    drop(cache);
    memory.set_word(0, 0, 0); // as if it had been killed before the first partition, which is last
    let cache = open(config(memory.maps(true)));
    assert_eq!(*cache.image_state(), ImageState::Created);
    assert_eq!(hits(&cache, 100), 0);
}

#[test]
fn maps_of_another_boot_are_discarded_and_those_of_a_store_refused() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let memory = Memory::new(4);
        let config = |maps| Config { semantics, ..config(maps) };
        let cache = open(config(memory.maps(false)));
        fill(&cache, 100);
        drop(cache);
        memory.set_word(3, BOOT_WORD, 1);
        assert_eq!(memory.word(3, CLEAN_WORD), 0);
        if semantics == Semantics::Store {
            let reason = refusal(&config(memory.maps(true)));
            assert!(reason.contains("started anew"), "{reason}");
            continue;
        }
        let cache = open(config(memory.maps(true)));
        let state = cache.image_state();
        assert!(matches!(state, ImageState::Discarded { .. }), "{state:?}");
        assert_eq!(hits(&cache, 100), 0);
        fill(&cache, 100);
        assert_eq!(hits(&cache, 100), 100);
    }
}

#[test]
fn maps_that_do_not_fit_are_refused_with_the_reason() {
    let memory = Memory::new(4);
    open(config(memory.maps(false))).close().unwrap();
    let kept = || config(memory.maps(true));
    let memory_bytes = 8 * PARTITION_BYTES;
    let larger = Config { memory_bytes, ..kept() };
    let store = Config { semantics: Semantics::Store, ..kept() };
    let fifo = Config { eviction: Eviction::Fifo, ..kept() };
    let longer = Config { value_bytes_max: 200_000, ..kept() };
    let in_files = Config { image: Some("nowhere".into()), ..kept() };
    for (config, word) in [
        (larger, "-m"),
        (store, "--semantics"),
        (fifo, "--eviction"),
        (longer, "-I"),
        (in_files, "not in both"),
    ] {
        let reason = refusal(&config);
        assert!(reason.contains(word), "{reason}");
    }
    let three = Maps { descriptors: memory.maps(true).descriptors[..3].to_vec(), kept: true };
    assert!(refusal(&config(three)).contains("3 maps for 4"));
    let mut mixed = memory.maps(true);
    mixed.descriptors.swap(1, 2);
    assert!(refusal(&config(mixed)).contains("does not fit the others"));
    memory.set_word(0, LAYOUT_VERSION_WORD, 1);
    assert!(refusal(&kept()).contains("layout version 1"));
    memory.set_word(0, 0, 1);
    assert!(refusal(&kept()).contains("is damaged"));
    let mut short = Memory::new(4);
    short.0[2] = nameless(PARTITION_BYTES / 2);
    assert!(refusal(&config(short.maps(false))).contains("cannot make"));
}

#[test]
fn the_geometry_matches_the_header() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let memory = Memory::new(4);
        let cache = open(Config { semantics, ..config(memory.maps(false)) });
        let of = cache.geometry();
        let store = u64::from(of.is_store) << 63;
        let shape = u64::from(of.offset_bits) | of.main_per_spare << 8 | store;
        for partition in 0..4 {
            let word = |word| memory.word(partition, word);
            assert_eq!(word(2), of.seed);
            let number = partition as u64 | u64::from(of.partition_bits) << 32;
            assert_eq!(word(3), number);
            assert_eq!(word(4) * 8, of.partition_bytes as u64);
            assert_eq!((word(6), word(7)), (of.item_units_max, shape));
            assert_eq!((word(8) << 8 >> 8, word(59)), (of.buckets_first, of.buckets_first));
        }
        let first_of_log = memory.word(0, 20);
        assert!(of.is_store || first_of_log == of.data_first_word as u64);
        assert_eq!(of.due_percent, None);
        let capacity = (of.partitions, of.partition_bytes);
        assert_eq!(capacity, (4, PARTITION_BYTES));
    }
}

/// Words of the header that hold the secret of the index.
const SECRET_WORDS: [u64; 2] = [60, 61];

#[test]
fn an_image_keeps_its_secret_and_no_two_images_have_the_same() {
    let memories = [Memory::new(4), Memory::new(4)];
    let secrets = memories.map(|memory| {
        let secret = |cache: &Cache| cache.geometry().secret.words();
        let made = secret(&open(config(memory.maps(false))));
        for partition in 0..4 {
            let words = SECRET_WORDS.map(|word| memory.word(partition, word));
            assert_eq!(words, made);
        }
        assert_eq!(secret(&open(config(memory.maps(true)))), made);
        made
    });
    assert_ne!(secrets[0], secrets[1]);
}

#[test]
fn a_partition_with_another_secret_is_refused() {
    let memory = Memory::new(4);
    open(config(memory.maps(false))).close().unwrap();
    memory.set_word(2, SECRET_WORDS[1], 5);
    let refusal = refusal(&config(memory.maps(true)));
    assert!(refusal.contains("does not fit the others"), "{refusal}");
}

#[test]
fn debug_output_of_a_cache_hides_its_secret() {
    let memory = Memory::new(4);
    let cache = open(config(memory.maps(false)));
    let printed = format!("{cache:?} {:?} {:?}", cache.geometry(), cache.stats());
    for word in SECRET_WORDS.map(|word| memory.word(0, word)) {
        for text in [format!("{word}"), format!("{word:x}")] {
            assert!(!printed.contains(&text), "{printed}");
        }
    }
}

#[test]
fn files_of_an_image_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = std::env::temp_dir().join(format!("micanite-modes-{}", std::process::id()));
    let config = Config { memory_bytes: 16 << 20, image: Some(directory.clone()), ..Config::default() };
    let file = directory.join("partition-0000");
    let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    open(config.clone()).close().unwrap();
    let made = mode();
    // A copy of an image may have it so.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    open(config).close().unwrap();
    let opened = mode();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!((made, opened), (0o600, 0o600));
}
