//! UPDATEs that wait for a GET.
//!
//! A pool's clients store what a GET has missed, and know that only when it is answered. With
//! several requests in flight such an UPDATE could overtake its GET, on its way or in a server of
//! several threads, and the GET would find what it was to miss.

use std::collections::HashMap;

use micanite_workload::Pool;

/// GETs of items that may be missing, as long as they are in flight, and what waits for them.
#[derive(Debug, Default)]
pub(crate) struct HeldUpdates {
    /// The items, and whether an UPDATE waits.
    reads: HashMap<u64, bool>,
    /// Items of UPDATEs that need not wait any more.
    due: Vec<u64>,
}

impl HeldUpdates {
    /// A GET of these items is about to be sent.
    #[inline]
    pub fn read_sent(&mut self, items: &[u64]) {
        for item in items {
            if !Pool::is_resident(*item) {
                self.reads.entry(*item).or_insert(false);
            }
        }
    }

    /// A GET of these items has been answered, or has been given up.
    #[inline]
    pub fn read_ended(&mut self, items: &[u64]) {
        if self.reads.is_empty() {
            return;
        }
        for item in items {
            if !Pool::is_resident(*item) && self.reads.remove(item) == Some(true) {
                self.due.push(*item);
            }
        }
    }

    /// Returns whether an UPDATE of this item has to wait. If so it comes back from [`Self::take_due`].
    #[inline]
    pub fn hold(&mut self, item: u64) -> bool {
        if Pool::is_resident(item) {
            return false;
        }
        let Some(waits) = self.reads.get_mut(&item) else {
            return false;
        };
        *waits = true;
        true
    }

    /// The item of an UPDATE that has waited.
    #[inline]
    pub fn take_due(&mut self) -> Option<u64> {
        self.due.pop()
    }
}
