//! Hints of prefetching: when the owner may trust them.

use crate::index::bucket::Bucket;
use crate::index::hash::IndexHash;
use crate::index::tags::Scalar;
use crate::limits::BUCKET_ENTRIES;
use crate::partition::{Hint, Partition, UNSURE};
use crate::tests::support::*;
use crate::*;

const KEYS: u64 = 1000;

fn filled(setup: &Setup) -> std::sync::Arc<Cache> {
    let cache = setup.cache();
    let mut client = Client::new(&cache, 0);
    for number in 0..KEYS {
        assert_eq!(client.set(&number.to_le_bytes(), b"value"), Outcome::Stored);
    }
    cache
}

fn hashes(cache: &Cache) -> impl Iterator<Item = IndexHash> {
    let partition = &cache.partitions[0];
    (0..KEYS).map(|number| partition.index_hash(cache.hash(&number.to_le_bytes())))
}

fn look<'a>(partition: &'a Partition, hint: &mut Hint<'a>) {
    partition.prefetch_item::<Scalar>(hint, Bucket::at(&partition.region, hint.bucket));
}

/// Executes operations on one key in one batch.
fn in_one_batch(client: &mut Client, key: &[u8], operations: &[Operation<'_>]) -> Vec<Reply> {
    let hash = client.worker.cache().hash(key);
    let batch: Vec<_> =
        operations.iter().map(|operation| Request { hash, key, operation: *operation }).collect();
    let mut replies = Replies::default();
    assert_eq!(client.worker.execute(&batch, client.now_s, &mut replies), batch.len());
    replies.0
}

fn one_partition() -> Setup {
    Setup { data_units: 1 << 15, grows: true, ..Setup::default() }
}

/// Another owner may split the bucket between the stages, and this worker become the owner then: a miss in
/// the old bucket was taken for a fact.
#[test]
fn a_bucket_chosen_without_permission_proves_no_miss() {
    let cache = filled(&one_partition());
    let partition = &cache.partitions[0];
    let buckets = partition.all_buckets();
    let (before, after) =
        (|hash: &IndexHash| hash.bucket(buckets), |hash: &IndexHash| hash.bucket(buckets.grown()));
    let hash = hashes(&cache).find(|hash| before(hash) != after(hash)).expect("a key that moves");
    let mut hint = partition.prefetch_bucket(hash, UNSURE);
    partition.writer(0).grow(0);
    assert_ne!(partition.bucket(hash).first_word, hint.bucket);
    look(partition, &mut hint);
    assert!(!hint.is_fact(), "{hint:?}");
}

/// A hint is a fact until the owner has moved something, and again for hints made since.
#[test]
fn the_owners_changes_void_its_hints() {
    let cache = filled(&one_partition());
    let partition = &cache.partitions[0];
    let hash = hashes(&cache).next().unwrap();
    let mut hint = partition.prefetch_bucket(hash, partition.changes_seen(0));
    look(partition, &mut hint);
    assert!(hint.is_fact() && hint.entry != 0);
    let mut client = Client::new(&cache, 0);
    let keys: Vec<_> = (0..BUCKET_ENTRIES as u64).map(|number| number.to_le_bytes().to_vec()).collect();
    assert!(client.ask_all(&keys).iter().all(|reply| reply.outcome == Some(Outcome::Hit)));
    assert!(hint.is_fact(), "gets move nothing");
    let other = partition.index_hash(cache.hash(b"another key"));
    let mut absent = partition.prefetch_bucket(other, partition.changes_seen(0));
    look(partition, &mut absent);
    assert!(absent.is_fact() && absent.is_still_absent());
    assert_eq!(client.set(b"another key", b"value"), Outcome::Stored);
    assert!(!absent.is_still_absent(), "it has come");
    assert_eq!(client.outcome(&keys[1], Operation::Delete), Outcome::Deleted);
    assert!(!hint.is_fact(), "a removal may have moved the entry");
}

/// A split in the middle of a batch voids no hint, but an overwrite behind it is done under the version of
/// the bucket to which its key belongs now.
#[test]
fn an_overwrite_behind_a_split_changes_the_version_of_its_present_bucket() {
    let cache = filled(&one_partition());
    let partition = &cache.partitions[0];
    let buckets = partition.all_buckets();
    let number = (0..KEYS)
        .find(|number| {
            let hash = partition.index_hash(cache.hash(&number.to_le_bytes()));
            hash.bucket(buckets) != hash.bucket(buckets.grown())
        })
        .expect("a key that moves");
    let key = number.to_le_bytes();
    let hash = partition.index_hash(cache.hash(&key));
    let mut hint = partition.prefetch_bucket(hash, partition.changes_seen(0));
    look(partition, &mut hint);
    partition.writer(0).grow(0);
    let present = partition.bucket(hash);
    assert!(hint.is_fact() && present.first_word != hint.bucket);
    let before = present.version_word();
    let mut client = Client::new(&cache, 0);
    #[expect(unsafe_code, reason = "the test is the only user of the partition")]
    // SAFETY: no other thread has the cache.
    let writer = unsafe { partition.owner(0) };
    let meta = (0, Expiry::NEVER);
    assert!(!writer.overwrite_hinted(&key, &hint, b"other", meta), "under the version of the old bucket");
    drop(writer);
    assert_eq!(client.set(&key, b"other"), Outcome::Stored);
    assert_eq!(present.version_word(), before + 2);
}

/// One batch inserts, overwrites, removes and reads the same keys: each request sees those before it.
#[test]
fn requests_of_a_batch_see_those_before_them() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let cache = filled(&Setup { semantics, ..one_partition() });
        let mut client = Client::new(&cache, 0);
        for round in 0..200u64 {
            let key = (round * 17 % (2 * KEYS)).to_le_bytes();
            let get = Operation::Get { cas: false };
            let set = |value| store(Condition::Always, value, 0, 0);
            let expected = [
                (set(b"first"), Outcome::Stored, None),
                (get, Outcome::Hit, Some(&b"first"[..])),
                (set(b"2nd"), Outcome::Stored, None),
                (get, Outcome::Hit, Some(b"2nd")),
                (Operation::Append { value: b" and a longer one" }, Outcome::Stored, None),
                (get, Outcome::Hit, Some(b"2nd and a longer one")),
                (Operation::Delete, Outcome::Deleted, None),
                (get, Outcome::NotFound, None),
                (set(b"last"), Outcome::Stored, None),
                (get, Outcome::Hit, Some(b"last")),
            ];
            let replies = in_one_batch(&mut client, &key, &expected.map(|(operation, ..)| operation));
            for (reply, (operation, outcome, value)) in replies.iter().zip(expected) {
                assert_eq!(reply.outcome, Some(outcome), "{operation:?}");
                assert!(value.is_none_or(|value| reply.value == value), "{operation:?}: {reply:?}");
            }
        }
    }
}

/// A get-and-touch with an expiry in the past returns the value, and removes the item by the same writer:
/// hints of the item stayed facts, and a set behind it in the batch was lost.
#[test]
fn an_item_removed_by_its_own_get_voids_hints() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let cache = filled(&Setup { semantics, ..one_partition() });
        let mut client = Client::new(&cache, 0);
        for number in 0..100u64 {
            let key = number.to_le_bytes();
            let last = store(Condition::Always, b"again", 0, 0);
            let past = Operation::GetAndTouch { expiry: Expiry::PAST, cas: false };
            let get = Operation::Get { cas: false };
            let replies = in_one_batch(&mut client, &key, &[past, get, last]);
            let outcomes = replies.iter().map(|reply| reply.outcome).collect::<Vec<_>>();
            assert_eq!(outcomes, [Outcome::Hit, Outcome::NotFound, Outcome::Stored].map(Some));
            assert_eq!(client.get(&key).as_deref(), Some(&b"again"[..]), "{semantics:?}");
        }
    }
}

/// Windows of fewer requests than lanes computed a bucket of no key and no index, and overflowed with half of
/// all secrets.
#[test]
fn lanes_without_a_request_overflow_nothing() {
    for _ in 0..16 {
        let config = Config { memory_bytes: 1 << 20, value_bytes_max: 1 << 10, ..Config::default() };
        let cache = std::sync::Arc::new(Cache::new(&config).unwrap());
        let mut client = Client::new(&cache, 0);
        let keys: Vec<_> = (0..11u64).map(|number| number.to_le_bytes().to_vec()).collect();
        assert!(keys.iter().all(|key| client.set(key, b"value") == Outcome::Stored));
        for count in 2..keys.len() {
            let replies = client.ask_all(&keys[..count]);
            assert!(replies.iter().all(|reply| reply.outcome == Some(Outcome::Hit)));
        }
    }
}
