//! An index entry, one word: tag, an unused bit, dirty, log, bits for splits, offset.

use crate::index::hash::{Buckets, IndexHash, TAG_BITS};
use crate::limits::{BUCKET_ENTRIES, OFFSET_BITS, SPLIT_BITS};

const TAG_SHIFT: u32 = 48;
const SPLIT_SHIFT: u32 = OFFSET_BITS;
const LOG_SHIFT: u32 = SPLIT_SHIFT + SPLIT_BITS;
const DIRTY_SHIFT: u32 = LOG_SHIFT + 1;
const DIRTY: u64 = 1 << DIRTY_SHIFT;

/// An index entry. Zero is empty; a tag is never zero, so no entry looks empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub u64);

impl Entry {
    /// Makes the entry of an item at `offset_units` of a log (a bit; 0 in a store). It keeps the
    /// low bits of the offset. Where these are all that there is room for, it has no bits for splits.
    #[inline]
    pub const fn new(hash: IndexHash, log: u64, offset_units: u64, offset_mask: u64) -> Self {
        let split = hash.split_bits() << SPLIT_SHIFT & !offset_mask;
        Self(hash.tag() << TAG_SHIFT | log << LOG_SHIFT | split | offset_units & offset_mask)
    }

    /// Returns whether the item belongs in the last of these buckets, if it belongs there or in the one that
    /// was split for it. `None` if the entry does not tell.
    #[inline]
    pub const fn is_split_off(self, grown: Buckets, offset_mask: u64) -> Option<bool> {
        if grown.level() >= SPLIT_BITS {
            return None;
        }
        let bit = 1 << (SPLIT_SHIFT + grown.level());
        if offset_mask & bit != 0 {
            return None;
        }
        Some(self.0 & bit != 0)
    }

    /// Returns the log's bit.
    #[inline]
    pub const fn log(self) -> u64 {
        self.0 >> LOG_SHIFT & 1
    }

    #[inline]
    pub const fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether a writer can have made this entry, which is not empty.
    #[inline]
    pub const fn is_well_formed(self) -> bool {
        self.tag() != 0 && self.0 >> (DIRTY_SHIFT + 1) << (DIRTY_SHIFT + 1) == self.tag() << TAG_SHIFT
    }

    /// Returns whether only a chunk of the cache area has the newest value of the item.
    #[inline]
    pub const fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    #[inline]
    pub const fn with_dirty(self, is_dirty: bool) -> Self {
        Self(self.0 & !DIRTY | if is_dirty { DIRTY } else { 0 })
    }

    #[inline]
    pub const fn has_tag(self, tag: u64) -> bool {
        self.tag() == tag
    }

    /// Returns the distance of the item behind `tail_units`, modulo the width of the offset.
    #[inline]
    pub const fn distance(self, tail_units: u64, offset_mask: u64) -> u64 {
        tail_units.wrapping_sub(self.0) & offset_mask
    }
}

const _: () = assert!(TAG_BITS + 2 + 1 + SPLIT_BITS + OFFSET_BITS == 64 && TAG_BITS + TAG_SHIFT == 64);

/// Returns the entries that carry `tag`: bit i for entry i. Zero entries never match, because a tag is
/// never zero. No branch, and no array that would have to be stored first: the compiler turns each entry
/// into a load, a comparison and an addition with carry.
#[inline(always)]
pub(crate) fn match_tags(entry: impl Fn(usize) -> u64, tag: u64) -> u32 {
    let wanted = tag << TAG_SHIFT;
    (0..BUCKET_ENTRIES).rev().fold(0, |matches: u32, slot| {
        let differs = entry(slot) ^ wanted;
        matches + matches + u32::from(differs < 1 << TAG_SHIFT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn match_tags_naive(entries: &[u64; 7], tag: u64) -> Vec<usize> {
        (0..7).filter(|slot| entries[*slot] != 0 && entries[*slot] >> 48 == tag).collect()
    }

    proptest! {
        #[test]
        fn tag_match_equals_its_naive_twin(
            entries in prop::array::uniform7(prop_oneof![
                Just(0),
                (1u64..4, any::<u64>()).prop_map(|(tag, offset)| tag << 48 | offset >> 19),
            ]),
            tag in 1u64..5,
        ) {
            let matches = match_tags(|slot| entries[slot], tag);
            let slots: Vec<_> = (0..7).filter(|slot| matches >> slot & 1 == 1).collect();
            prop_assert_eq!(slots, match_tags_naive(&entries, tag));
        }

        #[test]
        fn distance_survives_the_wrap_of_the_offset(
            hash in any::<u64>(), offset in any::<u64>(), ahead in any::<u64>(), bits in 10u32..=45,
        ) {
            let (hash, mask) = (IndexHash::of_word(hash), (1 << bits) - 1);
            let entry = Entry::new(hash, 1, offset, mask);
            prop_assert!(entry.has_tag(hash.tag()) && entry.log() == 1 && entry.is_well_formed());
            prop_assert_eq!(entry.distance(offset.wrapping_add(ahead), mask), ahead & mask);
        }

        #[test]
        fn an_entry_tells_the_half_of_a_split_as_its_hash_does(
            hash in any::<u64>(), first in 1u64..1000, level in 0u32..30, old in any::<bool>(),
        ) {
            let hash = IndexHash::of_word(hash);
            let mask = (1 << if old { OFFSET_BITS + SPLIT_BITS } else { OFFSET_BITS }) - 1;
            // As many buckets as there are when that of the hash is the next to be split.
            let doubled = first << level;
            let bucket = hash.bucket(Buckets::of(first, doubled)) as u64;
            let buckets = Buckets::of(first, doubled + bucket);
            prop_assert_eq!(hash.bucket(buckets) as u64, buckets.split_from());
            let grown = buckets.grown();
            let told = Entry::new(hash, 0, 77, mask).is_split_off(grown, mask);
            prop_assert_eq!(told.is_none(), old || level >= SPLIT_BITS);
            if let Some(told) = told {
                prop_assert_eq!(told, hash.bucket(grown) as u64 + 1 == grown.count());
            }
        }
    }
}
