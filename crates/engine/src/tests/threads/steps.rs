//! Operations of several steps: no other worker's write comes between the steps.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{scope, yield_now};

use crate::tests::support::*;
use crate::*;

/// Rounds in which a set meets a get-and-touch.
const ROUNDS: u64 = 20_000;
const OLD: [u8; 16] = [1; 16];
const NEW: [u8; 16] = [2; 16];

fn wait_for(counter: &AtomicU64, round: u64) {
    for spins in 0.. {
        if counter.load(Ordering::Acquire) >= round {
            return;
        }
        if spins < 10_000 { spin_loop() } else { yield_now() }
    }
}

/// Proves that a get-and-touch returns the value whose expiry it has changed.
#[test]
fn a_get_and_touch_returns_the_value_that_it_touched() {
    let cache = Setup { workers: 2, ..Setup::default() }.cache();
    let [mut first, mut second] = [0, 1].map(|worker| Client::new(&cache, worker));
    let (begun, stored) = (AtomicU64::new(0), AtomicU64::new(0));
    scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                wait_for(&begun, round);
                second.outcome(b"k", store(Condition::Always, &NEW, 0, 7000));
                stored.store(round, Ordering::Release);
            }
        });
        let mut found_new = 0;
        for round in 1..=ROUNDS {
            first.outcome(b"k", store(Condition::Always, &OLD, 0, 5000));
            begun.store(round, Ordering::Release);
            // The other thread needs a while to see it, and not always the same.
            (0..round % 256).for_each(|_| spin_loop());
            let reply = first.ask(b"k", Operation::GetAndTouch { expiry: Expiry(9000), cas: false });
            wait_for(&stored, round);
            let left = first.ask(b"k", Operation::MetaGet(MetaGet::default())).item.expiry;
            let expected = if reply.value == NEW { 9000 } else { 7000 };
            assert_eq!(left, Expiry(expected), "round {round}");
            found_new += u64::from(reply.value == NEW);
        }
        println!("the set came first in {found_new} of {ROUNDS} rounds");
    });
}
