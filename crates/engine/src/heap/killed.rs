//! Tests that kill the writer at each of its stores in turn.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use super::Heap;
use super::fragmentation::Random;
use super::tests::{CALLERS, Space, Twin, compare};

thread_local! {
    static STORES_LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Kills after this many stores of this thread, from now on; never, if `None`.
fn after(stores: Option<usize>) {
    STORES_LEFT.set(stores);
}

/// Ends the writer at a store, so that later stores do not happen.
pub(super) fn at_a_store() {
    if let Some(left) = STORES_LEFT.get() {
        let Some(left) = left.checked_sub(1) else {
            std::panic::resume_unwind(Box::new("killed"));
        };
        STORES_LEFT.set(Some(left));
    }
}

/// Operations of the writer.
fn script(heap: &Heap<'_>, live: &mut BTreeMap<usize, usize>) {
    let mut random = Random(7);
    for round in 0..120 {
        if round % 3 < 2 {
            let Some(block) = heap.allocate(random.below(14)) else {
                continue;
            };
            // The item is written and then named by the index.
            let units = heap.load(block) as usize;
            for word in block + 1..block + units {
                heap.store(word, u64::MAX - block as u64);
            }
            heap.store(block, heap.load(block) | CALLERS);
            live.insert(block, units);
        } else if let Some(&block) = live.keys().nth(random.below(live.len().max(1))) {
            live.remove(&block);
            heap.free(block);
        }
        if round % 10 == 9 {
            heap.lower_end(heap.end() - 8);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of runs")]
fn a_heap_killed_at_any_store_is_rebuilt_from_its_items() {
    for stores in 0.. {
        let space = Space::new(300, 16);
        let heap = space.heap();
        let mut live = BTreeMap::new();
        after(Some(stores));
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| script(&heap, &mut live)));
        after(None);
        let twin = Twin { allocated: live, first: space.first, end: heap.end() };
        let items = twin.allocated.iter().map(|(&b, &u)| (b, u));
        // A walk is possible even now.
        heap.walk(|_, _, _| {});
        assert!(heap.rebuild(twin.first, twin.end, items));
        compare(&heap, &twin);
        if ended.is_ok() {
            return;
        }
    }
}
