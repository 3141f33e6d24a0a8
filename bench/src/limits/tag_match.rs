//! Ways to find the entry with a tag among the words of a bucket that has been loaded.

use std::sync::atomic::Ordering::Relaxed;

use micanite_memory::Region;

/// An entry: 16 bits of tag above 48 bits of offset. Zero is empty, for no tag is zero.
pub(super) const OFFSET_BITS: u32 = 48;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

/// Finds an entry with `tag` in the `ENTRIES` words from `first` on: its offset, or zero.
pub(super) trait TagMatch {
    fn find<const ENTRIES: usize>(index: &Region, first: usize, tag: u64) -> u64;
}

/// One entry after the other, until one fits: a branch that is hard to predict.
pub(super) struct EarlyExit;

impl TagMatch for EarlyExit {
    #[inline]
    fn find<const ENTRIES: usize>(index: &Region, first: usize, tag: u64) -> u64 {
        for at in 0..ENTRIES {
            let entry = index.word(first + at).load(Relaxed);
            if entry >> OFFSET_BITS == tag {
                return entry & OFFSET_MASK;
            }
        }
        0
    }
}

/// A bit for every entry that fits, then the first of them is read again.
pub(super) struct BitMask;

impl TagMatch for BitMask {
    #[inline]
    fn find<const ENTRIES: usize>(index: &Region, first: usize, tag: u64) -> u64 {
        let mut mask = 0u32;
        for at in 0..ENTRIES {
            let entry = index.word(first + at).load(Relaxed);
            mask |= u32::from(entry >> OFFSET_BITS == tag) << at;
        }
        if mask == 0 {
            return 0;
        }
        let at = mask.trailing_zeros() as usize;
        index.word(first + at).load(Relaxed) & OFFSET_MASK
    }
}

/// The least of all entries after the tag was taken out of each by exclusive or: an entry that
/// fits is left with its offset alone, and every other is greater than any offset.
pub(super) struct Minimum;

impl TagMatch for Minimum {
    #[inline]
    fn find<const ENTRIES: usize>(index: &Region, first: usize, tag: u64) -> u64 {
        let pattern = tag << OFFSET_BITS;
        let mut least = u64::MAX;
        for at in 0..ENTRIES {
            least = least.min(index.word(first + at).load(Relaxed) ^ pattern);
        }
        if least <= OFFSET_MASK { least } else { 0 }
    }
}

/// Works as [`Minimum`], but loads all words into an array first, which the compiler may then work on with
/// vector instructions (words that others may write cannot be loaded as vectors).
pub(super) struct ArrayMinimum;

impl TagMatch for ArrayMinimum {
    #[inline]
    fn find<const ENTRIES: usize>(index: &Region, first: usize, tag: u64) -> u64 {
        let pattern = tag << OFFSET_BITS;
        let entries: [u64; ENTRIES] = std::array::from_fn(|at| index.word(first + at).load(Relaxed));
        let least = entries.iter().fold(u64::MAX, |least, entry| least.min(entry ^ pattern));
        if least <= OFFSET_MASK { least } else { 0 }
    }
}

/// Tags of four entries gathered in one word and compared at once (SIMD within a register).
pub(super) struct Gathered;

impl TagMatch for Gathered {
    #[inline]
    fn find<const ENTRIES: usize>(index: &Region, first: usize, tag: u64) -> u64 {
        const LOW: u64 = 0x0001_0001_0001_0001;
        let pattern = tag.wrapping_mul(LOW);
        for four in (0..ENTRIES).step_by(4) {
            let mut tags = 0;
            for lane in 0..4.min(ENTRIES - four) {
                let entry = index.word(first + four + lane).load(Relaxed);
                tags |= entry >> OFFSET_BITS << (16 * lane);
            }
            let difference = tags ^ pattern;
            // The lowest lane that is zero is exact; above it there may be false ones.
            let zero = difference.wrapping_sub(LOW) & !difference & (LOW << 15);
            if zero != 0 {
                let at = four + zero.trailing_zeros() as usize / 16;
                return index.word(first + at).load(Relaxed) & OFFSET_MASK;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::popularity::Random;

    fn check<M: TagMatch>() {
        let index = Region::private(4096).unwrap();
        let mut random = Random::new(9);
        for _ in 0..20_000 {
            let mut offsets = Vec::new();
            let tag = 1 + random.below(9);
            for at in 0..15 {
                let (other, offset) = (random.below(10), 1 + random.below(1 << 40));
                let entry = if other == 0 { 0 } else { other << OFFSET_BITS | offset };
                index.word(8 + at).store(entry, Relaxed);
                if other == tag {
                    offsets.push((at, offset));
                }
            }
            let seven = M::find::<7>(&index, 8, tag);
            let fifteen = M::find::<15>(&index, 8, tag);
            let any = |found, entries| {
                let mut fits = offsets.iter().filter(|(at, _)| *at < entries).peekable();
                (fits.peek().is_none() && found == 0) || fits.any(|(_, offset)| *offset == found)
            };
            assert!(any(seven, 7) && any(fifteen, 15));
        }
    }

    #[test]
    fn every_match_finds_one_that_fits_and_no_other() {
        check::<EarlyExit>();
        check::<BitMask>();
        check::<Minimum>();
        check::<ArrayMinimum>();
        check::<Gathered>();
    }
}
