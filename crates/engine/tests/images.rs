//! Promises to clients hold in every image that is made of another: the one that a closed or killed process
//! leaves, one of another size, a snapshot.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use micanite_engine::*;

const NOW_S: u32 = 1000;
const DUE_S: u32 = NOW_S + 5;
const MIB: usize = 1 << 20;
const KEY: &[u8] = b"key";

/// Ways from one image to the next.
#[derive(Clone, Copy, Debug)]
enum Way {
    Closed,
    Killed,
    Larger,
    LargerAfterKill,
    Smaller,
    Snapshot,
}

const WAYS: [Way; 6] =
    [Way::Closed, Way::Killed, Way::Larger, Way::LargerAfterKill, Way::Smaller, Way::Snapshot];

/// A directory that is removed with its test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The image that is in use, and its process.
struct Image {
    directory: Directory,
    config: Config,
    cache: Arc<Cache>,
    worker: Worker,
}

impl Image {
    fn new(name: &str, semantics: Semantics) -> Self {
        let name = format!("micanite-images-{name}-{semantics:?}-{}", std::process::id());
        let directory = Directory(std::env::temp_dir().join(name));
        let _ = fs::remove_dir_all(&directory.0);
        let config = Config {
            memory_bytes: 8 * MIB,
            partition_bytes_max: 4 * MIB,
            value_bytes_max: 4096,
            semantics,
            image: Some(directory.0.join("image")),
            ..Config::default()
        };
        let (cache, worker) = open(&config);
        Self { directory, config, cache, worker }
    }

    /// Ends the process, and opens the image that it leaves, or a copy.
    fn next(self, way: Way) -> Self {
        let Self { directory, mut config, cache, worker } = self;
        match way {
            Way::Closed | Way::Killed => {}
            Way::Larger | Way::LargerAfterKill => config.memory_bytes += 4 * MIB,
            Way::Smaller => config.memory_bytes -= MIB,
            Way::Snapshot => {
                let copies = fs::read_dir(&directory.0).unwrap().count();
                let copy = directory.0.join(format!("copy-{copies}"));
                assert_eq!(cache.snapshot(&copy, NOW_S).unwrap().left_out, 0);
                config.image = Some(copy);
            }
        }
        if !matches!(way, Way::Killed | Way::LargerAfterKill) {
            cache.close().unwrap();
        }
        drop((cache, worker));
        let (cache, worker) = open(&config);
        assert!(cache.image_state().is_kept(), "{way:?}");
        Self { directory, config, cache, worker }
    }

    fn set(&mut self, value: &[u8], now_s: u32) {
        assert_eq!(self.worker.set(KEY, value, Expiry::NEVER, now_s), Outcome::Stored);
    }

    fn get(&mut self, now_s: u32) -> Option<Vec<u8>> {
        self.worker.get_with(KEY, now_s, |value, _| value.to_vec()).unwrap()
    }

    fn ask(&mut self, operation: Operation<'_>) -> (Option<Outcome>, u64) {
        let mut reply = Reply::default();
        let request = Request { hash: self.cache.hash(KEY), key: KEY, operation };
        self.worker.execute(&[request], NOW_S, &mut reply);
        (reply.outcome, reply.cas)
    }

    /// Returns the CAS value, which a client knows from then on.
    fn token(&mut self) -> u64 {
        let (outcome, cas) = self.ask(Operation::Get { cas: true });
        assert_eq!(outcome, Some(Outcome::Hit));
        cas
    }

    fn compare_and_set(&mut self, cas: u64) -> Option<Outcome> {
        let (condition, flags) = (Condition::Unchanged(cas), 0);
        self.ask(Operation::Store { condition, value: b"changed", flags, expiry: Expiry::NEVER }).0
    }
}

fn open(config: &Config) -> (Arc<Cache>, Worker) {
    let cache = Arc::new(Cache::new(config).unwrap());
    let worker = cache.worker(0).unwrap();
    (cache, worker)
}

#[derive(Default)]
struct Reply {
    outcome: Option<Outcome>,
    cas: u64,
    value: Vec<u8>,
}

impl ReplySink for Reply {
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.cas = meta.cas;
        self.value = vec![0; meta.value_bytes];
        Some(&mut self.value)
    }

    fn rollback(&mut self, _: usize) {}

    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

/// Proves that a scheduled flush is done by the process whose image it is then, once. It was forgotten.
#[test]
fn a_scheduled_flush_is_done_by_a_later_process() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        for way in WAYS {
            let mut image = Image::new("flush", semantics);
            image.set(b"old", NOW_S);
            image.worker.flush_all(DUE_S, NOW_S);
            let mut image = image.next(way);
            assert_eq!(image.get(DUE_S - 1).as_deref(), Some(b"old".as_slice()), "{semantics:?} {way:?}");
            let mut image = image.next(way);
            assert_eq!(image.get(DUE_S), None, "{semantics:?} {way:?}");
            image.set(b"new", DUE_S);
            assert!(image.next(way).get(DUE_S + 1).is_some(), "flushed again: {semantics:?} {way:?}");
        }
    }
}

/// Proves that a CAS value that a client knows fits its own value, and no later one, in every later image.
#[test]
fn cas_values_stay_with_their_values() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        for way in WAYS {
            let mut image = Image::new("cas", semantics);
            let mut tokens = Vec::new();
            for number in 0..100u8 {
                image.set(&[number; 20], NOW_S);
                tokens.push(image.token());
            }
            image.set(b"last", NOW_S); // no client knows its CAS value
            let mut image = image.next(way);
            for token in &tokens {
                assert_eq!(image.compare_and_set(*token), Some(Outcome::Exists), "{semantics:?} {way:?}");
            }
            let known = image.token();
            assert!(!tokens.contains(&known));
            let mut image = image.next(way);
            assert_eq!(image.compare_and_set(known), Some(Outcome::Stored), "{semantics:?} {way:?}");
            tokens.push(known);
            for _ in 0..200 {
                image.set(b"of the same length", NOW_S);
                let token = image.token();
                assert!(!tokens.contains(&token), "{semantics:?} {way:?}: {token} again");
                tokens.push(token);
            }
        }
    }
}

/// Proves that a snapshot does not accept what the cache gave to a client after the snapshot had begun.
#[test]
fn a_snapshot_accepts_no_cas_value_of_the_time_after_it() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let mut image = Image::new("later", semantics);
        image.set(b"copied", NOW_S);
        let copy = image.directory.0.join("copy");
        image.cache.snapshot(&copy, NOW_S).unwrap();
        let mut later = Vec::new();
        for number in 0..200u8 {
            image.set(&[number; 20], NOW_S);
            later.push(image.token());
        }
        let config = Config { image: Some(copy), ..image.config.clone() };
        let (cache, worker) = open(&config);
        let mut copy = Image { cache, worker, ..image };
        for _ in 0..200 {
            let token = copy.token();
            assert!(!later.contains(&token), "{semantics:?}: {token}");
            copy.set(b"another one", NOW_S);
        }
    }
}

/// Proves that a trial beside the process that has the image tells what the next process finds.
#[test]
fn a_trial_agrees_with_the_start_that_follows() {
    let other = |semantics| if semantics == Semantics::Store { Semantics::Cache } else { Semantics::Store };
    for semantics in [Semantics::Cache, Semantics::Store] {
        for change in 0..9 {
            if (semantics, change) == (Semantics::Store, 6) {
                continue; // a store has no policy
            }
            let mut image = Image::new("trial", semantics);
            for number in 0..1000u32 {
                let stored = image.worker.set(&number.to_le_bytes(), &[7; 3000], Expiry::NEVER, NOW_S);
                assert_eq!(stored, Outcome::Stored);
            }
            let same = image.config.clone();
            let next = match change {
                0 => same,
                1 => Config { memory_bytes: 16 * MIB, ..same },
                2 => Config { memory_bytes: 7 * MIB, ..same },
                3 => Config { memory_bytes: 2 * MIB, ..same },
                4 => Config { value_bytes_max: 8192, ..same },
                5 => Config { semantics: other(semantics), ..same },
                6 => Config { eviction: Eviction::Lru, ..same },
                7 => Config { workers: 3, access: Access::Crew, ..same },
                _ => Config { image: Some(image.directory.0.join("another")), ..same },
            };
            let tried = Cache::try_out(&next, change != 8);
            assert!(!image.directory.0.join("another").exists(), "a trial leaves something behind");
            assert_eq!(image.get(NOW_S), None);
            image.cache.close().unwrap();
            let seed = image.cache.seed();
            let Image { directory: _directory, cache, worker, .. } = image;
            drop((cache, worker));
            match (tried, Cache::new(&next)) {
                (Ok(tried), Ok(opened)) if change < 8 => {
                    assert_eq!(tried, Some((seed, opened.layout())));
                    assert_eq!(opened.seed(), seed);
                }
                (Ok(tried), Ok(_)) => assert_eq!(tried, None),
                (Err(tried), Err(refused)) => {
                    assert_eq!((tried.kind(), tried.to_string()), (refused.kind(), refused.to_string()));
                }
                (tried, opened) => panic!("{semantics:?} {change}: {tried:?}, then {opened:?}"),
            }
        }
    }
}
