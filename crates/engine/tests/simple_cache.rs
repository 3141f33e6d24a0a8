//! `SimpleCache`: many threads, limits, lifetimes, evictions, memory.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use micanite_engine::{Config, SetError, SimpleCache};

const MEMORY_BYTES: usize = 4 << 20;

/// Draws numbers that are the same on every machine.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// The value of a key and a version: any mixture of two is none.
fn value(key: &str, version: u64, bytes: usize) -> Vec<u8> {
    let unit = format!("{key}:{version};");
    unit.bytes().cycle().take(unit.len() + bytes).collect()
}

fn is_whole(key: &str, bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|byte| *byte == b';').unwrap();
    let unit = &bytes[..=end];
    unit.starts_with(format!("{key}:").as_bytes()) && bytes.iter().eq(unit.iter().cycle().take(bytes.len()))
}

/// Proves that threads, more than there are handles, never get a wrong value: a key that one thread
/// alone writes has what it wrote last or nothing, and a key of all has a whole value of its own.
#[test]
fn threads_never_get_a_wrong_value() {
    let config =
        Config { memory_bytes: MEMORY_BYTES, value_bytes_max: 1 << 17, workers: 3, ..Config::default() };
    let cache = SimpleCache::with_config(&config).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let cache = &cache;
            scope.spawn(move || {
                let (mut draw, mut model) = (Draw(thread), HashMap::new());
                for version in 0..20_000 {
                    let (number, bytes) = (draw.below(300), draw.below(4_000) as usize);
                    let shared = format!("shared {number}");
                    let own = format!("of {thread}: {number}");
                    match draw.below(8) {
                        0 => cache.set(&shared, value(&shared, version, bytes)).unwrap(),
                        1 => drop(cache.remove(&shared)),
                        2 | 3 => {
                            let bytes = value(&own, version, bytes);
                            cache.set(&own, &bytes).unwrap();
                            model.insert(own, bytes);
                        }
                        4 => {
                            let was_there = cache.remove(&own);
                            assert!(model.remove(&own).is_some() || !was_there);
                        }
                        5 => {
                            let found = cache.get_many(&[&shared, &own]);
                            assert!(found[0].as_ref().is_none_or(|bytes| is_whole(&shared, bytes)));
                            assert!(found[1].is_none() || found[1].as_ref() == model.get(&own));
                        }
                        6 => assert!(cache.get(&shared).is_none_or(|bytes| is_whole(&shared, &bytes))),
                        _ => {
                            let found = cache.get(&own);
                            assert!(found.is_none() || found.as_ref() == model.get(&own));
                        }
                    }
                }
            });
        }
    });
}

/// Proves that many keys are looked up in their order, whatever they are.
#[test]
fn many_keys_come_in_their_order() {
    let cache = SimpleCache::new(MEMORY_BYTES).unwrap();
    let keys: Vec<String> = (0..1_000).map(|number| format!("key {number}")).collect();
    for key in keys.iter().step_by(2) {
        cache.set(key, key).unwrap();
    }
    let (empty, long) = (String::new(), "x".repeat(251));
    let asked: Vec<&String> = keys.iter().flat_map(|key| [key, &empty, &long]).collect();
    for (place, found) in cache.get_many(&asked).into_iter().enumerate() {
        let is_stored = place % 6 == 0;
        assert_eq!(found, is_stored.then(|| keys[place / 3].clone().into_bytes()), "{place}");
    }
    assert!(cache.get_many::<&str>(&[]).is_empty());
}

/// Proves that lengths out of range are refused with a reason, and that the longest ones are accepted.
#[test]
fn lengths_out_of_range_are_errors() {
    let cache = SimpleCache::new(MEMORY_BYTES).unwrap();
    let most = cache.value_bytes_max();
    assert_eq!(most, MEMORY_BYTES / 16);
    let longest = vec![7; most];
    cache.set("k".repeat(250), &longest).unwrap();
    assert_eq!(cache.get("k".repeat(250)), Some(longest));
    let too_large = cache.set("key", vec![7; most + 1]).unwrap_err();
    assert_eq!(too_large, SetError::TooLarge { value_bytes_max: most });
    assert!(too_large.to_string().contains("at most 262144 bytes"));
    for key in [String::new(), "k".repeat(251)] {
        assert_eq!(cache.set(&key, "value"), Err(SetError::KeyLength));
        assert_eq!((cache.get(&key), cache.remove(&key)), (None, false));
    }
    assert!(SimpleCache::new(1 << 10).unwrap_err().to_string().contains("memory"));
}

/// Proves that every size makes a cache that has its largest value.
#[test]
fn every_size_has_room_for_the_largest_value() {
    for memory_bytes in (20..28).flat_map(|shift| [1 << shift, (3 << shift) / 2, (1 << shift) + 4_097]) {
        let cache = SimpleCache::new(memory_bytes).unwrap();
        let largest = vec![1; cache.value_bytes_max()];
        cache.set("largest", &largest).unwrap();
        assert_eq!(cache.get("largest"), Some(largest), "{memory_bytes}");
    }
}

/// Proves that a lifetime ends, and that an item without one, or with a longer one, stays.
#[test]
fn a_lifetime_ends() {
    let cache = SimpleCache::new(MEMORY_BYTES).unwrap();
    cache.set_for("short", "lived", Duration::from_millis(1)).unwrap();
    cache.set_for("long", "lived", Duration::from_secs(3_600)).unwrap();
    cache.set_for("endless", "lived", Duration::MAX).unwrap();
    cache.set("plain", "lived").unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while cache.get("short").is_some() {
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(cache.get_many(&["long", "endless", "plain"]).iter().all(Option::is_some));
    assert!(!cache.remove("short") && cache.remove("long"));
}

/// Proves that every key that was stored is there or was reported, and not both, and that the callback
/// may use the cache and another one.
#[test]
fn an_eviction_is_reported_once() {
    let evicted = Arc::new(Mutex::new(HashSet::new()));
    let other = SimpleCache::new(1 << 20).unwrap();
    let cache = Arc::new_cyclic(|this: &std::sync::Weak<SimpleCache>| {
        let (this, evicted) = (this.clone(), Arc::clone(&evicted));
        SimpleCache::new(MEMORY_BYTES).unwrap().on_eviction(move |key| {
            assert_eq!(this.upgrade().unwrap().get(key), None);
            other.set(key, "was evicted").unwrap();
            assert!(evicted.lock().unwrap().insert(key.to_vec()), "it was reported before");
        })
    });
    let keys: Vec<String> = (0..20_000).map(|number| format!("key {number}")).collect();
    for key in &keys {
        cache.set(key, [1; 1_000]).unwrap();
    }
    let evicted = evicted.lock().unwrap();
    assert!(evicted.len() > 10_000);
    for key in &keys {
        assert_ne!(cache.get(key).is_some(), evicted.contains(key.as_bytes()), "{key}");
    }
}

/// Proves that a callback that stores in its own cache ends: what it evicts is not reported.
#[test]
fn a_callback_that_stores_ends() {
    let reported = Arc::new(Mutex::new(0));
    let cache = Arc::new_cyclic(|this: &std::sync::Weak<SimpleCache>| {
        let (this, reported) = (this.clone(), Arc::clone(&reported));
        SimpleCache::new(1 << 20).unwrap().on_eviction(move |key| {
            this.upgrade().unwrap().set([b"again ", key].concat(), [1; 1_000]).unwrap();
            *reported.lock().unwrap() += 1;
        })
    });
    for number in 0..5_000 {
        cache.set(format!("key {number}"), [1; 1_000]).unwrap();
    }
    assert!(*reported.lock().unwrap() > 1_000);
}

const CHILD: &str = "MICANITE_MEMORY_CHILD";

/// A key whose conversion panics, or uses the cache.
struct Odd<'a>(Option<&'a SimpleCache>);

impl AsRef<[u8]> for Odd<'_> {
    fn as_ref(&self) -> &[u8] {
        let cache = self.0.expect("a key without bytes");
        cache.set("by a key", "value").unwrap();
        b"odd"
    }
}

/// Proves that a panic of a key, of a value or of the callback leaves the cache as it was, and that a key may
/// use the cache: with one handle, a lock that is held or poisoned would end every later call.
#[test]
fn a_handle_survives_a_panic_of_its_caller() {
    let config =
        Config { memory_bytes: MEMORY_BYTES, value_bytes_max: 1 << 17, workers: 1, ..Config::default() };
    let panics = AtomicBool::new(true);
    let cache = SimpleCache::with_config(&config).unwrap();
    let cache = cache.on_eviction(move |_| assert!(!panics.swap(false, Ordering::Relaxed), "the callback"));
    let panicked = |call: &dyn Fn()| std::panic::catch_unwind(AssertUnwindSafe(call)).is_err();
    assert!(panicked(&|| drop(cache.get(Odd(None)))));
    assert!(panicked(&|| drop(cache.get_many(&[Odd(None)]))));
    assert!(panicked(&|| cache.set(Odd(None), "value").unwrap()));
    assert!(panicked(&|| cache.set("key", Odd(None)).unwrap()));
    assert!(panicked(&|| _ = cache.remove(Odd(None))));
    assert!(panicked(&|| for number in 0..100_000 {
        cache.set(format!("key {number}"), [0; 1000]).unwrap();
    }));
    cache.set(Odd(Some(&cache)), "odd").unwrap();
    assert_eq!(cache.get(Odd(Some(&cache))), Some(b"odd".to_vec()));
    assert_eq!(cache.get_many(&[Odd(Some(&cache))]), [Some(b"odd".to_vec())]);
    assert_eq!(cache.get("by a key"), Some(b"value".to_vec()));
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Proves that the cache takes no more memory than it was given, in a process of its own.
#[test]
fn memory_stays_within_its_bound() {
    const GIVEN_BYTES: usize = 32 << 20;
    /// For the allocator, stacks and the index of threads.
    const MORE_BYTES: usize = 8 << 20;
    if std::env::var_os(CHILD).is_none() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "memory_stays_within_its_bound", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        return;
    }
    let before_bytes = resident_bytes();
    let cache = SimpleCache::new(GIVEN_BYTES).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                let mut draw = Draw(thread);
                for number in 0..50_000 {
                    let bytes = draw.below(4_000) as usize;
                    cache.set(format!("{thread} {number}"), vec![1; bytes]).unwrap();
                }
            });
        }
    });
    let taken_bytes = resident_bytes() - before_bytes;
    assert!(taken_bytes <= GIVEN_BYTES + MORE_BYTES, "{taken_bytes}");
    let kept = (0..4).flat_map(|thread| (0..50_000).map(move |number| format!("{thread} {number}")));
    let kept_bytes: usize = kept.filter_map(|key| cache.get(key)).map(|value| value.len()).sum();
    assert!((GIVEN_BYTES / 2..GIVEN_BYTES).contains(&kept_bytes), "{kept_bytes}");
}
