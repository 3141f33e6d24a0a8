//! Walks over all items, a bucket at a time, while requests run: from any thread.
//!
//! A walk reads a bucket optimistically, like any other reader, and keeps the items only if the
//! version is unchanged. After [`VISIT_ATTEMPTS_MAX`] attempts it shares the partition for a
//! moment, whoever owns it, and visits the bucket under the lock. A walk visits an item at least
//! once that stays from its beginning to its end: it visits buckets in the order of their numbers,
//! and growth moves items to a later bucket, so that it may visit a moved item again. While a walk
//! is in a partition, the index of that partition does not shrink.

use std::ops::ControlFlow;

use micanite_memory::sync::Ordering::{Acquire, Relaxed};
use micanite_memory::sync::{fence, spin_loop};

use crate::cache::Cache;
use crate::index::walkers::Walking;
use crate::limits::{KEY_BYTES_MAX, VISIT_ATTEMPTS_MAX};
use crate::partition::Partition;
use crate::partition::item::ItemInfo;

/// Items of a bucket that a visitor must have room for at first. The walk visits the items of a
/// bucket together, so that they are of one moment, unless the visitor has no room for more than
/// these.
pub const PART_ITEMS_MIN: usize = 32;

/// Position of a walk. Until it is dropped, or has reached its end, the index of the partition that
/// it is in does not shrink.
#[derive(Debug, Default)]
pub struct Walk {
    partition: usize,
    bucket: u64,
    /// Items of the bucket that the visitor has kept.
    items_done: usize,
    /// Registration in the partition, if the walk has begun with it.
    walking: Option<Walking>,
}

/// Answer of a visitor to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Continue.
    Next,
    /// There is no room for the item, which comes first when the walk continues.
    Full,
}

/// Result of a step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// The requested number of buckets has been visited.
    Buckets,
    /// The visitor had no room.
    Full,
    /// There is nothing left.
    End,
}

/// Takes the items of a walk.
pub trait Visitor {
    /// Takes an item. [`Visitor::take_back`] may revoke it.
    fn item(&mut self, item: &ItemInfo<'_>) -> Visit;
    /// Revokes the items since the last call of [`Visitor::keep`]: they were torn.
    fn take_back(&mut self);
    /// Confirms the items until now.
    fn keep(&mut self);
}

/// Result of the visit of one bucket.
enum Read {
    /// The words of the bucket do not belong together.
    Torn,
    Done,
    /// The visitor had no room, after this many items.
    Full(usize),
}

impl Cache {
    /// Continues a walk through all items, for at most this many buckets. For any thread that is
    /// not a worker: workers call [`crate::Worker::walk`].
    pub fn walk(
        &self,
        walk: &mut Walk,
        buckets_max: usize,
        now_s: u32,
        visitor: &mut impl Visitor,
    ) -> Walked {
        self.walk_idly(walk, buckets_max, now_s, visitor, || {})
    }

    /// Walks, and calls `idle` while it waits.
    pub(crate) fn walk_idly(
        &self,
        walk: &mut Walk,
        buckets_max: usize,
        now_s: u32,
        visitor: &mut impl Visitor,
        idle: impl Fn(),
    ) -> Walked {
        let mut left = buckets_max;
        while let Some(partition) = self.partitions.get(walk.partition) {
            walk.walking.get_or_insert_with(|| partition.walkers.enter());
            if walk.bucket >= partition.buckets() {
                *walk = Walk { partition: walk.partition + 1, ..Walk::default() };
                continue;
            }
            if left == 0 {
                return Walked::Buckets;
            }
            left -= 1;
            let pin = partition.pages.pin();
            let beside = partition.visit(walk, now_s, visitor);
            drop(pin);
            let visited = beside.unwrap_or_else(|| {
                self.with_writer(walk.partition, now_s, &idle, |writer| {
                    let read = writer.partition.visit_chain(walk, now_s, visitor);
                    keep_or_take_back(read, walk, visitor)
                })
            });
            match visited {
                None => {
                    walk.bucket += 1;
                    walk.items_done = 0;
                }
                Some(items_done) => {
                    walk.items_done = items_done;
                    return Walked::Full;
                }
            }
        }
        Walked::End
    }
}

/// Keeps the items of a bucket, or revokes them if the visitor has no room and has had too few.
/// Returns how many items are done, if not all of them.
fn keep_or_take_back(read: Read, walk: &Walk, visitor: &mut impl Visitor) -> Option<usize> {
    match read {
        Read::Full(items) if items < walk.items_done + PART_ITEMS_MIN => {
            visitor.take_back();
            Some(walk.items_done)
        }
        Read::Full(items) => {
            visitor.keep();
            Some(items)
        }
        Read::Done | Read::Torn => {
            visitor.keep();
            None
        }
    }
}

impl Partition {
    /// Visits a bucket concurrently with its writer. Returns how many of its items are done, if not
    /// all; `None` if the writer interfered too often.
    pub(crate) fn visit(&self, walk: &Walk, now_s: u32, visitor: &mut impl Visitor) -> Option<Option<usize>> {
        let bucket = self.main_bucket(walk.bucket);
        for attempt in 0..VISIT_ATTEMPTS_MAX {
            if attempt > 0 {
                self.read_retries.fetch_add(1, Relaxed);
                spin_loop();
            }
            let Some(version) = bucket.version_stable() else {
                continue;
            };
            let read = self.visit_chain(walk, now_s, visitor);
            let still = bucket.version_is_still(version);
            if !matches!(read, Read::Torn) && still {
                return Some(keep_or_take_back(read, walk, visitor));
            }
            visitor.take_back();
        }
        None
    }

    fn visit_chain(&self, walk: &Walk, now_s: u32, visitor: &mut impl Visitor) -> Read {
        let mut items = 0;
        let mut key = [0; KEY_BYTES_MAX];
        let visited = self.visit_places(self.main_bucket(walk.bucket), |place| {
            let Some(item) = self.item_at(&place, &mut key) else {
                return ControlFlow::Continue(());
            };
            let gone = item.expiry.has_passed(now_s)
                || self.is_invalid(item.key, &place, self.header(place.position));
            fence(Acquire);
            if gone || !self.is_live(&place) {
                return ControlFlow::Continue(());
            }
            if items >= walk.items_done && visitor.item(&item) == Visit::Full {
                return ControlFlow::Break(Read::Full(items));
            }
            items += 1;
            ControlFlow::Continue(())
        });
        match visited {
            ControlFlow::Break(full) => full,
            ControlFlow::Continue(true) => Read::Done,
            ControlFlow::Continue(false) => Read::Torn,
        }
    }
}
