//! Starting positions of the items of a store: a bit for each word, so that they are in order
//! without being sorted. It takes a sixty-fourth of the partition, whatever the items are.

use crate::partition::Partition;
use crate::region::Field;

/// A bitmap of starting positions.
pub(super) struct Starts {
    first: usize,
    bits: Vec<u64>,
}

impl Starts {
    /// Makes an empty bitmap for the heap of a store.
    pub fn of(partition: &Partition) -> Self {
        let first = partition.layout.heap_first();
        Self::within(first, partition.get(Field::DataEnd) as usize)
    }

    fn within(first: usize, end: usize) -> Self {
        let words = end.saturating_sub(first);
        Self { first, bits: vec![0; words.div_ceil(64)] }
    }

    /// Adds a position within the heap. Returns false if it was there already.
    pub fn insert(&mut self, position: usize) -> bool {
        let at = position - self.first;
        let bits = &mut self.bits[at / 64];
        let bit = 1 << (at % 64);
        let is_new = *bits & bit == 0;
        *bits |= bit;
        is_new
    }

    /// Iterates over the positions, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.bits.iter().zip((self.first..).step_by(64));
        words.flat_map(|(bits, first)| {
            let rest = |bits: &u64| Some(bits & bits.wrapping_sub(1)).filter(|bits| *bits != 0);
            let set = Some(*bits).filter(|bits| *bits != 0);
            std::iter::successors(set, rest).map(move |bits| first + bits.trailing_zeros() as usize)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn start_positions_are_sorted_and_unique(positions in prop::collection::vec(7usize..700, 0..200)) {
            let (mut starts, mut twin) = (Starts::within(7, 700), BTreeSet::new());
            for position in positions {
                prop_assert_eq!(starts.insert(position), twin.insert(position));
            }
            prop_assert!(starts.iter().eq(twin));
        }
    }
}
