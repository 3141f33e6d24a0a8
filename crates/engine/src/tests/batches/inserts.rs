//! New keys in batches: they void no hints of the others, and make room for a batch at a time.

use crate::log::LogKind;
use crate::region::{Field, LogField};
use crate::tests::support::*;
use crate::*;

const BATCH: u64 = 64;

fn roomy() -> Setup {
    Setup { buckets: 1 << 13, data_units: 1 << 16, value_bytes_max: 100, ..Setup::default() }
}

/// Executes sets of keys, each followed by a get of the same key, in one batch.
fn set_and_get(client: &mut Client, numbers: std::ops::Range<u64>) -> Vec<Reply> {
    let keys: Vec<_> = numbers.map(u64::to_le_bytes).collect();
    let cache = client.worker.cache();
    let pair = |key| {
        let operations = [store(Condition::Always, key, 0, 0), Operation::Get { cas: false }];
        operations.map(|operation| Request { hash: cache.hash(key), key, operation })
    };
    let batch: Vec<_> = keys.iter().flat_map(|key| pair(key.as_slice())).collect();
    let mut replies = Replies::default();
    assert_eq!(client.worker.execute(&batch, client.now_s, &mut replies), batch.len());
    replies.0
}

/// A key that the same batch stores is found, although prefetching saw no item of it.
#[test]
fn a_get_behind_the_insertion_of_its_batch_finds_it() {
    let cache = roomy().cache();
    let mut client = Client::new(&cache, 0);
    for first in (0..4000).step_by(50) {
        let replies = set_and_get(&mut client, first..first + 32);
        for (number, pair) in (first..).zip(replies.chunks(2)) {
            assert_eq!(
                (pair[0].outcome, pair[1].outcome),
                (Some(Outcome::Stored), Some(Outcome::Hit)),
                "{number}"
            );
            assert_eq!(pair[1].value, number.to_le_bytes(), "{number}");
        }
    }
}

#[test]
fn insertions_with_room_void_no_hints() {
    let cache = roomy().cache();
    let partition = &cache.partitions[0];
    let mut client = Client::new(&cache, 0);
    let before = partition.changes.now();
    let keys: Vec<_> = (0..BATCH).map(u64::to_le_bytes).collect();
    let batch: Vec<_> = keys
        .iter()
        .map(|key| Request { hash: cache.hash(key), key, operation: store(Condition::Always, b"v", 7, 99) })
        .collect();
    let mut replies = Replies::default();
    assert_eq!(client.worker.execute(&batch, 1, &mut replies), batch.len());
    assert_eq!(partition.changes.now(), before);
    assert_eq!(partition.get(Field::ItemsInserted), BATCH);
    client.now_s = 98;
    assert!(keys.iter().all(|key| client.get(key).is_some()));
    client.now_s = 99;
    assert!(keys.iter().all(|key| client.get(key).is_none()), "each has its expiry");
}

/// In a full cache most insertions meet space: the one that found none has made room for those behind it.
#[test]
fn an_insertion_without_room_makes_some_for_a_batch() {
    for eviction in Eviction::ALL.into_iter().filter(|eviction| *eviction != Eviction::ApproximateLru) {
        let setup = Setup { eviction, ..roomy() };
        let cache = setup.cache();
        let partition = &cache.partitions[0];
        let mut client = Client::new(&cache, 0);
        let mut number = 0u64;
        let mut insert = |count: u64, client: &mut Client| {
            for _ in 0..count {
                number += 1;
                client.set(&number.to_le_bytes(), b"12345678");
            }
        };
        insert(100_000, &mut client);
        let before = partition.changes.now();
        insert(10_000, &mut client);
        let voided = partition.changes.now() - before;
        assert!(voided < 1500, "{eviction:?}: {voided} of 10,000 insertions");
        // It gives away little for it.
        let log = partition.log(if eviction == Eviction::S3Fifo { LogKind::Small } else { LogKind::Main });
        let (tail, head) = (log.get(LogField::Tail), log.get(LogField::Head));
        assert!(tail - head > log.get(LogField::Limit) * 98 / 100, "{eviction:?}");
    }
}

/// A long value passes the items in its way, and few for the others: it once made room for many values of its
/// length.
#[test]
fn a_long_value_evicts_little_more_than_its_length() {
    let setup = Setup { eviction: Eviction::Fifo, data_units: 1 << 20, value_bytes_max: 16_000, ..roomy() };
    let cache = Setup { buckets: 1 << 17, ..setup }.cache();
    let mut client = Client::new(&cache, 0);
    let mut number = 0u64;
    while cache.stats().evicted_log < 1000 {
        number += 1;
        client.set(&number.to_le_bytes(), b"12345678");
    }
    let before = cache.stats().evicted_log;
    assert_eq!(client.set(b"long", &[7; 16_000]), Outcome::Stored);
    let evicted = cache.stats().evicted_log - before;
    assert!((16_000 / 24 - 5 * BATCH..16_000 / 24 + 10).contains(&evicted), "{evicted}");
}
