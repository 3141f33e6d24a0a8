//! Comparison and copy of short byte strings, as keys and values mostly are, without a call: calls cost more
//! than all else that such a request does. Two overlapping words, or pairs of words, are the whole string.

/// Returns whether two strings of one length are the same.
#[inline(always)]
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    debug_assert_eq!(one.len(), other.len());
    match one.len() {
        8..=16 => ends::<8>(one) == ends(other),
        17..=32 => ends::<16>(one) == ends(other),
        4..=7 => ends::<4>(one) == ends(other),
        _ => one == other,
    }
}

/// Copies a string into a place of its length.
#[inline(always)]
pub(crate) fn copy(from: &[u8], to: &mut [u8]) {
    debug_assert_eq!(from.len(), to.len());
    match from.len() {
        8..=16 => copy_ends::<8>(from, to),
        17..=32 => copy_ends::<16>(from, to),
        4..=7 => copy_ends::<4>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Returns the first and the last `N` bytes, which may overlap.
#[inline(always)]
fn ends<const N: usize>(of: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
    Some((of.first_chunk()?, of.last_chunk()?))
}

#[inline(always)]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    let Some((first, last)) = ends::<N>(from) else { return };
    // Both are loaded before either is stored: the compiler cannot know that the places do not overlap.
    let (first, last) = (*first, *last);
    if let Some(to) = to.first_chunk_mut() {
        *to = first;
    }
    if let Some(to) = to.last_chunk_mut() {
        *to = last;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn short_strings_compare_and_copy_like_any(
            from in prop::collection::vec(any::<u8>(), 0..70),
            changed in any::<prop::sample::Index>(),
        ) {
            let mut to = vec![0; from.len()];
            copy(&from, &mut to);
            prop_assert_eq!(&to, &from);
            prop_assert!(is_same(&to, &from));
            if !from.is_empty() {
                to[changed.index(from.len())] ^= 1;
                prop_assert!(!is_same(&to, &from));
            }
        }
    }
}
