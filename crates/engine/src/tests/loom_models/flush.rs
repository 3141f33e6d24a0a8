//! A flush is complete when it is acknowledged.

use super::*;

const NOW_S: u32 = 1000;

/// Each of two workers that flush at once returns when its flush is done. Covers that a flush at
/// once does not go through the shared word: with an exchange of it, one returns too early.
#[test]
fn loom_flush_all_is_acknowledged_when_it_is_done() {
    model(|| {
        let cache = tiny(16);
        let [mut first, mut second] = [0, 1].map(|worker| Client::new(&cache, worker));
        second.set(b"k", &OLD);
        let first = thread::spawn(move || {
            first.worker.flush_all(NOW_S, NOW_S);
            first
        });
        second.worker.flush_all(NOW_S, NOW_S);
        assert_eq!(read(&cache, b"k"), None, "acknowledged, and still served");
        drop(first.join().unwrap());
    });
}

/// A worker does a due flush before it executes anything. Covers that the due time stays until the
/// flush is done.
#[test]
fn loom_no_worker_sees_items_that_a_due_flush_has_not_reached() {
    model(|| {
        let cache = tiny(16);
        let [mut first, mut second] = [0, 1].map(|worker| Client::new(&cache, worker));
        second.set(b"k", &OLD);
        second.worker.flush_all(NOW_S + 1, NOW_S);
        let first = thread::spawn(move || {
            first.now_s = NOW_S + 1;
            let reply = first.ask(b"k", Operation::Get { cas: false });
            assert_eq!(reply.outcome, Some(Outcome::NotFound));
            first
        });
        second.now_s = NOW_S + 1;
        let reply = second.ask(b"k", Operation::Get { cas: false });
        assert_eq!(reply.outcome, Some(Outcome::NotFound));
        drop(first.join().unwrap());
    });
}
