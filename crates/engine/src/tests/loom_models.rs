//! Models of what races, run on the engine's own code: `scripts/test-loom`.
//!
//! loom explores the interleavings, and the values that relaxed loads may return, up to a bound
//! of preemptions. It is blind to: mapped memory (regions are on the heap here, the mirror is a
//! wrap of the index), compiler reordering of plain accesses (there are none), more than one
//! reader and one writer at a time. It knows the last access to each place only: a thread that looks at
//! a place before it writes there hides what another had read there, so which thread goes first matters.

use std::sync::atomic::{AtomicUsize, Ordering};

use loom::thread;

use super::support::*;
use crate::*;

fn model(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 100_000;
    let runs = std::sync::Arc::new(AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&runs);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        test();
    });
    let runs = runs.load(Ordering::Relaxed);
    assert!(runs > 1, "one order of events alone was explored");
}

/// Two buckets, one log of `data_units`.
fn tiny(data_units: u64) -> std::sync::Arc<Cache> {
    let geometry = Setup {
        buckets: 2,
        data_units,
        value_bytes_max: 16,
        eviction: Eviction::Fifo,
        workers: 2,
        ..Setup::default()
    };
    geometry.cache()
}

/// Reads without the fall-back to the lock, which would hide what the optimistic read does.
fn read(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    let hash = cache.hash(key);
    let request = Request {
        hash,
        key,
        operation: Operation::Get { cas: false },
    };
    let mut replies = Replies::default();
    let look = crate::reader::Plain;
    let partition = cache.partition(hash);
    partition.read((0, &partition.asked(&request)), &look, 0, &mut replies);
    let reply = replies.0.pop()?;
    (reply.outcome == Some(Outcome::Hit)).then_some(reply.value)
}

const OLD: [u8; 16] = [1; 16];
const NEW: [u8; 16] = [2; 16];

#[test]
fn loom_a_read_beside_an_overwrite_in_place_sees_the_old_or_the_new_value() {
    model(|| {
        let cache = tiny(64);
        let mut writer = Client::new(&cache, 0);
        writer.set(b"k", &OLD);
        let reader = {
            let cache = std::sync::Arc::clone(&cache);
            thread::spawn(move || {
                if let Some(value) = read(&cache, b"k") {
                    assert!(value == OLD || value == NEW, "torn: {value:?}");
                }
            })
        };
        writer.set(b"k", &NEW);
        reader.join().unwrap();
        assert_eq!(read(&cache, b"k").as_deref(), Some(NEW.as_slice()));
    });
}

#[test]
fn loom_a_read_beside_the_eviction_of_its_item_sees_the_item_or_nothing() {
    model(|| {
        // Two items fill the log: the third one overwrites the first.
        let cache = tiny(8);
        let mut writer = Client::new(&cache, 0);
        writer.set(b"a", &OLD);
        writer.set(b"b", &OLD);
        let reader = {
            let cache = std::sync::Arc::clone(&cache);
            thread::spawn(move || {
                if let Some(value) = read(&cache, b"a") {
                    assert!(value == OLD, "torn or foreign: {value:?}");
                }
            })
        };
        writer.set(b"c", &NEW);
        reader.join().unwrap();
        assert_eq!(read(&cache, b"a"), None);
        assert_eq!(read(&cache, b"c").as_deref(), Some(NEW.as_slice()));
    });
}

#[test]
fn loom_what_was_acknowledged_before_a_read_began_is_seen_by_it() {
    model(|| {
        let cache = tiny(64);
        let mut writer = Client::new(&cache, 0);
        let stored = std::sync::Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let reader = {
            let (cache, stored) = (
                std::sync::Arc::clone(&cache),
                std::sync::Arc::clone(&stored),
            );
            thread::spawn(move || {
                if stored.load(loom::sync::atomic::Ordering::Acquire) {
                    assert_eq!(read(&cache, b"k").as_deref(), Some(NEW.as_slice()));
                }
            })
        };
        writer.set(b"k", &NEW);
        stored.store(true, loom::sync::atomic::Ordering::Release);
        reader.join().unwrap();
    });
}

/// With `try_writer`, for loom cannot tell a spin lock that waits from one that hangs.
#[test]
fn loom_two_writers_take_turns() {
    model(|| {
        let cache = tiny(64);
        Client::new(&cache, 0).set(b"n", b"0");
        let threads = [0, 1].map(|_| {
            let cache = std::sync::Arc::clone(&cache);
            thread::spawn(move || {
                let (key, hash) = (b"n".as_slice(), cache.hash(b"n"));
                let request = Request {
                    hash,
                    key,
                    operation: Operation::Delete,
                };
                let partition = cache.partition(hash);
                let writer = partition.try_writer(0);
                u64::from(writer.is_some_and(|writer| {
                    let asked = partition.asked(&request);
                    let outcome = writer.arithmetic(&asked, |number| number + 1);
                    matches!(outcome, Outcome::Number(_))
                }))
            })
        });
        let sum: u64 = threads
            .map(|thread| thread.join().unwrap())
            .into_iter()
            .sum();
        assert!(sum > 0);
        assert_eq!(read(&cache, b"n").unwrap(), sum.to_string().into_bytes());
    });
}

/// Permissions, and what they guard: the cell makes loom fail when two threads are in it at once.
struct Guarded {
    route: crate::access::RouteWord,
    epochs: crate::access::Epochs,
    cell: loom::cell::UnsafeCell<u64>,
}

// Shared by the threads of a model, which checks how the cell is used.
#[expect(unsafe_code, reason = "loom checks the accesses to the cell")]
// SAFETY: the model is about who accesses the cell; loom fails where two do.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn write_if_permitted(&self, worker: usize) {
        self.epochs.enter(worker);
        if self.route.permission(worker) == crate::access::Permission::Own {
            self.cell.with_mut(|value| {
                #[expect(unsafe_code, reason = "the owner's write")]
                // SAFETY: what the model checks.
                unsafe {
                    *value += 1
                }
            });
        }
        self.epochs.leave(worker);
    }
}

#[test]
fn loom_a_partition_that_moves_has_one_writer_at_every_moment() {
    model(|| {
        let (access, owner) = (Access::Erew, 0);
        let guarded = std::sync::Arc::new(Guarded {
            route: crate::access::RouteWord::new(Route { access, owner }),
            epochs: crate::access::Epochs::new(2),
            cell: loom::cell::UnsafeCell::new(0),
        });
        let workers = [0, 1].map(|worker| {
            let guarded = std::sync::Arc::clone(&guarded);
            thread::spawn(move || guarded.write_if_permitted(worker))
        });
        let owner = 1;
        guarded
            .route
            .change(Route { access, owner }, &guarded.epochs, || {});
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(guarded.route.load().owner, 1);
    });
}

#[test]
fn loom_a_job_is_run_once_by_a_worker_that_may_be_asleep() {
    model(|| {
        let mailboxes = std::sync::Arc::new(crate::delegate::Mailboxes::new(2));
        let woken = std::sync::Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let owner = {
            let (mailboxes, woken) = (
                std::sync::Arc::clone(&mailboxes),
                std::sync::Arc::clone(&woken),
            );
            thread::spawn(move || {
                if mailboxes.fall_asleep(0) {
                    while !woken.load(loom::sync::atomic::Ordering::Acquire) {
                        thread::yield_now();
                    }
                }
                mailboxes.wake_up(0);
                mailboxes.serve(0);
            })
        };
        let mut runs = 0;
        let wake = || woken.store(true, loom::sync::atomic::Ordering::Release);
        mailboxes.ask((1, 0), || runs += 1, wake);
        assert_eq!(runs, 1);
        owner.join().unwrap();
    });
}
