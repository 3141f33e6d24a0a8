//! Kills a writer at random moments and checks its image: a store has every acknowledged write, and
//! the one in progress whole or not at all; a cache never returns a wrong value.
//!
//! The writer is this program again, in a process of its own. Before and after each operation it
//! appends a record to a journal; the kernel keeps both, image and journal, when it is killed.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use micanite_engine::*;

const KEYS: u64 = 400;
/// Keys whose values do not fit a small store.
const KEYS_FULL: u64 = 8000;
const THREADS: usize = 2;
/// A record: phase, key, stamp (0: a delete).
const RECORD_BYTES: usize = 24;
const INTENT: u64 = 1;
const DONE: u64 = 2;
const REFUSED: u64 = 3;

fn keys(semantics: Semantics, is_small: bool) -> u64 {
    match (semantics, is_small) {
        (Semantics::Store, true) => KEYS_FULL,
        _ => KEYS,
    }
}

fn config(directory: &Path, semantics: Semantics, is_small: bool) -> Config {
    Config {
        memory_bytes: if is_small { 1 << 20 } else { 64 << 20 },
        value_bytes_max: 20_000,
        workers: THREADS,
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

fn ask(worker: &mut Worker, key: u64, operation: Operation<'_>) -> Reply {
    let key = format!("key-{key}");
    let hash = worker.cache().hash(key.as_bytes());
    let request = Request { hash, key: key.as_bytes(), operation };
    let mut reply = Reply::default();
    worker.execute(&[request], 1000, &mut reply);
    reply
}

/// Returns a value: some are long enough to be copied outside of the lock, and some fit over
/// others.
fn value(key: u64, stamp: u64) -> Vec<u8> {
    let words = match stamp % 16 {
        0 => 400,
        n => 1 + n as usize * 3,
    };
    (key << 48 | stamp).to_le_bytes().repeat(words)
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
    let is_small = number("MICANITE_CRASH_SMALL") == 1;
    let keys = keys(semantics, is_small);
    let config = config(&directory, semantics, is_small);
    let cache = Arc::new(Cache::new(&config).unwrap());
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
                    let key = drawn % keys / THREADS as u64 * THREADS as u64 + thread;
                    let stamp = number("MICANITE_CRASH_SEED") << 24 | (step + 1);
                    let value = value(key, stamp);
                    let (operation, stamp) = if drawn >> 32 & 15 == 0 {
                        (Operation::Delete, 0)
                    } else {
                        let (condition, value) = (Condition::Always, value.as_slice());
                        let (flags, expiry) = (0, Expiry::NEVER);
                        (Operation::Store { condition, value, flags, expiry }, stamp)
                    };
                    record(INTENT, key, stamp);
                    let outcome = ask(&mut worker, key, operation).0.unwrap();
                    match outcome {
                        Outcome::OutOfMemory => record(REFUSED, key, stamp),
                        _ => record(DONE, key, stamp),
                    }
                    if step % 64 == 0 {
                        worker.maintain(1000);
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

fn read_journals(directory: &Path) -> HashMap<u64, Allowed> {
    let mut allowed = HashMap::<u64, Allowed>::new();
    for thread in 0..THREADS {
        let bytes = fs::read(directory.join(format!("journal-{thread}"))).unwrap_or_default();
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
    let journals = (0..THREADS).map(|thread| directory.join(format!("journal-{thread}")));
    let count = |path| {
        let bytes = fs::read(path).unwrap();
        // A kill may cut the last record off.
        let records = bytes.chunks_exact(RECORD_BYTES);
        records.filter(|record| record[0] == REFUSED as u8).count()
    };
    journals.map(count).sum()
}

/// Checks every key, and settles the write in progress. `evicted` is what a cache had evicted by
/// the last check.
fn check(
    (directory, semantics, is_small): (&Path, Semantics, bool),
    killed: bool,
    evicted: &mut u64,
) -> usize {
    let cache = Arc::new(Cache::new(&config(directory, semantics, is_small)).unwrap());
    let expected = if killed { ImageState::Recovered } else { ImageState::Clean };
    assert_eq!(*cache.image_state(), expected);
    let mut worker = cache.worker(0).unwrap();
    let mut held = 0;
    let mut missing = 0;
    let stats = cache.stats();
    let journals = read_journals(directory);
    let mut settled = fs::File::create(directory.join("settled")).unwrap();
    for (key, allowed) in journals {
        let reply = ask(&mut worker, key, Operation::Get { cas: false });
        let stamp = match reply.0 {
            Some(Outcome::Hit) => {
                let first = u64::from_le_bytes(*reply.1.first_chunk().unwrap());
                let stamp = first & ((1 << 48) - 1);
                assert_eq!(reply.1, value(key, stamp), "a torn value of {key}, or of another key");
                stamp
            }
            _ => 0,
        };
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
        settled.write_all(words.as_flattened()).unwrap();
    }
    // A kill may lose what a thread was moving from one end of its log to the other.
    let moving = if stats.reinserted > 0 { THREADS as u64 } else { 0 };
    let evicted_now = stats.evicted_log + stats.evicted_bucket;
    let evicted_since = evicted_now - std::mem::replace(evicted, evicted_now);
    assert!(missing <= evicted_since + moving, "{missing} items are missing, {evicted_since} were evicted");
    drop(settled);
    // The next round begins with the contents that this one found.
    fs::rename(directory.join("settled"), directory.join("journal-0")).unwrap();
    let _ = fs::remove_file(directory.join("journal-1"));
    held
}

/// One at a time: a process that another test starts holds, until it runs its own program, the
/// locks of this one's images, too.
static STARTING: Mutex<()> = Mutex::new(());

fn kill_often(name: &str, semantics: Semantics, is_small: bool) {
    let _starting = STARTING.lock().unwrap_or_else(|held| held.into_inner());
    let shared = Path::new("/dev/shm");
    let base = if shared.is_dir() { shared.into() } else { std::env::temp_dir() };
    let directory = base.join(format!("micanite-crash-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let rounds: u64 = std::env::var("MICANITE_CRASH_ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    let (mut held, mut refusals, mut evicted) = (0, 0, 0);
    let setting = (directory.as_path(), semantics, is_small);
    for round in 1..=rounds {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer_process", "--nocapture"])
            .env("MICANITE_CRASH_DIRECTORY", &directory)
            .env("MICANITE_CRASH_SEED", round.to_string())
            .env("MICANITE_CRASH_STORE", u8::from(semantics == Semantics::Store).to_string())
            .env("MICANITE_CRASH_SMALL", u8::from(is_small).to_string())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Wait until it writes, then a little longer, a different time each round.
        while !directory.join("journal-1").exists() {
            assert!(child.try_wait().unwrap().is_none(), "the writer ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(round * 7919 % 30_000));
        child.kill().unwrap();
        child.wait().unwrap();
        refusals += refused(&directory);
        held = check(setting, true, &mut evicted);
        if round % 4 == 0 {
            // Closed in order, then opened: nothing to recover.
            let cache = Cache::new(&config(&directory, semantics, is_small)).unwrap();
            cache.close().unwrap();
            drop(cache);
            check(setting, false, &mut evicted);
        }
    }
    assert!(held > 0, "nothing survived");
    let is_full = semantics == Semantics::Store && is_small;
    // A cache refuses a write only after it has waited in vain for the other thread, which a busy
    // machine may keep from running.
    if semantics == Semantics::Store {
        assert_eq!(refusals > 0, is_full, "{refusals} refusals");
    }
    assert!(is_full || refusals as u64 <= rounds, "{refusals} refusals");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_killed_cache_keeps_acknowledged_writes() {
    kill_often("cache", Semantics::Cache, false);
}

#[test]
fn a_cache_killed_while_it_evicts_returns_no_wrong_value() {
    kill_often("evicting", Semantics::Cache, true);
}

#[test]
fn a_killed_store_keeps_acknowledged_writes() {
    kill_often("store", Semantics::Store, false);
}

/// Kills a store in which most writes are refused, items move, and the index grows and shrinks.
#[test]
fn a_killed_full_store_keeps_acknowledged_writes() {
    kill_often("full", Semantics::Store, true);
}

#[test]
fn an_image_of_another_layout_is_refused_with_the_reason() {
    let _starting = STARTING.lock().unwrap_or_else(|held| held.into_inner());
    let directory = std::env::temp_dir().join(format!("micanite-image-{}", std::process::id()));
    let first = config(&directory, Semantics::Cache, false);
    let cache = Cache::new(&first).unwrap();
    let in_use = Cache::new(&first).unwrap_err().to_string();
    assert!(in_use.contains("has it open"), "{in_use}");
    cache.close().unwrap();
    drop(cache);
    let refused = |config: Config| Cache::new(&config).unwrap_err().to_string();
    for (changed, word) in [
        (Config { memory_bytes: 96 << 20, ..first.clone() }, "-m"),
        (Config { semantics: Semantics::Store, ..first.clone() }, "--semantics"),
        (Config { eviction: Eviction::Fifo, ..first.clone() }, "--eviction"),
        (Config { value_bytes_max: 4096, ..first.clone() }, "-I"),
    ] {
        let reason = refused(changed);
        assert!(reason.contains(word), "{reason}");
    }
    let file = directory.join("image/partition-0000");
    fs::write(&file, vec![7; 8 << 20]).unwrap();
    assert!(refused(first).contains("damaged"));
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_snapshot_taken_while_threads_write_holds_whole_items() {
    let _starting = STARTING.lock().unwrap_or_else(|held| held.into_inner());
    let directory = std::env::temp_dir().join(format!("micanite-snapshot-{}", std::process::id()));
    let config = Config { image: None, ..config(&directory, Semantics::Cache, false) };
    let cache = Arc::new(Cache::new(&config).unwrap());
    let mut workers = [cache.worker(0).unwrap(), cache.worker(1).unwrap()];
    let store = |worker: &mut Worker, key, stamp| {
        let value = value(key, stamp);
        let (condition, value) = (Condition::Always, value.as_slice());
        let (flags, expiry) = (0, Expiry::NEVER);
        let operation = Operation::Store { condition, value, flags, expiry };
        assert_eq!(ask(worker, key, operation).0, Some(Outcome::Stored));
    };
    for key in 0..KEYS {
        store(&mut workers[0], key, 1);
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (sender, receiver) = std::sync::mpsc::channel();
    let taken = std::thread::scope(|scope| {
        for (thread, worker) in workers.iter_mut().enumerate() {
            let (stop, sender) = (&stop, sender.clone());
            scope.spawn(move || {
                for stamp in 2.. {
                    store(worker, stamp * 2 % KEYS + thread as u64, stamp);
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
        let taken = cache.snapshot(&directory.join("image"), 1000).unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        taken
    });
    assert_eq!((taken.items, taken.left_out), (KEYS, 0));
    let again = cache.snapshot(&directory.join("image"), 1000);
    assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    let copy = Config { image: Some(directory.join("image")), ..config };
    let copy = Arc::new(Cache::new(&copy).unwrap());
    assert_eq!(*copy.image_state(), ImageState::Clean);
    let mut worker = copy.worker(0).unwrap();
    for key in 0..KEYS {
        let reply = ask(&mut worker, key, Operation::Get { cas: false });
        assert_eq!(reply.0, Some(Outcome::Hit));
        let stamp = u64::from_le_bytes(*reply.1.first_chunk().unwrap()) & ((1 << 48) - 1);
        assert_eq!(reply.1, value(key, stamp));
    }
    fs::remove_dir_all(directory).unwrap();
}
