//! A bucket: its version (a sequence lock of one writer) and its entries.
//!
//! The writer makes the version odd before it changes the bucket or the items that it leads to, and
//! even again afterwards, in every access mode. A reader loads an even version, copies what it
//! needs, and uses it only if the version is unchanged.

use micanite_memory::sync::{AtomicU64, Ordering, fence};

use super::entry::{Entry, match_tags};
use crate::limits::{BUCKET_ENTRIES, BUCKET_WORDS};
use crate::region::{Region, Word};

/// The low half of the first word of a bucket holds the version. The high half holds the chain: the
/// number of the next spare bucket, plus one.
const VERSION_MASK: u64 = 0xffff_ffff;

/// The words of a bucket, the version first.
pub(crate) type BucketWords = [AtomicU64; BUCKET_WORDS];

/// A bucket of an index.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'a> {
    region: &'a Region,
    pub first_word: usize,
}

impl<'a> Bucket<'a> {
    #[inline]
    pub fn at(region: &'a Region, first_word: usize) -> Self {
        Self { region, first_word }
    }

    #[inline]
    pub fn prefetch(self) {
        self.region.prefetch(self.first_word);
    }

    /// Returns the words, the version first.
    #[inline(always)]
    pub fn words(self) -> &'a BucketWords {
        self.region.array(self.first_word)
    }

    /// Copies the entries, each word by itself.
    #[inline]
    pub fn entries(self) -> [u64; BUCKET_ENTRIES] {
        let words = self.words();
        std::array::from_fn(|slot| words[1 + slot].load(Ordering::Relaxed))
    }

    /// Returns the entries that carry `tag`: bit i for entry i.
    #[inline(always)]
    pub fn matches(self, tag: u64) -> u32 {
        let words = self.words();
        match_tags(|slot| words[1 + slot].load(Ordering::Relaxed), tag)
    }

    /// Returns the word of the region that holds an entry.
    #[inline]
    pub fn slot_word(self, slot: usize) -> usize {
        self.first_word + 1 + slot
    }

    /// Returns whether a word of the region is that of an entry of this bucket, without the chain.
    #[inline(always)]
    pub fn has_slot(self, word: usize) -> bool {
        word.wrapping_sub(self.first_word + 1) < BUCKET_ENTRIES
    }

    #[inline]
    pub fn entry(self, slot: usize) -> Entry {
        Entry(self.slot(slot).load(Ordering::Relaxed))
    }

    /// Returns the spare bucket chained behind this one.
    #[inline]
    pub fn next_spare(self) -> Option<u64> {
        (self.version().load(Ordering::Relaxed) >> 32).checked_sub(1)
    }

    /// Returns whether a writer is changing the bucket at this moment.
    #[inline]
    pub fn is_being_written(self) -> bool {
        self.version().load(Ordering::Relaxed) & 1 == 1
    }

    /// Chains a complete spare bucket, or none when the rest is empty. The version of a main bucket
    /// must be odd.
    #[inline]
    pub fn set_next_spare(self, spare: Option<u64>) {
        let version = self.version().load(Ordering::Relaxed) & VERSION_MASK;
        let chain = spare.map_or(0, |number| number + 1);
        self.version().store(version | chain << 32, Ordering::Release);
    }

    /// Returns the word of version and chain. It changes with every change of the chain.
    #[inline(always)]
    pub fn version_word(self) -> u64 {
        self.version().load(Ordering::Relaxed)
    }

    /// Returns the version, if no writer is changing the bucket.
    #[inline]
    pub fn version_stable(self) -> Option<u64> {
        let version = self.version().load(Ordering::Acquire);
        (version & 1 == 0).then_some(version)
    }

    /// Returns whether everything read since `version` was loaded belongs together.
    #[inline]
    pub fn version_is_still(self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version().load(Ordering::Relaxed) == version
    }

    /// Runs `change` with the version odd. Only the writer of the partition may call it.
    #[inline(always)]
    pub fn write<R>(self, change: impl FnOnce() -> R) -> R {
        self.begin();
        let result = change();
        // The chain may have changed meanwhile.
        self.end(self.version().load(Ordering::Relaxed));
        result
    }

    /// Makes the version odd, and returns it with the chain. Only the writer of the partition may call it.
    #[inline(always)]
    pub fn begin(self) -> u64 {
        let before = self.version().load(Ordering::Relaxed);
        debug_assert!(before & 1 == 0, "two writers in one bucket");
        let odd = next(before);
        self.version().store(odd, Ordering::Relaxed);
        fence(Ordering::Release);
        odd
    }

    /// Makes the version even again, after [`Self::begin`] or a change of the chain since.
    #[inline(always)]
    pub fn end(self, odd: u64) {
        self.version().store(next(odd), Ordering::Release);
    }

    /// Makes the version even if a writer was killed while it was odd.
    pub fn repair(self) {
        let version = self.version().load(Ordering::Relaxed);
        if version & 1 == 1 {
            self.version().store(next(version), Ordering::Relaxed);
        }
    }

    /// Empties a bucket that no reader can reach.
    pub fn clear(self) {
        for word in 0..=BUCKET_ENTRIES {
            self.region.word(self.first_word + word).store(0, Ordering::Relaxed);
        }
    }

    #[inline]
    fn version(self) -> Word<'a> {
        self.region.word(self.first_word)
    }

    #[inline]
    fn slot(self, slot: usize) -> Word<'a> {
        self.region.word(self.first_word + 1 + slot)
    }
}

/// Returns the version after `version`; the other half of the word stays.
#[inline]
const fn next(version: u64) -> u64 {
    version & !VERSION_MASK | (version + 1) & VERSION_MASK
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_version_wraps_within_its_half_of_the_word() {
        assert_eq!(next(0xffff_ffff), 0);
        assert_eq!(next(0xabcd_0000_ffff_ffff), 0xabcd_0000_0000_0000);
        assert_eq!(next(4), 5);
    }

    #[test]
    fn a_read_across_a_write_is_invalid() {
        let region = Region::private(8192).unwrap();
        let bucket = Bucket::at(&region, 8);
        let before = bucket.version_stable().unwrap();
        bucket.write(|| {
            assert!(bucket.version_stable().is_none());
            bucket.set_next_spare(Some(3));
        });
        assert!(!bucket.version_is_still(before));
        assert_eq!(bucket.version_stable(), Some((before + 2) | (4 << 32)));
        assert_eq!(bucket.next_spare(), Some(3));
    }
}
