//! Requests that a reader outside of the engine records keep items alive like those that workers
//! serve.

use crate::reader::{PlainGet, Read};
use crate::tests::support::*;
use crate::*;

const MEMORY_BYTES: usize = 4 << 20;
const VALUE_BYTES: usize = 100;
/// Ten times the keys that the cache holds.
const KEYS: usize = 10 * MEMORY_BYTES / (VALUE_BYTES + 40);
const REQUESTS: u64 = 500_000;
/// Misses count after this many requests: then the cache is full.
const WARM_REQUESTS: u64 = 200_000;
/// Requests between two visits of the worker: of half a million in a second, 10 ms apart.
const VISIT_EVERY: u64 = 5_000;
const NOW_S: u32 = 1000;

/// Numbers below `KEYS`, the smaller the more often: Zipf's law with an exponent of one.
struct Zipf {
    sums: Vec<f64>,
    random: Random,
}

impl Zipf {
    fn new() -> Self {
        let mut sum = 0.0;
        let add = |rank| {
            sum += 1.0 / rank as f64;
            sum
        };
        Self { sums: (1..=KEYS).map(add).collect(), random: Random(1) }
    }

    fn draw(&mut self) -> u64 {
        let sum = self.random.fraction() * self.sums[KEYS - 1];
        self.sums.partition_point(|upto| *upto < sum) as u64
    }
}

/// A value that is not examined, and whether there was one.
struct Seen {
    value: [u8; VALUE_BYTES],
    hit: bool,
}

impl ReplySink for Seen {
    fn reserve(&mut self, _: usize, _: ValueMeta) -> Option<&mut [u8]> {
        Some(&mut self.value)
    }

    fn rollback(&mut self, _: usize) {}

    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.hit = outcome == Outcome::Hit;
    }
}

/// Requests a key as a program in the kernel would: it reads the image, and may not write it.
fn get_outside(cache: &Cache, request: &Request<'_>, seen: &mut Seen) {
    let partition = cache.partition(request.hash);
    let read = partition.read((0, &hashed(partition, request)), &PlainGet, NOW_S, seen);
    if read == (Read::Done { count: true }) {
        cache.note_request(request.hash);
    }
}

/// Returns the share of misses of a stream in which a miss is followed by a store. Its gets go
/// through the worker, or come from outside; in that case the worker applies the recorded requests
/// after this many.
fn misses(eviction: Eviction, outside: Option<u64>) -> f64 {
    let config =
        Config { memory_bytes: MEMORY_BYTES, value_bytes_max: 10_000, eviction, ..Config::default() };
    let cache = std::sync::Arc::new(Cache::new(&config).unwrap());
    let mut worker = cache.worker(0).unwrap();
    let mut zipf = Zipf::new();
    let (mut seen, mut misses) = (Seen { value: [0; VALUE_BYTES], hit: false }, 0);
    for number in 0..REQUESTS {
        let key = zipf.draw().to_le_bytes();
        let request = |operation| Request { hash: cache.hash(&key), key: &key, operation };
        let get = request(Operation::Get { cas: false });
        match outside {
            None => assert_eq!(worker.execute(&[get], NOW_S, &mut seen), 1),
            Some(_) => get_outside(&cache, &get, &mut seen),
        }
        if !seen.hit {
            misses += u64::from(number >= WARM_REQUESTS);
            let set = request(store(Condition::Always, &[7; VALUE_BYTES], 0, 0));
            worker.execute(&[set], NOW_S, &mut seen);
        }
        if number.is_multiple_of(outside.unwrap_or(VISIT_EVERY)) {
            worker.maintain(NOW_S);
        }
    }
    misses as f64 / (REQUESTS - WARM_REQUESTS) as f64
}

#[test]
fn items_requested_outside_of_the_engine_stay_like_those_that_workers_serve() {
    for eviction in [Eviction::S3Fifo, Eviction::Clock, Eviction::ApproximateLru] {
        let (inside, outside) = (misses(eviction, None), misses(eviction, Some(VISIT_EVERY)));
        let (least, most) = (inside * 0.95, inside * 1.05);
        let name = eviction.name();
        assert!(
            (least..most).contains(&outside),
            "{name}: {outside} of what is asked for outside is missed, {inside} inside"
        );
    }
}
