//! Threads that wait for another one leave the CPU to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::scope;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, gettid};

use crate::access::delegate::Mailboxes;
use crate::access::lock::{Lock, Queue};
use crate::access::{Epochs, RouteWord};
use crate::{Access, Route};

/// Waits until a thread of this process sleeps.
fn until_asleep(thread: Pid) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        let (_, fields) = text.rsplit_once(") ").unwrap();
        if fields.starts_with('S') {
            return;
        }
        assert!(Instant::now() < deadline, "the thread does not sleep: {text}");
    }
}

/// Proves that a worker sleeps until the owner has run its job, and executes the jobs of others meanwhile.
#[test]
fn a_worker_that_waits_for_an_owner_sleeps_and_serves_its_mailbox() {
    const OWNER: usize = 0;
    let mailboxes = Mailboxes::new(3);
    let (sender, threads) = channel();
    let is_answered = AtomicBool::new(false);
    scope(|scope| {
        scope.spawn(|| {
            sender.send(gettid()).unwrap();
            mailboxes.delegate((1, OWNER), || is_answered.store(true, Ordering::Release), || ());
        });
        let waiting = threads.recv().unwrap();
        until_asleep(waiting);
        let mut is_run = false;
        mailboxes.delegate((2, 1), || is_run = true, || unreachable!("it waits for no events"));
        assert!(is_run && !is_answered.load(Ordering::Acquire));
        until_asleep(waiting);
        mailboxes.serve(OWNER);
    });
    assert!(is_answered.load(Ordering::Acquire));
}

/// Runs a wait in a thread until it sleeps, then what ends it.
fn sleeps(wait: impl FnOnce() + Send, end: impl FnOnce()) {
    let (sender, threads): (Sender<Pid>, _) = channel();
    scope(|scope| {
        scope.spawn(move || {
            sender.send(gettid()).unwrap();
            wait();
        });
        until_asleep(threads.recv().unwrap());
        end();
    });
}

/// Proves it for the lock of a partition, the queue of changes, and a change that waits for a batch.
#[test]
fn threads_that_wait_for_a_lock_a_turn_or_a_batch_sleep() {
    let lock = Lock::new();
    lock.lock();
    sleeps(|| lock.lock(), || lock.unlock());

    let queue = Queue::new();
    let turn = queue.wait(|| {});
    sleeps(|| drop(queue.wait(|| {})), || drop(turn));

    let (epochs, route) = (Epochs::new(1), RouteWord::new(Route { access: Access::Erew, owner: 0 }));
    epochs.enter(0);
    let change = || route.change(Route { access: Access::Crew, owner: 0 }, &epochs, || {});
    sleeps(change, || epochs.leave(0));
}
