//! Lengths, and how often each occurred.

use std::collections::BTreeMap;

/// Lengths up to this are counted exactly; longer ones to one part in 64.
const EXACT_MAX: u32 = 4096;

/// Counts of each length.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    counts: BTreeMap<u32, u64>,
    count: u64,
    bytes: u128,
}

/// A part of the lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct UpTo {
    pub bytes: u32,
    /// Share of the occurrences up to this length.
    pub count_share: f64,
    /// Share of all bytes in lengths up to this one.
    pub bytes_share: f64,
}

impl Sizes {
    pub fn add(&mut self, bytes: u32) {
        let kept = if bytes <= EXACT_MAX {
            bytes
        } else {
            let step = 1 << (25 - bytes.leading_zeros());
            bytes / step * step
        };
        *self.counts.entry(kept).or_default() += 1;
        self.count += 1;
        self.bytes += u128::from(bytes);
    }

    pub const fn count(&self) -> u64 {
        self.count
    }

    pub fn mean(&self) -> f64 {
        self.bytes as f64 / self.count.max(1) as f64
    }

    /// Each length that occurred.
    pub fn cumulative(&self) -> Vec<UpTo> {
        let all: f64 = self.counts.iter().map(|(bytes, count)| f64::from(*bytes) * *count as f64).sum();
        let (mut counted, mut weighed) = (0u64, 0.0);
        self.counts
            .iter()
            .map(|(bytes, count)| {
                counted += count;
                weighed += f64::from(*bytes) * *count as f64;
                UpTo {
                    bytes: *bytes,
                    count_share: counted as f64 / self.count as f64,
                    bytes_share: if all > 0.0 { weighed / all } else { 1.0 },
                }
            })
            .collect()
    }

    /// The length that a part of the occurrences (or of the bytes) does not exceed.
    pub fn quantile(&self, part: f64, by_bytes: bool) -> u32 {
        let share = |up_to: &UpTo| {
            if by_bytes { up_to.bytes_share } else { up_to.count_share }
        };
        let cumulative = self.cumulative();
        let found = cumulative.iter().find(|up_to| share(up_to) >= part - 1e-12);
        found.or(cumulative.last()).map_or(0, |up_to| up_to.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_by_count_and_by_bytes() {
        let mut sizes = Sizes::default();
        for _ in 0..99 {
            sizes.add(10);
        }
        sizes.add(2010);
        assert_eq!((sizes.count(), sizes.quantile(0.5, false), sizes.quantile(0.99, false)), (100, 10, 10));
        assert_eq!((sizes.quantile(0.3, true), sizes.quantile(0.5, true)), (10, 2010));
        assert!((sizes.mean() - 30.0).abs() < 1e-9);
        assert_eq!(Sizes::default().quantile(0.5, false), 0);
    }

    #[test]
    fn long_ones_are_counted_about() {
        let mut sizes = Sizes::default();
        for bytes in (0..10_000_000).step_by(977).chain([u32::MAX]) {
            sizes.add(bytes);
            let kept = *sizes.counts.range(..=bytes).next_back().unwrap().0;
            assert!(u64::from(bytes - kept) * 64 <= u64::from(bytes), "{bytes}: {kept}");
        }
        assert!(sizes.counts.len() < 6000);
    }
}
