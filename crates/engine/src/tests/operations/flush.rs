//! A flush is complete when it is acknowledged, while a batch of another worker holds it up.

use std::sync::Arc;

use crate::access::Permission;
use crate::tests::support::*;
use crate::*;

const NOW_S: u32 = 1000;
const DUE_S: u32 = NOW_S + 5;

/// Makes two partitions and three workers, of which the first two own one each. The key lies in the
/// partition that is flushed last.
fn stored() -> (Arc<Cache>, Vec<u8>) {
    let setup = Setup { partition_bits: 1, workers: 3, access: Access::Crew, ..Setup::default() };
    let cache = setup.cache();
    let mut keys = (0..).map(|number| format!("space:{number}").into_bytes());
    let is_in_last = |key: &Vec<u8>| cache.partition_of(cache.hash(key)) == 1;
    let key = keys.find(is_in_last).unwrap();
    (cache, key)
}

/// Runs `first` until it waits for a batch of the third worker, then `second` until it waits as
/// well, or returns. Then the batch ends.
fn one_during_the_other<R: Send + 'static>(
    cache: Arc<Cache>,
    first: impl FnOnce(&mut Client) + Send + 'static,
    second: impl FnOnce(&mut Client) -> R + Send + 'static,
) -> R {
    within(30, move || {
        let [mut a, mut b] = [0, 1].map(|worker| Client::new(&cache, worker));
        let third = cache.worker(2).unwrap();
        // The worker that prepared the cache has ended, so its partitions were shared.
        for owner in [0, 1] {
            let access = Access::Crew;
            cache.set_route(owner, Route { access, owner }).unwrap();
        }
        let batch = third.enter();
        std::thread::scope(|scope| {
            scope.spawn(move || first(&mut a));
            let route = &cache.partitions[0].route;
            while route.permission(2) != Permission::Wait {
                std::thread::yield_now();
            }
            let second = scope.spawn(move || second(&mut b));
            let waits = || cache.changing.length() == 2 || cache.flushing.length() == 2;
            while !second.is_finished() && !waits() {
                std::thread::yield_now();
            }
            drop(batch);
            second.join().unwrap()
        })
    })
}

/// Stores the key as the second worker.
fn set(cache: &Arc<Cache>, key: &[u8]) {
    assert_eq!(Client::new(cache, 1).set(key, b"old"), Outcome::Stored);
}

/// Proves that a flush beside one that a batch holds up is acknowledged when it is done.
#[test]
fn flush_all_is_acknowledged_when_it_is_done() {
    let (cache, key) = stored();
    set(&cache, &key);
    let left = one_during_the_other(
        cache,
        |client| client.worker.flush_all(NOW_S, NOW_S),
        move |client| {
            client.worker.flush_all(NOW_S, NOW_S);
            client.get(&key)
        },
    );
    assert_eq!(left, None);
}

/// Proves that from the second of a delayed flush on no older item is served, while another worker
/// is flushing; and that items stored from that second on stay.
#[test]
fn a_partition_that_a_due_flush_has_not_reached_is_not_served() {
    let (cache, key) = stored();
    set(&cache, &key);
    Client::new(&cache, 0).worker.flush_all(DUE_S, NOW_S);
    let seen = one_during_the_other(
        cache,
        |client| client.worker.maintain(DUE_S),
        move |client| {
            client.now_s = DUE_S;
            let before = client.get(&key);
            assert_eq!(client.set(&key, b"new"), Outcome::Stored);
            (before, client.get(&key))
        },
    );
    assert_eq!(seen, (None, Some(b"new".to_vec())));
}

/// Proves that what others read before workers run is flushed before: a worker that asks in an earlier
/// second, and so does not flush, finds nothing.
#[test]
fn a_due_flush_is_done_without_a_worker() {
    let (cache, key) = stored();
    let client = &mut Client::new(&cache, 1);
    assert_eq!(client.set(&key, b"old"), Outcome::Stored);
    client.worker.flush_all(DUE_S, NOW_S);
    cache.flush_if_due(DUE_S - 1);
    assert!(client.get(&key).is_some());
    cache.flush_if_due(DUE_S);
    assert_eq!(client.get(&key), None);
    assert_eq!(client.set(&key, b"new"), Outcome::Stored);
    cache.flush_if_due(DUE_S + 1);
    assert!(client.get(&key).is_some(), "flushed twice");
}

/// Proves that a delayed flush for the second in which another one is being done is done as well.
#[test]
fn a_flush_requested_during_another_one_is_not_forgotten() {
    let (cache, key) = stored();
    Client::new(&cache, 0).worker.flush_all(DUE_S, NOW_S);
    let left = one_during_the_other(
        cache,
        |client| client.worker.maintain(DUE_S),
        move |client| {
            // The clock of this worker is a second behind.
            client.worker.flush_all(DUE_S, DUE_S - 1);
            client.now_s = DUE_S - 1;
            assert_eq!(client.set(&key, b"old"), Outcome::Stored);
            client.now_s = DUE_S;
            client.get(&key)
        },
    );
    assert_eq!(left, None);
}

/// Proves that of two delayed flushes the later call counts, and that one at once replaces both.
#[test]
fn a_later_flush_replaces_a_scheduled_one() {
    let (cache, key) = stored();
    let client = &mut Client::new(&cache, 1);
    client.worker.flush_all(DUE_S, NOW_S);
    client.worker.flush_all(DUE_S + 5, NOW_S);
    assert_eq!(client.set(&key, b"old"), Outcome::Stored);
    client.now_s = DUE_S;
    assert!(client.get(&key).is_some());
    client.now_s = DUE_S + 5;
    assert_eq!(client.get(&key), None);
    client.worker.flush_all(DUE_S + 20, DUE_S + 10);
    client.worker.flush_all(DUE_S + 10, DUE_S + 10);
    assert_eq!(client.set(&key, b"new"), Outcome::Stored);
    client.now_s = DUE_S + 20;
    assert!(client.get(&key).is_some());
}

/// Proves that the second of two flushes of a namespace is acknowledged when it is done.
#[test]
fn flush_namespace_is_acknowledged_when_it_is_done() {
    let (cache, key) = stored();
    set(&cache, &key);
    let flush = |client: &mut Client| {
        let flushed = client.worker.invalidate_namespace(b"space", NOW_S);
        flushed.expect("room for a namespace");
    };
    let left = one_during_the_other(cache, flush, move |client| {
        flush(client);
        client.get(&key)
    });
    assert_eq!(left, None);
}
