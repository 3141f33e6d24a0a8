//! Counts requests by kind, as memcached does.

use micanite_engine::Outcome;

use crate::telemetry::table::{Counter, Counters};

/// Kinds of requests that the statistics tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    GetAndTouch,
    Store,
    Cas,
    Delete,
    Increment,
    Decrement,
    Touch,
}

/// Counts a request. gat counts as a get and as a touch; its hits are touches.
#[inline]
pub(crate) fn count(counters: &Counters, kind: Kind, outcome: Outcome) {
    let found = !matches!(outcome, Outcome::NotFound);
    let of = |hits: &Counter, misses: &Counter| if found { hits } else { misses }.add(1);
    match kind {
        Kind::Get => {
            counters.cmd_get.add(1);
            of(&counters.get_hits, &counters.get_misses);
        }
        Kind::GetAndTouch => {
            counters.cmd_get.add(1);
            counters.cmd_touch.add(1);
            of(&counters.touch_hits, &counters.touch_misses);
        }
        Kind::Touch => {
            counters.cmd_touch.add(1);
            of(&counters.touch_hits, &counters.touch_misses);
        }
        Kind::Store => count_store(counters, outcome),
        Kind::Cas => {
            count_store(counters, outcome);
            match outcome {
                Outcome::Stored => counters.cas_hits.add(1),
                Outcome::Exists => counters.cas_badval.add(1),
                Outcome::NotFound => counters.cas_misses.add(1),
                _ => {}
            }
        }
        Kind::Delete => of(&counters.delete_hits, &counters.delete_misses),
        // The item is no number: neither a hit nor a miss.
        Kind::Increment | Kind::Decrement if outcome == Outcome::NotANumber => {}
        Kind::Increment => of(&counters.incr_hits, &counters.incr_misses),
        Kind::Decrement => of(&counters.decr_hits, &counters.decr_misses),
    }
}

#[inline]
fn count_store(counters: &Counters, outcome: Outcome) {
    counters.cmd_set.add(1);
    match outcome {
        Outcome::TooLarge => counters.store_too_large.add(1),
        Outcome::OutOfMemory => counters.store_no_memory.add(1),
        _ => {}
    }
}
