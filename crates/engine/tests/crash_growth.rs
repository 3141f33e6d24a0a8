//! Kills a writer at random moments while its index grows, chains spare buckets and splits them,
//! and checks every key.
//!
//! The writer is this program again. Its operations follow from a seed, so that the number of the
//! last acknowledged one determines the contents of every key.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use micanite_engine::*;

const KEYS: usize = 20_000;
const DIRECTORY: &str = "MICANITE_GROWTH_DIRECTORY";
const SEED: &str = "MICANITE_GROWTH_SEED";
const STORE: &str = "MICANITE_GROWTH_STORE";
/// Most words of a value; then its key is deleted.
const WORDS_MAX: u64 = 4;

fn config(directory: &Path, semantics: Semantics) -> Config {
    Config {
        memory_bytes: 4 << 20,
        value_bytes_max: 2000,
        semantics,
        image: Some(directory.join("image")),
        ..Config::default()
    }
}

#[derive(Default)]
struct Reply(Option<Outcome>, Vec<u8>);

impl ReplySink for Reply {
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.1.resize(meta.value_bytes, 0);
        Some(&mut self.1)
    }
    fn rollback(&mut self, _: usize) {}
    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.0 = Some(outcome);
    }
}

fn ask(worker: &mut Worker, key: usize, operation: Operation<'_>) -> Reply {
    let key = format!("{key}");
    let key = key.as_bytes();
    let hash = worker.cache().hash(key);
    let request = Request { hash, key, operation };
    let mut reply = Reply::default();
    worker.execute(&[request], 1000, &mut reply);
    reply
}

/// Contents of a key: the operation that wrote it, and its words; 0: nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Item {
    written: u64,
    words: u64,
}

impl Item {
    fn value(self, key: usize) -> Option<Vec<u8>> {
        let word = (key as u64) << 40 | self.written;
        (self.words != 0).then(|| word.to_le_bytes().repeat(self.words as usize))
    }
}

fn mixed(seed: u64, number: u64) -> u64 {
    let mut mixed = (seed << 32 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 31
}

/// Does an operation to the model; returns its key.
fn step(model: &mut [Item], seed: u64, number: u64) -> usize {
    let drawn = mixed(seed, number);
    let key = drawn as usize % model.len();
    let words = match model[key].words {
        0 => 1 + (drawn >> 40) % 3,
        words if words > WORDS_MAX || (drawn >> 32).is_multiple_of(8) => 0,
        words => words + 1,
    };
    model[key] = Item { written: number, words };
    key
}

/// Runs the process that is killed. Does nothing unless the tests below start it.
#[test]
fn writer_process() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let directory = PathBuf::from(directory);
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    let semantics = match std::env::var(STORE).as_deref() {
        Ok("true") => Semantics::Store,
        _ => Semantics::Cache,
    };
    let cache = Arc::new(Cache::new(&config(&directory, semantics)).unwrap());
    let mut worker = cache.worker(0).unwrap();
    let mut model = vec![Item::default(); KEYS];
    let journal = File::create(directory.join("journal")).unwrap();
    for number in 1..u64::MAX {
        let key = step(&mut model, seed, number);
        let value = model[key].value(key);
        let operation = match &value {
            None => Operation::Delete,
            Some(value) => {
                Operation::Store { condition: Condition::Always, value, flags: 0, expiry: Expiry::NEVER }
            }
        };
        let outcome = ask(&mut worker, key, operation).0;
        let done = matches!(outcome, Some(Outcome::Stored | Outcome::Deleted));
        assert!(done, "{outcome:?} at {number}");
        journal.write_all_at(&number.to_le_bytes(), 0).unwrap();
    }
}

/// Returns the last operation that was acknowledged.
fn acknowledged(journal: &Path) -> u64 {
    let bytes = fs::read(journal).unwrap_or_default();
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Starts a writer, kills it some operations later, and returns how many it did.
fn kill_after(directory: &Path, semantics: Semantics, seed: u64, operations: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer_process", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(SEED, seed.to_string())
        .env(STORE, (semantics == Semantics::Store).to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let journal = directory.join("journal");
    let deadline = Instant::now() + Duration::from_secs(60);
    while acknowledged(&journal) < operations {
        assert!(child.try_wait().unwrap().is_none(), "the writer ended");
        assert!(Instant::now() < deadline, "the writer does not get on");
        std::thread::sleep(Duration::from_micros(100));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    acknowledged(&journal)
}

/// Checks every key after a kill; returns how many buckets were split.
fn check(directory: &Path, semantics: Semantics, seed: u64, done: u64) -> u64 {
    let mut model = vec![Item::default(); KEYS];
    for number in 1..=done {
        step(&mut model, seed, number);
    }
    let mut next = model.clone();
    let under_way = step(&mut next, seed, done + 1);
    let cache = Arc::new(Cache::new(&config(directory, semantics)).unwrap());
    assert_eq!(*cache.image_state(), ImageState::Recovered);
    let mut worker = cache.worker(0).unwrap();
    for (key, item) in model.iter().enumerate() {
        let reply = ask(&mut worker, key, Operation::Get { cas: false });
        let found = (reply.0 == Some(Outcome::Hit)).then_some(reply.1);
        let is_next = key == under_way && found == next[key].value(key);
        // A cache of this size evicts nothing, but may lose an item that was being overwritten.
        let lost = semantics == Semantics::Cache && key == under_way && found.is_none();
        let right = found == item.value(key) || is_next || lost;
        assert!(right, "key {key} of {item:?} holds {found:?} after {done}");
    }
    cache.stats().buckets_split
}

fn kill_often(semantics: Semantics) {
    let rounds: u64 = std::env::var("MICANITE_CRASH_ROUNDS").map_or(8, |rounds| rounds.parse().unwrap());
    let shared = Path::new("/dev/shm");
    let base = match shared.is_dir() {
        true => shared.into(),
        false => std::env::temp_dir(),
    };
    let name = format!("micanite-growth-{}-{}", semantics.name(), std::process::id());
    let directory = base.join(name);
    let mut splits = 0;
    for round in 1..=rounds {
        fs::create_dir_all(&directory).unwrap();
        let done = kill_after(&directory, semantics, round, round * 7919 % 40_000);
        splits += check(&directory, semantics, round, done);
        fs::remove_dir_all(&directory).unwrap();
    }
    assert!(splits > 0, "no bucket was split");
}

/// Proves that a store whose index grows keeps every item, and the one in progress as before or as
/// afterwards.
#[test]
fn a_store_that_is_killed_while_its_index_grows_loses_nothing() {
    kill_often(Semantics::Store);
}

/// Proves that a cache whose index grows keeps every item but the one in progress.
#[test]
fn a_cache_that_is_killed_while_its_index_grows_loses_one_item_at_most() {
    kill_often(Semantics::Cache);
}
