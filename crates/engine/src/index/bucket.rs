//! A bucket: its version (a sequence lock of one writer), its entries.
//!
//! The writer makes the version odd before it changes anything that the bucket or the items it
//! points to say, and even again afterwards, in every access mode. A reader notes an even
//! version, copies what it wants, and believes it only if the version is still the same.

use micanite_memory::Region;
use micanite_memory::sync::{AtomicU64, Ordering, fence};

use super::entry::Entry;
use crate::limits::{BUCKET_ENTRIES, BUCKET_WORDS, IMAGE_HEADER_WORDS};

/// The version occupies the low half of the first word of a bucket.
const VERSION_MASK: u64 = 0xffff_ffff;

/// A bucket of an index region.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'a> {
    region: &'a Region,
    first_word: usize,
}

impl<'a> Bucket<'a> {
    #[inline]
    pub fn at(region: &'a Region, number: usize) -> Self {
        Self {
            region,
            first_word: IMAGE_HEADER_WORDS + number * BUCKET_WORDS,
        }
    }

    #[inline]
    pub fn prefetch(self) {
        self.region.prefetch(self.first_word);
    }

    /// A copy of the entries, each word by itself.
    #[inline]
    pub fn entries(self) -> [u64; BUCKET_ENTRIES] {
        std::array::from_fn(|slot| self.slot(slot).load(Ordering::Relaxed))
    }

    #[inline]
    pub fn set(self, slot: usize, entry: Entry) {
        self.slot(slot).store(entry.0, Ordering::Relaxed);
    }

    /// The version, if nobody is writing.
    #[inline]
    pub fn version_stable(self) -> Option<u64> {
        let version = self.version().load(Ordering::Acquire);
        (version & 1 == 0).then_some(version)
    }

    /// Whether everything read since `version` was noted belongs together.
    #[inline]
    pub fn version_is_still(self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version().load(Ordering::Relaxed) == version
    }

    /// Runs `change` with the version odd. Only the writer of the partition may call it.
    #[inline]
    pub fn write<R>(self, change: impl FnOnce() -> R) -> R {
        let before = self.version().load(Ordering::Relaxed);
        debug_assert!(before & 1 == 0, "two writers in one bucket");
        self.version().store(next(before), Ordering::Relaxed);
        fence(Ordering::Release);
        let result = change();
        self.version().store(next(next(before)), Ordering::Release);
        result
    }

    #[inline]
    fn version(self) -> &'a AtomicU64 {
        self.region.word(self.first_word)
    }

    #[inline]
    fn slot(self, slot: usize) -> &'a AtomicU64 {
        self.region.word(self.first_word + 1 + slot)
    }
}

/// The version after `version`; the other half of the word stays.
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
    fn a_read_across_a_write_is_not_believed() {
        let region = Region::private(8192).unwrap();
        let bucket = Bucket::at(&region, 1);
        let before = bucket.version_stable().unwrap();
        bucket.write(|| {
            assert!(bucket.version_stable().is_none());
            bucket.set(0, Entry::new(1, 2, u64::MAX >> 19));
        });
        assert!(!bucket.version_is_still(before));
        assert_eq!(bucket.version_stable(), Some(before + 2));
    }
}
