//! Kills a writer of write-back at random moments (SIGKILL): values that only the cache area had are gone
//! with the process, no older one comes back, and items that it did not touch are there.
//!
//! The writer is this program again, in a process of its own, with a journal, as in `crash.rs`.

#[path = "common/writers.rs"]
mod writers;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use micanite_chunks::{Area, Geometry, Policy};
use micanite_engine::*;
use micanite_memory::Region;
use writers::await_records;

const NOW_S: u32 = 1000;
const KEYS: u64 = 64;
/// Keys behind these are stored once, and are never touched again.
const UNTOUCHED: u64 = 64;
const PAGE_BYTES: usize = 4096;
/// Fewer chunks than keys, so that dirty ones are evicted.
const PAGES: usize = 3;
const INTENT: u64 = 1;
const DONE: u64 = 2;
const RECORD_BYTES: usize = 24;
/// A kill comes after fewer records than these.
const RECORDS_END: u64 = 4000;

fn config(directory: &Path) -> Config {
    Config {
        memory_bytes: 4 << 20,
        partition_bytes_max: 4 << 20,
        value_bytes_max: 1024,
        image: Some(directory.join("image")),
        ..Config::default()
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

fn value(key: u64, stamp: u64) -> Vec<u8> {
    (key << 48 | stamp).to_le_bytes().repeat(1 + stamp as usize % 3 * 4)
}

fn attach(cache: &Cache) {
    let partitions = cache.layout().partitions;
    assert_eq!(partitions, 1);
    let geometry = Geometry::new(0, PAGE_BYTES, 8192 + PAGE_BYTES * PAGES).unwrap();
    let region = Arc::new(Region::private(geometry.bytes()).unwrap());
    let area = Area::new(region, geometry, 1).unwrap();
    let config = ChunkConfig { policy: Policy::Lru, lease_ns: 1000, write: ChunkWrite::Back };
    cache.attach_area(&area, config).unwrap();
}

#[derive(Default)]
struct Sink {
    value: Vec<u8>,
}

impl ReplySink for Sink {
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.value.resize(meta.value_bytes, 0);
        Some(&mut self.value)
    }
    fn rollback(&mut self, _: usize) {}
    fn finish(&mut self, _: usize, _: Outcome) {}
}

fn execute(worker: &mut Worker, number: u64, operation: Operation<'_>) {
    let key = key(number);
    let request = Request { hash: worker.cache().hash(&key), key: &key, operation };
    assert_eq!(worker.execute(&[request], NOW_S, &mut Sink::default()), 1);
}

fn record(journal: &mut File, phase: u64, key: u64, stamp: u64) {
    let words = [phase, key, stamp].map(u64::to_le_bytes);
    journal.write_all(words.as_flattened()).unwrap();
}

/// Runs the process that is killed. Does nothing unless the test below starts it.
#[test]
fn writer_process() {
    let Ok(directory) = std::env::var("MICANITE_WRITE_BACK_DIRECTORY") else {
        return;
    };
    let directory = PathBuf::from(directory);
    let seed: u64 = std::env::var("MICANITE_WRITE_BACK_SEED").unwrap().parse().unwrap();
    let cache = Arc::new(Cache::new(&config(&directory)).unwrap());
    attach(&cache);
    let mut worker = cache.worker(0).unwrap();
    for number in KEYS..KEYS + UNTOUCHED {
        worker.set(&key(number), &value(number, 1), Expiry::NEVER, NOW_S);
    }
    let mut journal = OpenOptions::new().create(true).append(true).open(directory.join("journal")).unwrap();
    let mut random = seed;
    for step in 1.. {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (number, stamp) = (random % KEYS, seed << 24 | step);
        let value = value(number, stamp);
        let (condition, flags, expiry) = (Condition::Always, 0, Expiry::NEVER);
        match random >> 32 & 15 {
            0..8 => {
                record(&mut journal, INTENT, number, stamp);
                let value = &value;
                execute(&mut worker, number, Operation::StoreEntry { condition, value, flags, expiry });
                record(&mut journal, DONE, number, stamp);
            }
            8 => {
                record(&mut journal, INTENT, number, stamp);
                worker.set(&key(number), &value, expiry, NOW_S);
                record(&mut journal, DONE, number, stamp);
            }
            9 => {
                record(&mut journal, INTENT, number, 0);
                worker.delete(&key(number), NOW_S);
                record(&mut journal, DONE, number, 0);
            }
            10 => execute(&mut worker, number, Operation::Append { value: b"" }),
            11 => worker.maintain(NOW_S),
            _ => execute(&mut worker, number, Operation::GetEntry),
        }
    }
}

/// Returns the last acknowledged stamp of each key, 0 for none, and that of a write in progress.
fn read_journal(directory: &Path) -> HashMap<u64, (u64, Option<u64>)> {
    let bytes = fs::read(directory.join("journal")).unwrap_or_default();
    let mut allowed = HashMap::new();
    for record in bytes.chunks_exact(RECORD_BYTES) {
        let (words, _) = record.as_chunks::<8>();
        let [phase, key, stamp] = [0, 1, 2].map(|word| u64::from_le_bytes(words[word]));
        let of = allowed.entry(key).or_insert((0, None));
        *of = if phase == INTENT { (of.0, Some(stamp)) } else { (stamp, None) };
    }
    allowed
}

/// Returns how many acknowledged values are there, and how many are gone.
fn check(directory: &Path) -> (u64, u64) {
    let cache = Arc::new(Cache::new(&config(directory)).unwrap());
    let mut worker = cache.worker(0).unwrap();
    let mut get = |number| worker.get_with(&key(number), NOW_S, |value, _| value.to_vec()).unwrap();
    for number in KEYS..KEYS + UNTOUCHED {
        assert_eq!(get(number), Some(value(number, 1)), "an item that nobody touched");
    }
    let (mut there, mut gone) = (0, 0);
    let mut next = Vec::new();
    for (number, (done, under_way)) in read_journal(directory) {
        let found = get(number);
        let stamp = found
            .as_ref()
            .map_or(0, |found| u64::from_le_bytes(*found.first_chunk().unwrap()) & ((1 << 48) - 1));
        assert!(found.is_none_or(|found| found == value(number, stamp)), "a torn value of {number}");
        assert!(
            stamp == 0 || stamp == done || Some(stamp) == under_way,
            "key {number} holds {stamp}, acknowledged was {done}, under way {under_way:?}"
        );
        there += u64::from(stamp != 0);
        gone += u64::from(stamp == 0 && done != 0);
        next.push((number, stamp));
    }
    // The next round begins with what this one found.
    let mut journal = File::create(directory.join("journal")).unwrap();
    for (number, stamp) in next {
        record(&mut journal, DONE, number, stamp);
    }
    (there, gone)
}

#[test]
fn a_killed_writer_leaves_no_older_value_and_loses_nothing_else() {
    let shared = Path::new("/dev/shm");
    let base = if shared.is_dir() { shared.into() } else { std::env::temp_dir() };
    let directory = base.join(format!("micanite-write-back-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let rounds: u64 = std::env::var("MICANITE_CRASH_ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    let records =
        || fs::metadata(directory.join("journal")).map_or(0, |file| file.len()) / RECORD_BYTES as u64;
    let (mut there, mut gone) = (0, 0);
    for round in 1..=rounds {
        let least = records() + 200 + round * 1237 % RECORDS_END;
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer_process", "--nocapture"])
            .env("MICANITE_WRITE_BACK_DIRECTORY", &directory)
            .env("MICANITE_WRITE_BACK_SEED", round.to_string())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        await_records(&mut child, records, least);
        child.kill().unwrap();
        child.wait().unwrap();
        let (there_now, gone_now) = check(&directory);
        (there, gone) = (there + there_now, gone + gone_now);
    }
    assert!(there > 0 && gone > 0, "{there} acknowledged values are there, {gone} are gone");
    fs::remove_dir_all(directory).unwrap();
}
