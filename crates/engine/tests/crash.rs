//! Kills a writer at random moments and checks its image: a store has every acknowledged write, and
//! the one in progress whole or not at all; a cache never returns a wrong value.
//!
//! The writer is this program again, in a process of its own. Before and after each operation it
//! appends a record to a journal; the kernel keeps both, image and journal, when it is killed.

#[path = "common/writers.rs"]
mod writers;

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use micanite_engine::*;
use writers::await_records;

const THREADS: usize = 2;
const NOW_S: u32 = 1000;
/// A record: phase, key, stamp (0: a delete).
const RECORD_BYTES: usize = 24;
const INTENT: u64 = 1;
const DONE: u64 = 2;
const REFUSED: u64 = 3;
/// A kill comes after fewer acknowledged operations than these, a different number each round.
const OPERATIONS_END: u64 = 6000;
/// Rounds of an image whose index grows. Then another one begins, before most keys have been stored.
const GROWING_ROUNDS: u64 = 5;

/// State of the image while its writer is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// There is room.
    Roomy,
    /// A cache evicts; a store refuses, moves items, grows and shrinks its index.
    Full,
    /// The index splits buckets, and there is room.
    Growing,
}

impl Load {
    const ALL: [Self; 3] = [Self::Roomy, Self::Full, Self::Growing];

    fn keys(self, semantics: Semantics) -> u64 {
        match (self, semantics) {
            (Self::Growing, _) => 20_000,
            (Self::Full, Semantics::Store) => 8000,
            _ => 400,
        }
    }

    fn config(self, directory: &Path, semantics: Semantics) -> Config {
        Config {
            memory_bytes: [64 << 20, 1 << 20, 8 << 20][self as usize],
            // Items are much shorter, so the index begins small.
            item_bytes_hint: (self == Self::Growing).then_some(8000),
            value_bytes_max: 20_000,
            workers: THREADS,
            semantics,
            image: Some(directory.join("image")),
            ..Config::default()
        }
    }

    /// Returns a value: some are long enough to be copied outside of the lock, and some fit over
    /// others. Those of a growing index are short.
    fn value(self, key: u64, stamp: u64) -> Vec<u8> {
        let words = match (self, stamp % 16) {
            (Self::Growing, n) => 1 + n as usize % 4,
            (_, 0) => 400,
            (_, n) => 1 + n as usize * 3,
        };
        (key << 48 | stamp).to_le_bytes().repeat(words)
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

fn get(worker: &mut Worker, number: u64) -> Option<Vec<u8>> {
    worker.get_with(&key(number), NOW_S, |value, _| value.to_vec()).unwrap()
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// Runs the process that is killed. Does nothing unless the test below starts it.
#[test]
fn writer_process() {
    let Ok(directory) = std::env::var("MICANITE_CRASH_DIRECTORY") else {
        return;
    };
    let directory = PathBuf::from(directory);
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let semantics = if number("MICANITE_CRASH_STORE") == 1 { Semantics::Store } else { Semantics::Cache };
    let load = Load::ALL[number("MICANITE_CRASH_LOAD") as usize];
    let keys = load.keys(semantics);
    let cache = Arc::new(Cache::new(&load.config(&directory, semantics)).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let mut worker = cache.worker(thread as usize).unwrap();
            let journal = directory.join(format!("journal-{thread}"));
            let mut random = number("MICANITE_CRASH_SEED") * 2 + thread + 1;
            scope.spawn(move || {
                let mut journal = OpenOptions::new().create(true).append(true).open(journal).unwrap();
                let mut record = |phase: u64, key: u64, stamp: u64| {
                    let words = [phase, key, stamp].map(u64::to_le_bytes);
                    journal.write_all(words.as_flattened()).unwrap();
                };
                for step in 0.. {
                    let drawn = next(&mut random);
                    let drawn_key = drawn % keys / THREADS as u64 * THREADS as u64 + thread;
                    let is_delete = drawn >> 32 & 15 == 0;
                    let stamp = if is_delete { 0 } else { number("MICANITE_CRASH_SEED") << 24 | (step + 1) };
                    record(INTENT, drawn_key, stamp);
                    let key = key(drawn_key);
                    let outcome = match is_delete {
                        true => worker.delete(&key, NOW_S),
                        false => worker.set(&key, &load.value(drawn_key, stamp), Expiry::NEVER, NOW_S),
                    };
                    match outcome {
                        Outcome::OutOfMemory => record(REFUSED, drawn_key, stamp),
                        _ => record(DONE, drawn_key, stamp),
                    }
                    if step % 64 == 0 {
                        worker.maintain(NOW_S);
                    }
                }
            });
        }
    });
}

/// Values that a key may hold: the last acknowledged stamp (0: nothing), and one in progress.
#[derive(Clone, Copy, Default)]
struct Allowed {
    done: u64,
    under_way: Option<u64>,
}

fn journals(directory: &Path) -> impl Iterator<Item = PathBuf> {
    (0..THREADS).map(|thread| directory.join(format!("journal-{thread}")))
}

/// Returns the number of records in all journals.
fn records(directory: &Path) -> u64 {
    let bytes = journals(directory).map(|path| fs::metadata(path).map_or(0, |journal| journal.len()));
    bytes.sum::<u64>() / RECORD_BYTES as u64
}

fn read_journals(directory: &Path) -> HashMap<u64, Allowed> {
    let mut allowed = HashMap::<u64, Allowed>::new();
    for path in journals(directory) {
        let bytes = fs::read(path).unwrap_or_default();
        for record in bytes.chunks_exact(RECORD_BYTES) {
            let (words, _) = record.as_chunks::<8>();
            let [phase, key, stamp] = [0, 1, 2].map(|word| u64::from_le_bytes(words[word]));
            let of = allowed.entry(key).or_default();
            match phase {
                INTENT => of.under_way = Some(stamp),
                REFUSED => of.under_way = None,
                _ => {
                    *of = Allowed { done: stamp, under_way: None };
                }
            }
        }
    }
    allowed
}

/// Returns the writes that were refused since the last check.
fn refused(directory: &Path) -> usize {
    let count = |path| {
        let bytes = fs::read(path).unwrap_or_default();
        // A kill may cut the last record off.
        let records = bytes.chunks_exact(RECORD_BYTES);
        records.filter(|record| record[0] == REFUSED as u8).count()
    };
    journals(directory).map(count).sum()
}

/// Checks every key, and records the result of the write in progress. `stats` are those of the last
/// check, and then of this one. Returns the number of items.
fn check((directory, semantics, load): (&Path, Semantics, Load), killed: bool, stats: &mut Stats) -> usize {
    let cache = Arc::new(Cache::new(&load.config(directory, semantics)).unwrap());
    let expected = if killed { ImageState::Recovered } else { ImageState::Clean };
    assert_eq!(*cache.image_state(), expected);
    let mut worker = cache.worker(0).unwrap();
    let mut held = 0;
    let mut missing = 0;
    let before = std::mem::replace(stats, cache.stats());
    let journals = read_journals(directory);
    let mut checked = fs::File::create(directory.join("checked")).unwrap();
    for (key, allowed) in journals {
        let stamp = get(&mut worker, key).map_or(0, |found| {
            let first = u64::from_le_bytes(*found.first_chunk().unwrap());
            let stamp = first & ((1 << 48) - 1);
            assert_eq!(found, load.value(key, stamp), "a torn value of {key}, or of another key");
            stamp
        });
        held += usize::from(stamp != 0);
        // A store may lose nothing. A cache may lose an item that was being overwritten, and what
        // it has evicted: after hundreds of rounds the logs of a large one have gone round, too.
        let is_right = stamp == allowed.done || Some(stamp) == allowed.under_way;
        let is_lost = stamp == 0 && semantics == Semantics::Cache;
        missing += u64::from(is_lost && !is_right && allowed.under_way.is_none());
        assert!(
            is_right || is_lost,
            "key {key} holds {stamp}, acknowledged was {}, under way {:?}",
            allowed.done,
            allowed.under_way
        );
        let words = [DONE, key, stamp].map(u64::to_le_bytes);
        checked.write_all(words.as_flattened()).unwrap();
    }
    // A kill may lose what a thread was moving from one end of its log to the other.
    let moving = if stats.reinserted > 0 { THREADS as u64 } else { 0 };
    let evicted = stats.evicted_log + stats.evicted_bucket;
    let evicted_since = evicted - before.evicted_log - before.evicted_bucket;
    assert!(missing <= evicted_since + moving, "{missing} items are missing, {evicted_since} were evicted");
    assert!(evicted == 0 || load != Load::Growing, "{evicted} items were evicted");
    drop(checked);
    // The next round begins with the contents that this one found.
    fs::rename(directory.join("checked"), directory.join("journal-0")).unwrap();
    let _ = fs::remove_file(directory.join("journal-1"));
    held
}

/// One at a time: a process that another test starts holds, until it runs its own program, the
/// locks of this one's images, too.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts a writer, and kills it after some operations.
fn write_and_kill((directory, semantics, load): (&Path, Semantics, Load), seed: u64, operations: u64) {
    // An operation has two records.
    let records_least = records(directory) + 2 * operations + 1;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer_process", "--nocapture"])
        .env("MICANITE_CRASH_DIRECTORY", directory)
        .env("MICANITE_CRASH_SEED", seed.to_string())
        .env("MICANITE_CRASH_STORE", u8::from(semantics == Semantics::Store).to_string())
        .env("MICANITE_CRASH_LOAD", (load as u8).to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    await_records(&mut child, || records(directory), records_least);
    child.kill().unwrap();
    child.wait().unwrap();
}

fn kill_often(name: &str, semantics: Semantics, load: Load) {
    let _starting = STARTING.lock().unwrap_or_else(|held| held.into_inner());
    let shared = Path::new("/dev/shm");
    let base = if shared.is_dir() { shared.into() } else { std::env::temp_dir() };
    let directory = base.join(format!("micanite-crash-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let rounds: u64 = std::env::var("MICANITE_CRASH_ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    let (mut held, mut refusals, mut splits) = (0, 0, 0);
    let mut stats = Stats::default();
    let setting = (directory.as_path(), semantics, load);
    for round in 1..=rounds {
        if load == Load::Growing && round % GROWING_ROUNDS == 1 {
            fs::remove_dir_all(&directory).unwrap();
            fs::create_dir(&directory).unwrap();
            stats = Stats::default();
        }
        write_and_kill(setting, round, round * 4099 % OPERATIONS_END);
        refusals += refused(&directory);
        let splits_before = stats.buckets_split;
        held = check(setting, true, &mut stats);
        splits += stats.buckets_split - splits_before;
        if round % 4 == 0 {
            // Closed in order, then opened: nothing to recover.
            Cache::new(&load.config(&directory, semantics)).unwrap().close().unwrap();
            check(setting, false, &mut stats);
        }
    }
    assert!(held > 0, "nothing survived");
    assert!(load != Load::Growing || splits >= 100 * rounds, "{splits} buckets were split");
    let is_full = semantics == Semantics::Store && load == Load::Full;
    // A cache refuses a write only after it has waited for the other thread without success, which a busy
    // machine may keep from running.
    if semantics == Semantics::Store {
        assert_eq!(refusals > 0, is_full, "{refusals} refusals");
    }
    assert!(is_full || refusals as u64 <= rounds, "{refusals} refusals");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_killed_cache_keeps_acknowledged_writes() {
    kill_often("cache", Semantics::Cache, Load::Roomy);
}

#[test]
fn a_cache_killed_while_it_evicts_returns_no_wrong_value() {
    kill_often("evicting", Semantics::Cache, Load::Full);
}

#[test]
fn a_killed_store_keeps_acknowledged_writes() {
    kill_often("store", Semantics::Store, Load::Roomy);
}

/// Kills a store in which most writes are refused, items move, and the index grows and shrinks.
#[test]
fn a_killed_full_store_keeps_acknowledged_writes() {
    kill_often("full", Semantics::Store, Load::Full);
}

#[test]
fn a_killed_cache_whose_index_grows_keeps_acknowledged_writes() {
    kill_often("growing-cache", Semantics::Cache, Load::Growing);
}

#[test]
fn a_killed_store_whose_index_grows_keeps_acknowledged_writes() {
    kill_often("growing-store", Semantics::Store, Load::Growing);
}

#[test]
fn a_snapshot_taken_while_threads_write_holds_whole_items() {
    let _starting = STARTING.lock().unwrap_or_else(|held| held.into_inner());
    let directory = std::env::temp_dir().join(format!("micanite-snapshot-{}", std::process::id()));
    let config = Config { image: None, ..Load::Roomy.config(&directory, Semantics::Cache) };
    let cache = Arc::new(Cache::new(&config).unwrap());
    let mut workers = [cache.worker(0).unwrap(), cache.worker(1).unwrap()];
    let keys = Load::Roomy.keys(Semantics::Cache);
    let store = |worker: &mut Worker, number: u64, stamp: u64| {
        let stored = worker.set(&key(number), &Load::Roomy.value(number, stamp), Expiry::NEVER, NOW_S);
        assert_eq!(stored, Outcome::Stored);
    };
    for key in 0..keys {
        store(&mut workers[0], key, 1);
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (sender, receiver) = std::sync::mpsc::channel();
    let taken = std::thread::scope(|scope| {
        for (thread, worker) in workers.iter_mut().enumerate() {
            let (stop, sender) = (&stop, sender.clone());
            scope.spawn(move || {
                for stamp in 2.. {
                    store(worker, stamp * 2 % keys + thread as u64, stamp);
                    if stamp == 1000 {
                        sender.send(()).unwrap();
                    }
                    if stop.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        receiver.recv().unwrap();
        let taken = cache.snapshot(&directory.join("image"), NOW_S).unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        taken
    });
    assert_eq!((taken.items, taken.left_out), (keys, 0));
    let again = cache.snapshot(&directory.join("image"), NOW_S);
    assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    let copy = Config { image: Some(directory.join("image")), ..config };
    let copy = Arc::new(Cache::new(&copy).unwrap());
    assert_eq!(*copy.image_state(), ImageState::Clean);
    let mut worker = copy.worker(0).unwrap();
    for key in 0..keys {
        let found = get(&mut worker, key).unwrap();
        let stamp = u64::from_le_bytes(*found.first_chunk().unwrap()) & ((1 << 48) - 1);
        assert_eq!(found, Load::Roomy.value(key, stamp));
    }
    fs::remove_dir_all(directory).unwrap();
}
