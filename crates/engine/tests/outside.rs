//! Readers of another process beside writers: they map the partitions for loads, by descriptors that cannot
//! be mapped otherwise. They live in threads here, so that they share the writers' counters with the test.
//! `MICANITE_OUTSIDE_READS` sets the number of reads.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use micanite_engine::*;

const KEYS: u32 = 20_000;
const WORKERS: usize = 2;
const NOW_S: u32 = 1000;
const VALUE_BYTES_MAX: usize = 10_000;

fn reads() -> u64 {
    let wanted = std::env::var("MICANITE_OUTSIDE_READS");
    wanted.map_or(2_000_000, |text| text.parse().expect("a number of reads"))
}

/// A stream of numbers by a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
}

/// The bytes of a key's value in its version: they name both, and follow from them.
fn value(key: u32, version: u64) -> Vec<u8> {
    let mut random = Random(u64::from(key) << 32 ^ version ^ 0x9e37_79b9_7f4a_7c15);
    let long = random.below(64) == 0;
    let bytes = 12 + random.below(if long { 6000 } else { 90 }) as usize;
    let mut value = Vec::with_capacity(bytes + 8);
    value.extend(version.to_le_bytes());
    value.extend(key.to_le_bytes());
    while value.len() < bytes {
        value.extend(random.next().to_le_bytes());
    }
    value.truncate(bytes);
    value
}

/// Acknowledged work of the writers.
struct Facts {
    /// Version of each key; odd: deleted.
    acknowledged: Vec<AtomicU64>,
    /// Last version that a flush has removed, by worker.
    flushed: [AtomicU64; WORKERS],
    /// Last version that each worker has written.
    last: [AtomicU64; WORKERS],
    stop: AtomicBool,
}

impl Facts {
    fn new() -> Self {
        Self {
            acknowledged: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
            flushed: Default::default(),
            last: Default::default(),
            stop: AtomicBool::new(false),
        }
    }
}

/// Writes the keys of a worker until the test stops, and serves other workers.
fn write(cache: &Arc<Cache>, number: usize, facts: &Facts, is_store: bool) {
    let mut worker = cache.worker(number).unwrap();
    let mut random = Random(77 + number as u64);
    let mut version = 0;
    while !facts.stop.load(Ordering::Relaxed) {
        let hot = random.below(4) == 0;
        let chosen = random.below(if hot { 50 } else { u64::from(KEYS) / WORKERS as u64 }) as u32;
        let key = chosen * WORKERS as u32 + number as u32;
        version += 2;
        let deletes = random.below(16) == 0;
        let bytes = key.to_le_bytes();
        let acknowledged = &facts.acknowledged[key as usize];
        if deletes {
            worker.delete(&bytes, NOW_S);
            acknowledged.store(version + 1, Ordering::Release);
        } else if worker.set(&bytes, &value(key, version), Expiry::NEVER, NOW_S) == Outcome::Stored {
            acknowledged.store(version, Ordering::Release);
        } else {
            assert!(is_store, "a cache takes everything");
        }
        facts.last[number].store(version, Ordering::Release);
        if random.below(512) == 0 {
            worker.maintain(NOW_S);
        }
        if random.below(20_000) == 0 {
            let before = facts.last.each_ref().map(|last| last.load(Ordering::Acquire));
            worker.flush_all(NOW_S, NOW_S);
            for (flushed, before) in facts.flushed.iter().zip(before) {
                flushed.fetch_max(before, Ordering::AcqRel);
            }
        }
    }
    // Whoever changes routes may wait for this worker.
    drop(worker);
}

#[derive(Default)]
struct Sink {
    value: Vec<u8>,
    outcome: Option<Outcome>,
}

impl ReplySink for Sink {
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.value.resize(meta.value_bytes, 0);
        Some(&mut self.value)
    }

    fn rollback(&mut self, _: usize) {}

    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

/// What a reader knows before it reads a key.
struct Before {
    key: u32,
    acknowledged: u64,
    flushed: u64,
}

impl Before {
    fn of(key: u32, facts: &Facts) -> Self {
        let worker = key as usize % WORKERS;
        Self {
            key,
            acknowledged: facts.acknowledged[key as usize].load(Ordering::Acquire),
            flushed: facts.flushed[worker].load(Ordering::Acquire),
        }
    }

    /// Checks a value that was read: it is whole, of this key, and not older than what was acknowledged
    /// before, deleted or flushed.
    fn check(&self, found: &[u8]) {
        let version = u64::from_le_bytes(*found.first_chunk().expect("a version"));
        assert_eq!(found, value(self.key, version), "key {}", self.key);
        let key = self.key;
        assert!(version >= self.acknowledged, "key {key}: {version} after {}", self.acknowledged);
        assert!(version > self.flushed, "key {key}: {version} was flushed by {}", self.flushed);
    }
}

/// Counts of a reader.
#[derive(Default, Debug)]
struct Seen {
    hits: u64,
    misses: u64,
    undecided: u64,
    noted: u64,
}

impl Seen {
    fn take(&mut self, before: &Before, read: OutsideRead, sink: &Sink) {
        match read {
            OutsideRead::Done { note } => {
                self.noted += u64::from(note);
                match sink.outcome {
                    Some(Outcome::Hit) => {
                        self.hits += 1;
                        before.check(&sink.value);
                    }
                    Some(Outcome::NotFound) => self.misses += 1,
                    other => panic!("a get ended as {other:?}"),
                }
            }
            OutsideRead::Undecided => self.undecided += 1,
            OutsideRead::NoRoom => panic!("the sink has room"),
        }
    }
}

fn reader(cache: &Cache) -> ImageReader {
    let descriptors = cache.readers().iter().map(|it| it.try_clone().unwrap());
    let descriptors: Vec<OwnedFd> = descriptors.collect();
    ImageReader::open(descriptors, VALUE_BYTES_MAX, Some(b':')).unwrap()
}

/// Reads random keys, one at a time and in batches.
fn read(cache: &Cache, facts: &Facts, seed: u64, reads: u64) -> Seen {
    let reader = reader(cache);
    let mut random = Random(seed);
    let (mut seen, mut done) = (Seen::default(), 0);
    let mut key = || {
        let hot = random.below(4) == 0;
        random.below(if hot { 100 } else { u64::from(KEYS) }) as u32
    };
    let mut sink = Sink::default();
    while done < reads {
        for _ in 0..64 {
            let key = key();
            let (bytes, before) = (key.to_le_bytes(), Before::of(key, facts));
            let read = reader.get((0, reader.hash(&bytes), &bytes), NOW_S, &mut sink);
            seen.take(&before, read, &sink);
        }
        let keys: Vec<u32> = (0..64).map(|_| key()).collect();
        let bytes: Vec<[u8; 4]> = keys.iter().map(|key| key.to_le_bytes()).collect();
        let before: Vec<Before> = keys.iter().map(|key| Before::of(*key, facts)).collect();
        let hashed: Vec<(KeyHash, &[u8])> = bytes.iter().map(|key| (reader.hash(key), &key[..])).collect();
        reader.get_batch(&hashed, NOW_S, &mut sink, |sink, index, read| {
            seen.take(&before[index], read, sink);
        });
        done += 128;
    }
    seen
}

/// Runs writers, readers, changes of routes and snapshots on a cache. Returns what the readers saw.
fn run(cache: &Arc<Cache>, is_store: bool, reads: u64) -> Seen {
    cache.set_waker(|_| {});
    let facts = Facts::new();
    let snapshots = std::env::temp_dir().join(format!("micanite-outside-{}-{is_store}", std::process::id()));
    let seen = thread::scope(|scope| {
        for number in 0..WORKERS {
            let facts = &facts;
            scope.spawn(move || write(cache, number, facts, is_store));
        }
        let facts = &facts;
        let snapshots = &snapshots;
        scope.spawn(move || {
            let mut random = Random(5);
            while !facts.stop.load(Ordering::Relaxed) {
                let partition = random.below(cache.layout().partitions as u64) as usize;
                let access = [Access::Erew, Access::Crew, Access::Crcw][random.below(3) as usize];
                let owner = random.below(WORKERS as u64) as usize;
                // A worker that has ended takes none.
                let _ = cache.set_route(partition, Route { access, owner });
                if random.below(2000) == 0 {
                    cache.snapshot(snapshots, NOW_S).unwrap();
                    std::fs::remove_dir_all(snapshots).unwrap();
                }
                thread::yield_now();
            }
        });
        let other = scope.spawn(move || read(cache, facts, 3, reads / 2));
        let mut seen = read(cache, facts, 4, reads / 2);
        let other = other.join();
        facts.stop.store(true, Ordering::Relaxed);
        let other = other.unwrap();
        seen.hits += other.hits;
        seen.misses += other.misses;
        seen.undecided += other.undecided;
        seen.noted += other.noted;
        seen
    });
    let _ = std::fs::remove_dir_all(&snapshots);
    seen
}

fn config(semantics: Semantics) -> Config {
    Config {
        memory_bytes: 4 << 20,
        value_bytes_max: VALUE_BYTES_MAX,
        workers: WORKERS,
        semantics,
        seed: 9,
        namespace_delimiter: Some(b':'),
        readers: true,
        ..Config::default()
    }
}

/// No reader ever sees a wrong, torn, deleted, flushed or older value, whatever the writers do.
#[test]
fn readers_beside_writers_see_only_acknowledged_and_newer_values() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let cache = Arc::new(Cache::new(&config(semantics)).unwrap());
        let seen = run(&cache, semantics == Semantics::Store, reads() / 2);
        println!("{}: {seen:?}", semantics.name());
        assert!(seen.hits > seen.misses / 50, "{seen:?}");
        assert!(seen.undecided < seen.hits / 10, "{seen:?}");
    }
}

/// A later process continues an image, and its readers see what is there.
#[test]
fn readers_of_an_image_go_on_with_the_next_process() {
    let directory = std::env::temp_dir().join(format!("micanite-outside-image-{}", std::process::id()));
    let config = Config { image: Some(directory.clone()), workers: 1, ..config(Semantics::Cache) };
    let mut sink = Sink::default();
    for round in 0..3 {
        let cache = Arc::new(Cache::new(&config).unwrap());
        let outside = reader(&cache);
        let mut get = |key: &[u8]| {
            let read = outside.get((0, outside.hash(key), key), NOW_S, &mut sink);
            assert_eq!(read, OutsideRead::Done { note: sink.outcome == Some(Outcome::Hit) });
            (sink.outcome == Some(Outcome::Hit)).then(|| sink.value.clone())
        };
        for earlier in 0..round {
            assert_eq!(get(&[earlier]), Some(vec![earlier; 9]));
        }
        assert_eq!(get(&[round]), None);
        cache.worker(0).unwrap().set(&[round], &[round; 9], Expiry::NEVER, NOW_S);
        assert_eq!(get(&[round]), Some(vec![round; 9]));
        cache.close().unwrap();
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// Expiry, deletion and invalid namespaces hold for a reader as they do for a worker.
#[test]
fn readers_judge_items_as_workers_do() {
    let cache = Arc::new(Cache::new(&Config { workers: 1, ..config(Semantics::Cache) }).unwrap());
    let mut worker = cache.worker(0).unwrap();
    let reader = reader(&cache);
    let mut sink = Sink::default();
    let mut is_hit = |key: &[u8], now_s| {
        let read = reader.get((0, reader.hash(key), key), now_s, &mut sink);
        assert!(matches!(read, OutsideRead::Done { .. }));
        sink.outcome == Some(Outcome::Hit)
    };
    worker.set(b"short", b"v", Expiry(NOW_S + 5), NOW_S);
    worker.set(b"name:1", b"v", Expiry::NEVER, NOW_S);
    assert!(is_hit(b"short", NOW_S + 4));
    assert!(!is_hit(b"short", NOW_S + 5));
    assert!(is_hit(b"name:1", NOW_S));
    worker.invalidate_namespace(b"name", NOW_S).unwrap();
    assert!(!is_hit(b"name:1", NOW_S));
    worker.set(b"name:1", b"v", Expiry::NEVER, NOW_S);
    assert!(is_hit(b"name:1", NOW_S));
    worker.delete(b"name:1", NOW_S);
    assert!(!is_hit(b"name:1", NOW_S));
}

/// A reader of another layout, or of other sizes, is refused and does not guess.
#[test]
fn unknown_partitions_are_refused() {
    let cache = Cache::new(&config(Semantics::Cache)).unwrap();
    let clone = || cache.readers().iter().map(|it| it.try_clone().unwrap()).collect::<Vec<_>>();
    assert!(ImageReader::open(clone(), VALUE_BYTES_MAX, None).is_ok());
    let refusal = |descriptors, value| ImageReader::open(descriptors, value, None).unwrap_err().to_string();
    assert!(refusal(Vec::new(), VALUE_BYTES_MAX).contains("no partitions"));
    assert!(refusal(clone(), 5000).contains("largest item"));
    let empty: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    assert!(refusal(vec![empty], VALUE_BYTES_MAX).contains("first word"));
}
