//! Changes of routes, queues, mailboxes.

use super::*;

/// Permissions, and a cell that they guard: loom fails when two threads are in it at once.
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
    /// Returns a cell that the first of two workers owns.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            route: crate::access::RouteWord::new(Route { access: Access::Erew, owner: 0 }),
            epochs: crate::access::Epochs::new(2),
            cell: loom::cell::UnsafeCell::new(0),
        })
    }

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
        let guarded = Guarded::new();
        let workers = [0, 1].map(|worker| {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || guarded.write_if_permitted(worker))
        });
        guarded.route.change(Route { access: Access::Erew, owner: 1 }, &guarded.epochs, || {});
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(guarded.route.load().owner, 1);
    });
}

/// Covers the first wait of `RouteWord::exclude`, and the release at its end.
#[test]
fn loom_no_worker_is_in_an_excluded_partition() {
    model(|| {
        let guarded = Guarded::new();
        let worker = {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || guarded.write_if_permitted(0))
        };
        let run = || {
            guarded.cell.with_mut(|value| {
                #[expect(unsafe_code, reason = "the write of whoever keeps others out")]
                // SAFETY: what the model checks.
                unsafe {
                    *value += 1
                }
            });
        };
        guarded.route.exclude(&guarded.epochs, || {}, run);
        worker.join().unwrap();
    });
}

#[test]
fn loom_a_job_is_run_once_by_a_worker_that_may_be_asleep() {
    model(|| {
        let mailboxes = Arc::new(crate::access::delegate::Mailboxes::new(2));
        let woken = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let owner = {
            let (mailboxes, woken) = (Arc::clone(&mailboxes), Arc::clone(&woken));
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
        mailboxes.delegate((1, 0), || runs += 1, wake);
        assert_eq!(runs, 1);
        owner.join().unwrap();
    });
}

/// Covers the sleep of a worker that waits for an owner: the end of its job and a job for it end the sleep,
/// which one without the fence and one without the flag in the slot would miss.
#[test]
fn loom_two_workers_that_wait_for_each_other_both_continue() {
    model(|| {
        let mailboxes = Arc::new(crate::access::delegate::Mailboxes::new(2));
        let ended = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
        let work = |worker: usize| {
            let (mailboxes, ended) = (Arc::clone(&mailboxes), Arc::clone(&ended));
            move || {
                let mut runs = 0;
                mailboxes.delegate(
                    (worker, 1 - worker),
                    || runs += 1,
                    || unreachable!("nobody waits for events"),
                );
                assert_eq!(runs, 1);
                ended.fetch_add(1, loom::sync::atomic::Ordering::AcqRel);
                while ended.load(loom::sync::atomic::Ordering::Acquire) < 2 {
                    mailboxes.serve(worker);
                    thread::yield_now();
                }
            }
        };
        let other = thread::spawn(work(1));
        work(0)();
        other.join().unwrap();
    });
}

/// A cell that the holder of a queue's turn writes.
struct Queued {
    queue: crate::access::lock::Queue,
    cell: loom::cell::UnsafeCell<u64>,
}

// Shared by the threads of a model, which checks how the cell is used.
#[expect(unsafe_code, reason = "loom checks the accesses to the cell")]
// SAFETY: the model is about who accesses the cell; loom fails where two do.
unsafe impl Sync for Queued {}

impl Queued {
    fn add(&self) {
        let _turn = self.queue.wait(|| {});
        self.cell.with_mut(|value| {
            #[expect(unsafe_code, reason = "the write of whoever has the turn")]
            // SAFETY: what the model checks.
            unsafe {
                *value += 1
            }
        });
    }
}

/// Covers the release and the acquire of `Queue`.
#[test]
fn loom_a_queue_gives_one_turn_at_a_time() {
    model(|| {
        let queued = Arc::new(Queued {
            queue: crate::access::lock::Queue::new(),
            cell: loom::cell::UnsafeCell::new(0),
        });
        let other = Arc::clone(&queued);
        let other = thread::spawn(move || other.add());
        queued.add();
        other.join().unwrap();
    });
}
