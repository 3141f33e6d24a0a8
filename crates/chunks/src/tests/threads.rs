//! Readers beside a hot writer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::support::{INCARNATION, area_of, bring};
use crate::layout::CHECKED_BYTES_MAX;
use crate::reader::{Read, Refusal, Wanted, accept};
use crate::*;
use micanite_wire::hash::KeyHash;

const READS: u64 = if cfg!(miri) { 100 } else { 1_000_000 };
const READERS: u64 = 2;
const KEYS: u64 = 48;
/// Short, so that chunks are used again while slow reads are under way.
const LEASE_NS: u64 = 50_000;

struct Clock(Instant);

impl Host for Clock {
    fn now_ns(&mut self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn copy_back(&mut self, _: &Area, _: &Chunk) -> CopyBack {
        unreachable!("nothing is dirty");
    }
}

/// State of a key outside of the area: the data memory, and what clients know.
struct Key {
    /// Number of the newest visible value.
    number: AtomicU64,
    entry: Mutex<Option<Entry>>,
}

/// splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn hash_of(key: u64) -> KeyHash {
    KeyHash::of(&key.to_le_bytes(), 0)
}

/// Returns the bytes of a value. Sizes belong to values, not to keys, so that chunks change their class.
fn value_of(key: u64, number: u64) -> Vec<u8> {
    let mut state = key << 32 ^ number;
    let bytes = match random(&mut state) % 256 {
        0 => CHECKED_BYTES_MAX + 1,
        size @ 1..16 => size as usize * 300,
        size => size as usize * 2,
    };
    let word = random(&mut state).to_le_bytes();
    let mut value = [key.to_le_bytes(), number.to_le_bytes()].concat();
    value.extend(word.iter().cycle().take(bytes));
    value
}

fn write(area: &Area, keys: &[Key], is_over: &AtomicBool) -> Counters {
    let config = Config { policy: Policy::Lru, lease_ns: LEASE_NS };
    let mut table = Table::new(area, 0, config).unwrap();
    let (mut host, mut state) = (Clock(Instant::now()), 1);
    while !is_over.load(Ordering::Relaxed) {
        let at = random(&mut state) % KEYS;
        let (key, hash) = (at.to_le_bytes(), hash_of(at));
        let known = &keys[at as usize];
        let mut number = known.number.load(Ordering::Relaxed);
        if !random(&mut state).is_multiple_of(4) {
            if let Some(chunk) = table.find(hash, &key) {
                table.kill(&chunk, &mut host);
            }
            number += 1;
            known.number.store(number, Ordering::Release);
        }
        let value = value_of(at, number);
        let Some(mut taken) = table.take(key.len(), value.len(), &mut host) else {
            continue;
        };
        assert!(taken.fill(area, &Item { hash, key: &key, value: &value, flags: 0, expiry_s: 0 }));
        *known.entry.lock().unwrap() = table.publish(taken, &mut host);
        if random(&mut state).is_multiple_of(1000) {
            table.raise_void();
        }
    }
    table.check(0);
    table.counters()
}

/// Returns how many reads were accepted, and how many were refused for anything but a dead chunk.
fn read(area: &Area, keys: &[Key], mut state: u64) -> (u64, u64) {
    let (mut accepted, mut torn) = (0, 0);
    for _ in 0..READS / READERS {
        let at = random(&mut state) % KEYS;
        let known = &keys[at as usize];
        let Some(entry) = *known.entry.lock().unwrap() else {
            continue;
        };
        let (key, hash) = (at.to_le_bytes(), hash_of(at));
        let oldest = known.number.load(Ordering::Acquire);
        let posted = Instant::now();
        let brought = bring(area, hash.0, entry);
        let lasted_ns = posted.elapsed().as_nanos() as u64;
        let wanted =
            Wanted { entry, key: &key, hash, incarnation: INCARNATION, second_max: 1, lease_ns: LEASE_NS };
        let second_header = Some(&brought.second_header[..]);
        let read = Read { record: &brought.record, chunk: &brought.chunk, second_header, lasted_ns };
        match accept(&wanted, &read) {
            Ok(item) => {
                let number = u64::from_le_bytes(item.value[8..16].try_into().unwrap());
                assert!(number >= oldest, "value {number}, but {oldest} was visible before the read");
                assert!(item.value == value_of(at, number), "a wrong value");
                accepted += 1;
            }
            Err(refusal) => torn += u64::from(refusal != Refusal::Version),
        }
    }
    (accepted, torn)
}

/// A read returns the newest value from before or during the read, or nothing, while chunks are killed,
/// evicted, used again and change their class.
#[test]
fn readers_beside_a_hot_writer_see_no_wrong_value() {
    let area = area_of(0, 64 << 10, 12);
    let keys: Vec<Key> =
        (0..KEYS).map(|_| Key { number: AtomicU64::new(0), entry: Mutex::new(None) }).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&area, &keys, &is_over));
        let readers = [2, 3].map(|seed| {
            let (area, keys) = (&area, &keys);
            scope.spawn(move || read(area, keys, seed))
        });
        let results = readers.map(|reader| reader.join());
        is_over.store(true, Ordering::Relaxed);
        let counters = writer.join().unwrap();
        let results = results.map(|result| result.unwrap());
        let accepted: u64 = results.iter().map(|(accepted, _)| accepted).sum();
        println!("accepted, refused for more than a dead chunk: {results:?}; {counters:?}");
        assert!(accepted > 0 && counters.killed > 0 && counters.voids > 0);
        assert!(cfg!(miri) || counters.evicted > 0);
    });
}
