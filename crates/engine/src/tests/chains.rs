//! Chains stay short, even if an attacker chooses the keys.

use std::sync::Arc;

use super::support::*;
use crate::index::hash::Buckets;
use crate::index::visits;
use crate::limits::{BUCKET_ENTRIES, CHAIN_BUCKETS_MAX, CHAIN_TAG_ITEMS_MAX, MAIN_PER_SPARE_CACHE};
use crate::reader::{PlainGet, Read};
use crate::*;

const SEED: u64 = 7;
const CHAIN_ITEMS_MAX: usize = CHAIN_BUCKETS_MAX * BUCKET_ENTRIES;

/// Returns the key of eight bytes that has this client's hash: XXH3 of eight bytes, inverted.
fn key_with(hash: u64) -> [u8; 8] {
    const FACTOR: u64 = 0x9fb2_1c65_1e98_df25;
    let rotations = |word: u64| word ^ word.rotate_left(49) ^ word.rotate_left(24);
    let mut inverse: u64 = 1;
    for _ in 0..6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(FACTOR.wrapping_mul(inverse)));
    }
    let mut word = (hash ^ hash >> 28 ^ hash >> 56).wrapping_mul(inverse);
    word ^= (word >> 35) + 8;
    word = word.wrapping_mul(inverse);
    // The rotations 64 times are the identity.
    word = (0..63).fold(word, |word, _| rotations(word));
    let seed = SEED ^ u64::from((SEED as u32).swap_bytes()) << 32;
    let input = word ^ 0xc73a_b174_c5ec_d5a2_u64.wrapping_sub(seed);
    let mut key = [0; 8];
    key[..4].copy_from_slice(&((input >> 32) as u32).to_le_bytes());
    key[4..].copy_from_slice(&(input as u32).to_le_bytes());
    key
}

/// Iterates over keys that all have the same client's hash: XXH3 of more than 16 bytes multiplies
/// the second word by the first one xor a constant and the seed, which is zero here.
fn keys_of_one_hash(cache: &Cache) -> impl Iterator<Item = Vec<u8>> {
    let zero = 0xbe4b_a423_396c_feb8_u64.wrapping_add(SEED).to_le_bytes();
    let hash = cache.hash(&[zero, [0; 8], [1; 8], [2; 8]].concat());
    (0..).map(move |number: u64| {
        let key = [zero, number.to_le_bytes(), [1; 8], [2; 8]].concat();
        assert_eq!(KeyHash::of(&key, SEED), hash);
        key
    })
}

/// Returns keys whose index hash fulfils a condition, as for an attacker who knows the secret.
fn keys_where(cache: &Arc<Cache>, is: impl Fn(IndexHash, Buckets) -> bool) -> impl Iterator<Item = Vec<u8>> {
    let partition = &cache.partitions[0];
    let buckets = partition.all_buckets();
    (0u64..)
        .map(|number| number.to_le_bytes().to_vec())
        .filter(move |key| is(partition.index_hash(KeyHash::of(key, SEED)), buckets))
}

fn setup(semantics: Semantics, buckets: u64) -> Setup {
    Setup { semantics, buckets, data_units: 1 << 18, ..Setup::default() }
}

/// Returns the most buckets, and the most keys, that one lookup of any of these keys has visited.
fn most_visited(cache: &Cache, keys: &[Vec<u8>]) -> (usize, usize) {
    let partition = &cache.partitions[0];
    let mut most = (0, 0);
    for key in keys {
        visits::take();
        let writer = partition.writer(1000);
        writer.lookup(writer.partition.hash_of(key), key);
        let of_writer = visits::take();
        drop(writer);
        let request = Request { hash: cache.hash(key), key, operation: Operation::Get { cas: false } };
        let mut replies = Replies::default();
        let asked = hashed(partition, &request);
        let read = partition.read((0, &asked), &PlainGet, 1000, &mut replies);
        assert!(matches!(read, Read::Done { .. }), "{read:?}");
        let of_reader = visits::take();
        for (buckets, keys) in [of_writer, of_reader] {
            most = (most.0.max(buckets), most.1.max(keys));
        }
    }
    most
}

fn assert_bounded(cache: &Cache, keys: &[Vec<u8>]) {
    let (buckets, compared) = most_visited(cache, keys);
    assert!(buckets <= CHAIN_BUCKETS_MAX, "{buckets} buckets");
    assert!(compared <= CHAIN_TAG_ITEMS_MAX, "{compared} keys");
}

/// Returns the probability that a Poisson variable is at least this large.
fn poisson_tail(mean: f64, least: usize) -> f64 {
    let mut term = (-mean).exp();
    let mut tail = 0.0;
    for number in 1..least + 400 {
        term *= mean / number as f64;
        tail += if number >= least { term } else { 0.0 };
    }
    tail
}

/// Proves that no chain of random keys reaches its bound, at any load and in the largest partition.
#[test]
fn random_keys_exceed_a_chain_with_a_probability_below_one_in_a_million_millions() {
    let per_spare = MAIN_PER_SPARE_CACHE as f64;
    // Every entry of the index is taken, and the bucket is the last that is not split yet.
    let mean = 2.0 * BUCKET_ENTRIES as f64 * (1.0 + 1.0 / per_spare);
    let chains_max = (limits::PARTITION_BYTES_MAX / (limits::BUCKET_WORDS * 8)) as f64;
    let exceeds = poisson_tail(mean, CHAIN_ITEMS_MAX + 1);
    assert!(exceeds < 1e-22, "{exceeds}");
    assert!(exceeds * chains_max < 1e-12, "{exceeds}");
    // Two values of the hash make the tag one.
    let of_tag = poisson_tail(mean * 2.0 / 65536.0, CHAIN_TAG_ITEMS_MAX);
    assert!(of_tag < 1e-22, "{of_tag}");
}

/// Proves that the index hash spreads keys over growing buckets as the computation assumes: numbers
/// in a row, and keys of client's hashes in a row, at the fullest index just before its last
/// splits.
#[test]
fn index_hashes_of_consecutive_keys_fill_buckets_like_random_ones() {
    let (first, count) = (1000u64, 15_900u64);
    let buckets = Buckets::of(first, count);
    let per_bucket = BUCKET_ENTRIES as f64 * (1.0 + 1.0 / MAIN_PER_SPARE_CACHE as f64);
    let keys = (count as f64 * per_bucket) as u64;
    let client_hashes: [&dyn Fn(u64) -> KeyHash; 2] =
        [&|number| KeyHash::of(&number.to_le_bytes(), SEED), &|number| {
            KeyHash(0x155 << 54 | number << 28 | 0x1234)
        }];
    for client_hash in client_hashes {
        let mut filled = vec![0usize; count as usize];
        for number in 0..keys {
            filled[IndexHash::of(client_hash(number), Secret::KNOWN).bucket(buckets)] += 1;
        }
        // Buckets that are split, and the few that are not.
        let unsplit = 16_000 - count;
        let first_unsplit = (count - 8000) as usize;
        let is_unsplit = |bucket: usize| (first_unsplit..8000).contains(&bucket);
        let mean = keys as f64 / 16_000.0;
        for (number, of, expected) in [(count - unsplit, false, mean), (unsplit, true, mean * 2.0)] {
            let fills = filled.iter().enumerate();
            let fills: Vec<_> = fills.filter(|(bucket, _)| is_unsplit(*bucket) == of).collect();
            let long = fills.iter().filter(|(_, items)| **items > 14).count() as f64;
            let expected = poisson_tail(expected, 15) * number as f64;
            let deviation = (long - expected).abs() / expected.sqrt();
            assert!(deviation < 5.0, "{long} of more than two lines, not {expected}");
        }
        assert!(filled.iter().all(|items| *items <= CHAIN_ITEMS_MAX));
    }
}

/// Proves that keys chosen by the client's hash cost what random keys cost, for an attacker who
/// knows all but the secret.
#[test]
fn misses_on_keys_chosen_without_the_secret_cost_as_much_as_random_ones() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        let cache = Setup { data_units: 8 << 17, grows: true, ..setup(semantics, 1000) };
        let cache = cache.cache();
        let mut client = Client::new(&cache, 0);
        // One bucket and one tag of the client's hash, for many doublings.
        let chosen = |number: u64| key_with(0x155 << 54 | (number << 12 | 0x3 << 32) << 16 | 0x1234);
        for number in 0..30_000 {
            assert_eq!(client.set(&chosen(number), b"v"), Outcome::Stored);
        }
        let mut visited = |key: &dyn Fn(u64) -> [u8; 8]| {
            visits::take();
            for number in 40_000..40_500 {
                assert_eq!(client.get(&key(number)), None);
            }
            visits::take()
        };
        let of_chosen = visited(&chosen);
        let of_random = visited(&|number| number.to_le_bytes());
        assert!(of_chosen.0 <= 5 * of_random.0, "{of_chosen:?}, {of_random:?}");
        assert!(of_chosen.1 <= 50, "{of_chosen:?} keys compared");
    }
}

/// Proves that keys of one client's hash cost a few comparisons, that a cache continues to take
/// them, and that a store keeps acknowledged items and refuses the others.
#[test]
fn keys_of_one_hash_are_bounded_by_their_tag() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        let cache = setup(semantics, 128).cache();
        let mut client = Client::new(&cache, 0);
        for number in 0..500u64 {
            assert_eq!(client.set(&number.to_le_bytes(), b"other"), Outcome::Stored);
        }
        let keys: Vec<_> = keys_of_one_hash(&cache).take(1000).collect();
        let outcomes: Vec<_> = keys.iter().map(|key| client.set(key, b"value")).collect();
        let there: Vec<_> = keys.iter().map(|key| client.get(key).is_some()).collect();
        let (least, refused) = match semantics {
            Semantics::Store => (0, 1000 - CHAIN_TAG_ITEMS_MAX),
            Semantics::Cache => (1000 - CHAIN_TAG_ITEMS_MAX, 0),
        };
        for (number, there) in there.iter().enumerate() {
            let expected = (least..least + CHAIN_TAG_ITEMS_MAX).contains(&number);
            assert_eq!(*there, expected, "{semantics:?} {number}");
        }
        let stored = outcomes.iter().filter(|outcome| **outcome == Outcome::Stored);
        assert_eq!(stored.count(), 1000 - refused);
        assert_eq!(cache.stats().out_of_memory, refused as u64);
        assert_bounded(&cache, &keys);
        for number in 0..500u64 {
            assert!(client.get(&number.to_le_bytes()).is_some());
        }
        // Existing items can still be overwritten, deleted, and written again.
        let last = &keys[least + CHAIN_TAG_ITEMS_MAX - 1];
        assert_eq!(client.set(last, b"longer than before"), Outcome::Stored);
        assert_eq!(client.outcome(last, Operation::Delete), Outcome::Deleted);
        assert_eq!(client.set(&keys[500], b"value"), Outcome::Stored);
    }
}

/// Proves the same bound for keys that share the bucket and the tag, but not the client's hash.
#[test]
fn keys_of_one_bucket_and_one_tag_are_bounded_by_their_tag() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        let cache = setup(semantics, 2).cache();
        let mut client = Client::new(&cache, 0);
        let is = |hash: IndexHash, buckets| hash.bucket(buckets) == 1 && hash.tag() == 0x1234;
        let keys: Vec<_> = keys_where(&cache, is).take(CHAIN_TAG_ITEMS_MAX + 2).collect();
        let outcomes: Vec<_> = keys.iter().map(|key| client.set(key, b"value")).collect();
        let there = keys.iter().filter(|key| client.get(key).is_some()).count();
        assert_eq!(there, CHAIN_TAG_ITEMS_MAX);
        let refused = outcomes.iter().filter(|outcome| **outcome == Outcome::OutOfMemory);
        let expected = if semantics == Semantics::Store { 2 } else { 0 };
        assert_eq!(refused.count(), expected);
        assert_bounded(&cache, &keys);
    }
}

/// Proves that a chain ends at its bound for an attacker who knows the secret: a cache continues, a
/// store refuses and loses nothing, and other keys still find spare buckets.
#[test]
fn keys_of_one_bucket_are_bounded_by_the_chain() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        let cache = setup(semantics, 256).cache();
        let mut client = Client::new(&cache, 0);
        let keys: Vec<_> = keys_where(&cache, |hash, buckets| hash.bucket(buckets) == 77)
            .take(CHAIN_ITEMS_MAX + 30)
            .collect();
        let outcomes: Vec<_> = keys.iter().map(|key| client.set(key, b"value")).collect();
        let there: Vec<_> = keys.iter().map(|key| client.get(key).is_some()).collect();
        let first = if semantics == Semantics::Store { 0 } else { 30 };
        for (number, there) in there.iter().enumerate() {
            let expected = (first..first + CHAIN_ITEMS_MAX).contains(&number);
            assert_eq!(*there, expected, "{semantics:?} {number}");
        }
        for (number, outcome) in outcomes.iter().enumerate() {
            let refused = semantics == Semantics::Store && number >= CHAIN_ITEMS_MAX;
            assert_eq!(*outcome == Outcome::OutOfMemory, refused, "{number}");
        }
        assert_eq!(most_visited(&cache, &keys).0, CHAIN_BUCKETS_MAX);
        assert_bounded(&cache, &keys);
        let used = cache.stats().spare_buckets_used;
        assert_eq!(used as usize, CHAIN_BUCKETS_MAX - 1);
    }
}

/// Proves that a chain at its bound does not make the index grow for keys that it cannot take.
#[test]
fn a_store_that_refuses_keys_of_one_chain_does_not_grow() {
    let cache = Setup { grows: true, ..setup(Semantics::Store, 91) };
    let cache = cache.cache();
    let mut client = Client::new(&cache, 0);
    let keys: Vec<_> =
        keys_where(&cache, |hash, buckets| hash.bucket(buckets) == 90).take(CHAIN_ITEMS_MAX + 500).collect();
    let (first, others) = keys.split_at(CHAIN_ITEMS_MAX);
    for key in first {
        client.set(key, b"value");
    }
    let before = cache.stats().buckets;
    let stored = others.iter().filter(|key| client.set(key, b"value") == Outcome::Stored);
    assert!(stored.count() <= CHAIN_ITEMS_MAX);
    assert!(cache.stats().buckets <= before + 16, "{} of {before}", cache.stats().buckets);
    assert!(first.iter().all(|key| client.get(key).is_some()));
}

/// Proves that splits keep the bounds and lose nothing of a store, also of chains at their bound.
#[test]
fn a_chain_at_its_bound_is_split_without_loss() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        let cache = Setup { grows: true, data_units: 1 << 17, ..setup(semantics, 128) };
        let cache = cache.cache();
        let mut client = Client::new(&cache, 0);
        let keys: Vec<_> =
            keys_where(&cache, |hash, buckets| hash.bucket(buckets) == 7).take(CHAIN_ITEMS_MAX).collect();
        for key in &keys {
            assert_eq!(client.set(key, b"value"), Outcome::Stored);
        }
        let mut number = 1u64 << 40;
        while cache.stats().buckets < 600 {
            // One of 128 falls into the full chain at first.
            client.set(&number.to_le_bytes(), b"value");
            number += 1;
            assert!(number < (1 << 40) + 10_000, "{:?}", cache.stats());
        }
        // A cache has evicted some of them for keys that fell into the full chain.
        let there = keys.iter().filter(|key| client.get(key).is_some()).count();
        let lost = CHAIN_ITEMS_MAX - there;
        assert_eq!(lost as u64, cache.stats().evicted_bucket, "{semantics:?}");
        assert_bounded(&cache, &keys);
    }
}

/// Links a chain of this many buckets in a partition, which has that many spare ones.
fn link(cache: &Cache, main: u64, buckets: u64) {
    let partition = &cache.partitions[0];
    let bucket = partition.main_bucket(main);
    bucket.write(|| bucket.set_next_spare(Some(0)));
    for spare in 0..buckets - 2 {
        partition.spare_bucket(spare).set_next_spare(Some(spare + 1));
    }
    partition.spare_bucket(buckets - 2).set_next_spare(None);
}

/// Proves that a reader returns *contended*, never *not found*, for a chain that has no end.
#[test]
fn a_reader_that_reaches_its_bound_is_contended() {
    let cache = setup(Semantics::Cache, 256).cache();
    let key = &keys_where(&cache, |hash, buckets| hash.bucket(buckets) == 77).next().unwrap();
    let request = Request { hash: cache.hash(key), key, operation: Operation::Get { cas: false } };
    let partition = &cache.partitions[0];
    let read = || {
        let mut replies = Replies::default();
        let asked = hashed(partition, &request);
        partition.read((0, &asked), &PlainGet, 1000, &mut replies)
    };
    link(&cache, 77, CHAIN_BUCKETS_MAX as u64);
    assert_eq!(read(), Read::Done { count: false });
    link(&cache, 77, CHAIN_BUCKETS_MAX as u64 + 1);
    assert_eq!(read(), Read::Contended);
    partition.spare_bucket(1).set_next_spare(Some(1 << 30));
    assert_eq!(read(), Read::Contended);
}

/// Proves that the sweep visits each item of a chain once, and removes all that have expired.
#[test]
fn one_sweep_of_a_chain_at_its_bound_removes_all_expired_items() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        let cache = setup(semantics, 256).cache();
        let mut client = Client::new(&cache, 0);
        let keys: Vec<_> =
            keys_where(&cache, |hash, buckets| hash.bucket(buckets) == 77).take(CHAIN_ITEMS_MAX).collect();
        for (number, key) in keys.iter().enumerate() {
            let expiry_s = if number % 3 == 0 { 0 } else { 2000 };
            client.outcome(key, store(Condition::Always, b"value", 0, expiry_s));
        }
        let partition = &cache.partitions[0];
        let writer = partition.writer(2000);
        writer.sweep_chain(partition.main_bucket(77));
        drop(writer);
        let left = CHAIN_ITEMS_MAX.div_ceil(3);
        assert_eq!(cache.items_in_index(), left as u64);
        let spares = left.div_ceil(BUCKET_ENTRIES) - 1;
        assert_eq!(cache.stats().spare_buckets_used as usize, spares);
        client.now_s = 2000;
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(client.get(key).is_some(), number % 3 == 0, "{number}");
        }
    }
}
