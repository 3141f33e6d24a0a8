//! The search for a tag among the entries of a bucket, by the instructions that the processor has. All ways
//! have the same result.

use micanite_memory::sync::Ordering::Relaxed;

use crate::index::bucket::BucketWords;
use crate::index::entry::match_tags;

/// A way of searching.
pub(crate) trait Tags {
    /// Returns the entries of a bucket that carry `tag`, 0 for those that are empty: bit i for entry i.
    /// Others may write the bucket meanwhile.
    fn matches(bucket: &BucketWords, tag: u64) -> u32;
}

/// Entry by entry.
pub(crate) enum Scalar {}

impl Tags for Scalar {
    #[inline(always)]
    fn matches(bucket: &BucketWords, tag: u64) -> u32 {
        match_tags(|slot| bucket[1 + slot].load(Relaxed), tag)
    }
}

/// Instructions that the processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// AVX-512F, and those of `Avx2`.
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    Avx512,
    /// AVX2, BMI1, BMI2 and LZCNT.
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    Avx2,
    /// Those of any processor of this architecture.
    Any,
}

impl Level {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    pub fn of_this_processor() -> Self {
        let has_avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt");
        match has_avx2 {
            true if is_x86_feature_detected!("avx512f") => Self::Avx512,
            true => Self::Avx2,
            false => Self::Any,
        }
    }

    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
    pub fn of_this_processor() -> Self {
        Self::Any
    }
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
pub(crate) use avx512::Avx512;

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[expect(unsafe_code, reason = "instructions that not every processor has")]
mod avx512 {
    use std::arch::asm;
    use std::arch::x86_64::{__m512i, _mm512_cmpeq_epi64_mask, _mm512_set1_epi64, _mm512_srli_epi64};

    use super::Tags;
    use crate::index::bucket::BucketWords;

    /// All entries at once, for processors with AVX-512F alone.
    pub(crate) enum Avx512 {}

    impl Tags for Avx512 {
        #[inline(always)]
        fn matches(bucket: &BucketWords, tag: u64) -> u32 {
            // SAFETY: the caller runs on a processor with AVX-512F (see `Level`).
            unsafe { matches(bucket, tag) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn matches(bucket: &BucketWords, tag: u64) -> u32 {
        let words: __m512i;
        // SAFETY: the instruction reads the words of the bucket, which are as long as the register, and
        // nothing else. Others may write them: unlike a load of the language, it may race.
        unsafe {
            asm!(
                "vmovdqu64 {words}, [{bucket}]",
                words = out(zmm_reg) words,
                bucket = in(reg) bucket.as_ptr(),
                options(nostack, readonly, preserves_flags),
            );
        }
        let tags = _mm512_srli_epi64::<48>(words);
        let same = _mm512_cmpeq_epi64_mask(tags, _mm512_set1_epi64(tag as i64));
        // The first word is the version.
        u32::from(same) >> 1
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use micanite_memory::sync::Ordering::Relaxed;
    use proptest::prelude::*;

    use super::*;
    use crate::region::Region;

    proptest! {
        #[test]
        fn all_ways_find_the_same_tags(
            words in prop::array::uniform8(prop_oneof![
                Just(0),
                (0u64..4, any::<u64>()).prop_map(|(tag, offset)| tag << 48 | offset >> 19),
            ]),
            tag in 0u64..5,
        ) {
            let region = Region::private(4096).unwrap();
            words.iter().enumerate().for_each(|(at, word)| region.word(8 + at).store(*word, Relaxed));
            let bucket = region.array(8);
            let carries = |slot: &usize| words[slot + 1] >> 48 == tag;
            let naive = (0..7).filter(carries).fold(0, |all, slot| all | 1 << slot);
            prop_assert_eq!(Scalar::matches(bucket, tag), naive);
            #[cfg(target_arch = "x86_64")]
            if Level::of_this_processor() == Level::Avx512 {
                prop_assert_eq!(Avx512::matches(bucket, tag), naive);
            }
        }
    }
}
