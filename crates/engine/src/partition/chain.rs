//! The chain of a bucket: the main bucket, and the spare buckets behind it (MICA 4.3.3, bulk
//! chaining). The version of the main bucket guards all of it.

use micanite_memory::sync::Ordering::{Relaxed, Release};
use micanite_memory::sync::fence;

use crate::index::bucket::Bucket;
use crate::limits::CHAIN_BUCKETS_MAX;
use crate::partition::Partition;
use crate::region::Field;

impl Partition {
    /// Returns the bucket behind `bucket` in its chain.
    #[inline]
    pub fn next_bucket(&self, bucket: Bucket<'_>) -> Option<Bucket<'_>> {
        bucket.next_spare().map(|spare| self.spare_bucket(spare))
    }

    /// Iterates over the buckets of a chain, `main` first: at most [`CHAIN_BUCKETS_MAX`]. Only for
    /// the writer: it trusts the links.
    #[inline]
    pub fn chain<'a>(&'a self, main: Bucket<'a>) -> impl Iterator<Item = Bucket<'a>> {
        let all = std::iter::successors(Some(main), |bucket| self.next_bucket(*bucket));
        all.take(CHAIN_BUCKETS_MAX)
    }

    /// Adds a spare bucket, which is in no chain, to the list of free ones. The word of its first
    /// entry links it to the previous one in the list.
    pub fn free_spare(&self, number: u64) {
        fence(Release);
        let spare = self.spare_bucket(number);
        spare.clear();
        let next = self.get(Field::SpareFree).checked_sub(1);
        spare.set_next_spare(next);
        self.set_before(Some(number), FIRST_FREE);
        self.set_before(next, number + AFTER);
        self.set(Field::SpareFree, number + 1);
    }

    fn set_before(&self, spare: Option<u64>, before: u64) {
        if let Some(number) = spare {
            let word = self.spare_bucket(number).slot_word(0);
            self.word(word).store(before, Relaxed);
        }
    }

    /// Removes a given spare bucket from the list of free ones. Returns false if it is not there.
    pub fn unlink_free_spare(&self, number: u64) -> bool {
        if !self.is_free_spare(number) {
            return false;
        }
        let spare = self.spare_bucket(number);
        let next = spare.next_spare();
        let before = spare.entry(0).0;
        if self.get(Field::SpareFree) == number + 1 {
            self.set(Field::SpareFree, next.map_or(0, |next| next + 1));
        } else {
            self.spare_bucket(before - AFTER).set_next_spare(next);
        }
        self.set_before(next, before);
        spare.clear();
        true
    }

    /// Returns whether a spare bucket is in the list of free ones: it is the first, or the one that
    /// its first word names links to it. (In a bucket that is in use that word is an entry,
    /// which has a tag, or zero.)
    pub fn is_free_spare(&self, number: u64) -> bool {
        let spares = self.layout.spares(self.buckets());
        let before = self.spare_bucket(number).entry(0).0;
        let before = before.checked_sub(AFTER).filter(|before| *before < spares);
        self.get(Field::SpareFree) == number + 1
            || before.is_some_and(|before| self.spare_bucket(before).next_spare() == Some(number))
    }

    pub fn allocate_spare(&self) -> Option<u64> {
        let number = self.get(Field::SpareFree).checked_sub(1)?;
        let spare = self.spare_bucket(number);
        let next = spare.next_spare();
        self.set(Field::SpareFree, next.map_or(0, |next| next + 1));
        self.set_before(next, FIRST_FREE);
        spare.clear();
        self.add(Field::SparesUsed, 1);
        Some(number)
    }
}

/// First entry of a free spare bucket: `FIRST_FREE` in the first of the list, else `AFTER` plus the number
/// of the previous one.
const FIRST_FREE: u64 = 1;
const AFTER: u64 = 2;
