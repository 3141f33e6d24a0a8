//! The engine in a program of one's own: one thread owns and writes, others read concurrently.
//!
//! `cargo run --release --package micanite-engine --example embed`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use micanite_engine::{
    Access, Cache, Config, Expiry, KeyHash, Operation, Outcome, ReplySink, Request, Route, ValueMeta, Worker,
};

/// Readers beside the owner.
const READERS: usize = 3;
/// Seconds of any clock that the program has; expiries are on the same clock.
const NOW_S: u32 = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Open. `image: Some(directory)` would keep the items for the next start.
    let config =
        Config { memory_bytes: 64 << 20, workers: 1 + READERS, access: Access::Crew, ..Config::default() };
    let cache = Arc::new(Cache::new(&config)?);
    // Worker 0 owns everything: it alone writes, and its reads are in place.
    for partition in 0..cache.layout().partitions {
        let (access, owner) = (Access::Crew, 0);
        cache.set_route(partition, Route { access, owner })?;
    }
    let mut owner = cache.worker(0).ok_or("worker 0 is in use")?;

    // Set, get, delete.
    let stored = owner.set(b"greeting", b"hello", Expiry::NEVER, NOW_S);
    assert_eq!(stored, Outcome::Stored);
    let length = owner.get_with(b"greeting", NOW_S, |value, _flags| value.len());
    assert_eq!(length, Ok(Some(5)));
    owner.set(b"short", b"lived", Expiry(NOW_S + 60), NOW_S);
    assert_eq!(owner.get_with(b"short", NOW_S + 60, |_, _| ()), Ok(None));

    // Readers read while the owner writes; their values are always whole.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 1..=READERS {
            let mut reader = cache.worker(reader).expect("each handle is taken once");
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let seen = reader.get_with(b"counter", NOW_S, |value, _| value.to_vec());
                    let seen = seen.expect("reading is permitted");
                    assert!(seen.is_none_or(|value| value.iter().all(|byte| *byte == value[0])));
                }
            });
        }
        for number in 0..100_000u32 {
            owner.set(b"counter", &[number as u8; 64], Expiry::NEVER, NOW_S);
        }
        done.store(true, Ordering::Relaxed);
    });

    // A batch overlaps the latencies of memory, so it is faster.
    let keys: Vec<String> = (0..32).map(|number| format!("key-{number}")).collect();
    for key in &keys {
        owner.set(key.as_bytes(), key.as_bytes(), Expiry::NEVER, NOW_S);
    }
    println!("{} of {} keys found in one batch", batch(&mut owner, &keys), keys.len());
    Ok(())
}

/// Takes the values of a batch.
#[derive(Default)]
struct Values {
    value: Vec<u8>,
    hits: usize,
}

impl ReplySink for Values {
    fn reserve(&mut self, _index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.value.resize(meta.value_bytes, 0);
        Some(&mut self.value)
    }

    fn rollback(&mut self, _index: usize) {}

    fn finish(&mut self, _index: usize, outcome: Outcome) {
        self.hits += usize::from(outcome == Outcome::Hit);
    }
}

fn batch(worker: &mut Worker, keys: &[String]) -> usize {
    let hash = |key: &String| -> KeyHash { worker.cache().hash(key.as_bytes()) };
    let requests: Vec<Request<'_>> = keys
        .iter()
        .map(|key| Request { hash: hash(key), key: key.as_bytes(), operation: Operation::Get { cas: false } })
        .collect();
    let mut values = Values::default();
    worker.execute(&requests, NOW_S, &mut values);
    values.hits
}
