//! A thread that meets a writer again and again stops trying after a while, and gets on by another
//! way. `docs/ARCHITECTURE.md`, "Retries", lists the limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{READ_ATTEMPTS_MAX, READ_BYTES_WASTED_MAX, READ_ROUNDS_MAX};
use crate::operations::publish_long;
use crate::reader::{PlainGet, Read};
use crate::tests::support::*;
use crate::writer::NewItem;
use crate::*;

const NOW_S: u32 = 1000;

fn get(cache: &Cache, key: &'static [u8]) -> Request<'static> {
    Request { hash: cache.hash(key), key, operation: Operation::Get { cas: false } }
}

/// A sink beside which a neighbour of the key is written whenever a value is copied into it.
struct NeighbourWriter<'a> {
    cache: &'a Cache,
    key: &'a [u8],
    value: Vec<u8>,
    copies: usize,
    outcome: Option<Outcome>,
}

impl<'a> NeighbourWriter<'a> {
    fn new(cache: &'a Cache, key: &'a [u8]) -> Self {
        Self { cache, key, value: Vec::new(), copies: 0, outcome: None }
    }
}

impl ReplySink for NeighbourWriter<'_> {
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        write_neighbour(self.cache, self.key);
        self.copies += 1;
        self.value.resize(meta.value_bytes, 0);
        Some(&mut self.value)
    }

    fn rollback(&mut self, _: usize) {}

    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

/// Proves that a read copies a value a limited number of times, and a long one once.
#[test]
fn a_read_beside_a_hot_neighbour_is_contended_after_its_attempts() {
    let cache = crew().cache();
    let mut owner = Client::new(&cache, 0);
    for (bytes, copies) in
        [(10, READ_ATTEMPTS_MAX), (READ_BYTES_WASTED_MAX / 2, 2), (READ_BYTES_WASTED_MAX, 1)]
    {
        assert_eq!(owner.set(b"key", &vec![7; bytes]), Outcome::Stored);
        let mut sink = NeighbourWriter::new(&cache, b"key");
        let request = get(&cache, b"key");
        let partition = cache.partition(request.hash);
        let read = partition.read((0, &hashed(partition, &request)), &PlainGet, NOW_S, &mut sink);
        assert_eq!(read, Read::Contended, "{bytes}");
        assert_eq!(sink.copies, copies, "{bytes}");
    }
}

/// Proves that a worker that shares a partition takes the lock when its reads are contended.
#[test]
fn a_worker_that_shares_reads_under_the_lock_beside_a_hot_neighbour() {
    let setup = Setup { access: Access::Crcw, ..crew() };
    let cache = setup.cache();
    let mut client = Client::new(&cache, 0);
    assert_eq!(client.set(b"key", b"value"), Outcome::Stored);
    let mut sink = NeighbourWriter::new(&cache, b"key");
    client.worker.execute(&[get(&cache, b"key")], NOW_S, &mut sink);
    assert_eq!(sink.copies, READ_ATTEMPTS_MAX + 1);
    assert_eq!(sink.outcome, Some(Outcome::Hit));
    assert_eq!(sink.value, b"value");
}

/// Proves that a worker that may only read asks the owner after its rounds, once.
#[test]
fn a_crew_read_beside_a_hot_neighbour_asks_the_owner() {
    let (copies, asked) = within(60, || {
        let cache = crew().cache();
        let (mut owner, mut other) = (Client::new(&cache, 0), Client::new(&cache, 1));
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        cache.set_waker(move |worker| {
            assert_eq!(worker, 0);
            count.fetch_add(1, Ordering::AcqRel);
        });
        let long = vec![7; READ_BYTES_WASTED_MAX];
        assert_eq!(owner.set(b"key", &long), Outcome::Stored);
        assert!(owner.worker.fall_asleep());
        let mut sink = NeighbourWriter::new(&cache, b"key");
        std::thread::scope(|scope| {
            let asked = &asked;
            scope.spawn(move || {
                while asked.load(Ordering::Acquire) == 0 {
                    std::thread::yield_now();
                }
                owner.worker.wake_up();
            });
            other.worker.execute(&[get(&cache, b"key")], NOW_S, &mut sink);
        });
        assert_eq!(sink.outcome, Some(Outcome::Hit));
        assert_eq!(sink.value, long);
        (sink.copies, asked.load(Ordering::Acquire))
    });
    assert_eq!((copies, asked), (READ_ROUNDS_MAX + 1, 1));
}

/// Proves that a worker serves others while its own read waits for them.
#[test]
fn two_readers_that_delegate_to_each_other_both_continue() {
    within(60, || {
        let setup = Setup { partition_bits: 1, ..crew() };
        let cache = setup.cache();
        cache.set_waker(|_| {});
        let keys = [0, 1].map(|partition| {
            let mut keys = (0..).map(|number| format!("key-{number}").into_bytes());
            keys.find(|key| cache.partition_of(cache.hash(key)) == partition).unwrap()
        });
        let mut clients = [0, 1].map(|worker| Client::new(&cache, worker));
        for (client, key) in clients.iter_mut().zip(&keys) {
            assert_eq!(client.set(key, key), Outcome::Stored);
            stop_writer_in(&cache, key);
        }
        let left = AtomicUsize::new(2);
        let [first, second] = &mut clients;
        std::thread::scope(|scope| {
            for (client, key) in [(first, &keys[1]), (second, &keys[0])] {
                let left = &left;
                scope.spawn(move || {
                    assert_eq!(client.get(key).as_ref(), Some(key));
                    left.fetch_sub(1, Ordering::AcqRel);
                    while left.load(Ordering::Acquire) > 0 {
                        client.worker.serve();
                        std::thread::yield_now();
                    }
                });
            }
        });
        let in_vain = 2 * READ_ROUNDS_MAX * (READ_ATTEMPTS_MAX - 1);
        assert_eq!(cache.stats().read_retries, in_vain as u64);
    });
}

/// Proves that a read without a way to ask the owner ends as well, with that reason.
#[test]
fn a_contended_crew_read_without_a_waker_returns_not_owner() {
    let outcome = within(60, || {
        let cache = crew().cache();
        let (mut owner, mut other) = (Client::new(&cache, 0), Client::new(&cache, 1));
        assert_eq!(owner.set(b"key", b"value"), Outcome::Stored);
        stop_writer_in(&cache, b"key");
        other.outcome(b"key", Operation::Get { cas: false })
    });
    assert_eq!(outcome, Outcome::NotOwner);
}

/// Proves that a write blocked by another thread's unfinished item is refused after a while, and
/// succeeds once that item is finished.
#[test]
fn a_write_behind_an_item_that_is_not_finished_is_refused() {
    within(120, || {
        let setup = Setup {
            data_units: 400,
            value_bytes_max: 1600,
            eviction: Eviction::Fifo,
            workers: 2,
            ..Setup::default()
        };
        let cache = setup.cache();
        let mut client = Client::new(&cache, 0);
        let partition = &cache.partitions[0];
        // A thread has stopped between the two parts of a long store.
        let unfinished = NewItem::of(b"unfinished", &[7; 1200], (0, Expiry::NEVER));
        let writer = partition.writer(NOW_S);
        let hash = writer.partition.hash_of(b"unfinished");
        let reserved = writer.reserve(hash, &unfinished, None).unwrap();
        drop(writer);
        let mut number = 0u32;
        let mut fill = |bytes: usize| {
            number += 1;
            client.set(&number.to_le_bytes(), &vec![7; bytes])
        };
        let stored = (0..).take_while(|_| fill(500) == Outcome::Stored).count();
        assert!((1..400).contains(&stored), "{stored}");
        assert_eq!(fill(1500), Outcome::OutOfMemory);
        let vivify = Operation::MetaGet(MetaGet { vivify: Some(Expiry::NEVER), ..MetaGet::default() });
        let full = (0..200).any(|_| fill(8) == Outcome::OutOfMemory);
        assert!(full);
        assert_eq!(client.outcome(b"absent", vivify), Outcome::OutOfMemory);
        partition.writer(NOW_S).release(&reserved);
        assert_eq!(client.outcome(b"absent", vivify), Outcome::Stored);
        assert_eq!(client.set(b"long", &[7; 1500]), Outcome::Stored);
        assert_eq!(client.set(b"short", b"value"), Outcome::Stored);
    });
}

/// Proves that a long value whose space was reserved before a flush, or the invalidation of its namespace,
/// does not take the place of a later value: a cache counted it among the flushed ones, and the key was
/// gone.
#[test]
fn a_long_value_that_a_flush_overtakes_removes_no_later_one() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        for flushes in [true, false] {
            let workers = 2;
            let setup = Setup { workers, semantics, value_bytes_max: 1600, ..Setup::default() };
            let cache = setup.cache();
            let mut client = Client::new(&cache, 0);
            let (key, value) = (b"space:key".as_slice(), [7; 1200]);
            let operation = Operation::Get { cas: false };
            let request = Request { hash: cache.hash(key), key, operation };
            let partition = cache.partition(request.hash);
            let request = hashed(partition, &request);
            // A thread has stopped between the two parts of a long store.
            let item = NewItem::of(key, &value, (0, Expiry::NEVER));
            let reserved = partition.writer(NOW_S).reserve(request.hash, &item, None).unwrap().for_later();
            reserved.write_item(partition, &item, None);
            if flushes {
                client.worker.flush_all(NOW_S, NOW_S);
            } else {
                client.worker.invalidate_namespace(b"space", NOW_S).unwrap();
            }
            assert_eq!(client.set(key, b"later"), Outcome::Stored);
            let writer = partition.writer(NOW_S);
            let published = publish_long(&writer, &request, Condition::Always, &reserved, Expiry::NEVER);
            drop(writer);
            let (outcome, left) = match semantics {
                Semantics::Cache => (None, b"later".as_slice()),
                Semantics::Store => (Some(Outcome::Stored), &value[..]),
            };
            assert_eq!(published, outcome, "{semantics:?}, {flushes}");
            assert_eq!(client.get(key).as_deref(), Some(left), "{semantics:?}, {flushes}");
        }
    }
}

/// Proves that a worker that ends answers pending requests first, and that it can own nothing
/// afterwards.
#[test]
fn a_worker_that_ends_answers_first_and_then_owns_nothing() {
    let erew = Route { access: Access::Erew, owner: 0 };
    within(60, move || {
        let setup = Setup { access: Access::Erew, ..crew() };
        let cache = setup.cache();
        let (owner, mut other) = (Client::new(&cache, 0), Client::new(&cache, 1));
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        cache.set_waker(move |_| {
            count.fetch_add(1, Ordering::AcqRel);
        });
        let mut owner = owner;
        assert!(owner.worker.fall_asleep());
        std::thread::scope(|scope| {
            let asked = &asked;
            scope.spawn(move || {
                while asked.load(Ordering::Acquire) == 0 {
                    std::thread::yield_now();
                }
                drop(owner);
            });
            assert_eq!(other.set(b"key", b"value"), Outcome::Stored);
        });
        let refused = cache.set_route(0, erew);
        assert_eq!(refused, Err(RouteError::WorkerEnded { worker: 0 }));
        assert_eq!(other.set(b"key", b"again"), Outcome::Stored);
        assert_eq!(asked.load(Ordering::Acquire), 1);
        let _owner = Client::new(&cache, 0);
        assert_eq!(cache.set_route(0, erew), Ok(()));
    });
}
