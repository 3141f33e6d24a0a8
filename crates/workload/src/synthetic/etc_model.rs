//! The published model of the ETC pool: laws fitted to lengths and to the times between requests.
//!
//! Atikoglu et al., "Workload analysis of a large-scale key-value store" (SIGMETRICS 2012), with the
//! parameters that the load generator Mutilate uses. It is not [`crate::Pool::Etc`]: its values are
//! longer at the 99th percentile (1.9 KB, where the papers measure 512 B), none of them has a
//! megabyte, and its keys are a little shorter (76 bytes, 80).

use crate::{KEY_BYTES_MAX, Random};

/// Location, scale and shape of the generalised extreme value law of key lengths.
const KEY: [f64; 3] = [30.7984, 8.20449, 0.078688];
/// Probabilities of values of 0 to 14 bytes.
const SHORT_VALUES: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837,
    0.08989, 0.00092, 0.00326, 0.01980,
];
/// Scale and shape of the generalised Pareto law of the other values' lengths.
const VALUE: [f64; 2] = [214.476, 0.348238];
/// The same of the times between requests; the scale is 16.0292 us at the traced server's rate.
const GAP_SHAPE: f64 = 0.154971;
/// Length at which the characters of a key tell all items apart. The law has a shorter one once in 10^9.
const KEY_BYTES_MIN: f64 = 8.0;
/// The law has a longer one once in 10^8.
const VALUE_BYTES_MAX: usize = 1_000_000;

/// Steps between the quantiles of neighbouring items, as for the pools.
const STEPS: [u64; 2] = [0xc13f_a9a9_02a6_328f, 0x91e1_0da5_c79e_7b1d];

/// The model. Lengths follow from an item's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcModel;

impl EtcModel {
    /// The longest key.
    pub const KEY_BYTES_MAX: usize = KEY_BYTES_MAX;
    /// The longest value.
    pub const VALUE_BYTES_MAX: usize = VALUE_BYTES_MAX;

    /// Length of an item's key.
    #[inline]
    pub fn key_bytes(self, item: u64) -> usize {
        let [location, scale, shape] = KEY;
        let power = (-quantile(item, STEPS[0]).ln()).powf(-shape);
        let length = location + scale / shape * (power - 1.0);
        length.round().clamp(KEY_BYTES_MIN, KEY_BYTES_MAX as f64) as usize
    }

    /// Length of an item's value.
    #[inline]
    pub fn value_bytes(self, item: u64) -> usize {
        let mut left = quantile(item, STEPS[1]);
        for (bytes, probability) in SHORT_VALUES.iter().enumerate() {
            if left < *probability {
                return bytes;
            }
            left -= probability;
        }
        let shorter: f64 = SHORT_VALUES.iter().sum();
        let length = VALUE[0] * pareto(left / (1.0 - shorter), VALUE[1]);
        // The law begins at nothing, the table ends at 14.
        (length.ceil() as usize + SHORT_VALUES.len() - 1).min(VALUE_BYTES_MAX)
    }

    /// The time to the next request, where it is 1 on average.
    #[inline]
    pub fn gap(self, random: &mut Random) -> f64 {
        pareto(random.unit(), GAP_SHAPE) * (1.0 - GAP_SHAPE)
    }
}

/// Draws a number above 0 and below 1.
#[inline]
fn quantile(item: u64, step: u64) -> f64 {
    let word = item.wrapping_add(1).wrapping_mul(step) >> 12;
    (word as f64 + 0.5) / (1u64 << 52) as f64
}

/// The quantile of the generalised Pareto law of scale 1 that begins at 0.
#[inline]
fn pareto(quantile: f64, shape: f64) -> f64 {
    ((1.0 - quantile).powf(-shape) - 1.0) / shape
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(length: impl Fn(u64) -> usize) -> Vec<usize> {
        let mut lengths: Vec<_> = (0..1_000_000).map(length).collect();
        lengths.sort_unstable();
        lengths
    }

    /// Median and 99th percentile of the laws, from their closed forms.
    #[test]
    fn keys() {
        let lengths = sorted(|item| EtcModel.key_bytes(item));
        assert_eq!((lengths[500_000], lengths[990_000]), (34, 76));
        assert!(lengths[0] >= 8 && lengths[999_999] <= KEY_BYTES_MAX);
    }

    #[test]
    fn values() {
        let lengths = sorted(|item| EtcModel.value_bytes(item));
        let share = |bytes: usize| lengths.iter().filter(|length| **length == bytes).count() as f64;
        for (bytes, probability) in SHORT_VALUES.iter().enumerate() {
            let found = share(bytes) / 1e6;
            assert!((found - probability).abs() < 0.0002, "{bytes}: {found}");
        }
        // 36 % are 2, 3 or 11 bytes, and 1 % has more than 1.9 KB.
        let found = (share(2) + share(3) + share(11)) / 1e6;
        assert!((found - 0.3605).abs() < 0.001, "{found}");
        let p99 = lengths[990_000];
        assert!((1_850..2_000).contains(&p99), "{p99}");
        assert!(lengths[999_999] < 100_000, "{}", lengths[999_999]);
    }

    #[test]
    fn gaps() {
        let mut random = Random::new(3);
        let mut gaps: Vec<_> = (0..1_000_000).map(|_| EtcModel.gap(&mut random)).collect();
        let mean = gaps.iter().sum::<f64>() / 1e6;
        // The deviation of the mean is 0.0012.
        assert!((mean - 1.0).abs() < 0.006, "{mean}");
        gaps.sort_unstable_by(f64::total_cmp);
        // 11.72 us where the mean is 18.97 us.
        assert!((gaps[500_000] - 0.618).abs() < 0.005, "{}", gaps[500_000]);
    }
}
