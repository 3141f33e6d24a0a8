//! Lengths of keys and values as quantile tables.

/// Shares are counted in these.
const UNITS: u64 = 100_000;
/// Steps of a table, at most.
const STEPS_MAX: usize = 12;

/// Lengths by their shares, shortest first. Within a step all lengths are alike often.
#[derive(Debug)]
pub(super) struct Lengths {
    /// The quantile (a fraction of 2^32) with which each step begins; the largest for those that
    /// are not there.
    starts: [u32; STEPS_MAX],
    shortest: [u32; STEPS_MAX],
    /// Growth of the length with the quantile, in fractions of 2^32.
    slopes: [u64; STEPS_MAX],
    longest: u32,
}

impl Lengths {
    /// A table of shares in 1/100,000, and the lengths `from..=to` that have them. The shares add
    /// up to the whole.
    pub const fn new(steps: &[(u32, u32, u32)]) -> Self {
        let mut table = Self {
            starts: [u32::MAX; STEPS_MAX],
            shortest: [0; STEPS_MAX],
            slopes: [0; STEPS_MAX],
            longest: 0,
        };
        let (mut at, mut before) = (0, 0);
        while at < steps.len() {
            let (share, from, to) = steps[at];
            let start = (before << 32) / UNITS;
            before += share as u64;
            let width = (before << 32) / UNITS - start;
            assert!(from <= to && from > table.longest && width > 0);
            table.starts[at] = start as u32;
            table.shortest[at] = from;
            table.slopes[at] = ((to - from + 1) as u64) << 32;
            table.slopes[at] /= width;
            table.longest = to;
            at += 1;
        }
        assert!(before == UNITS);
        table
    }

    /// The length at `quantile`, which is a fraction of 2^32.
    #[inline]
    pub fn at(&self, quantile: u32) -> usize {
        let quantile = quantile.min(u32::MAX - 1);
        // All of them are compared: a branch would be mispredicted half of the time.
        let begun = self.starts.iter().map(|start| usize::from(quantile >= *start));
        let step = (begun.sum::<usize>() - 1).min(STEPS_MAX - 1);
        let into = u64::from(quantile - self.starts[step]);
        // Within the step: below its number of lengths times 2^32.
        self.shortest[step] as usize + ((into * self.slopes[step]) >> 32) as usize
    }

    pub const fn longest(&self) -> usize {
        self.longest as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn keys_are_long_enough_to_tell_all_items_apart() {
        for pool in Pool::ALL {
            let parameters = pool.parameters();
            assert!(parameters.key_bytes.at(0) >= 10, "{pool}");
            assert!(parameters.key_bytes.longest() <= crate::KEY_BYTES_MAX);
        }
    }

    #[test]
    fn quantiles_reach_both_ends_of_every_step() {
        let table = Lengths::new(&[(25_000, 5, 5), (74_998, 6, 9), (2, 1000, 1_000_000)]);
        let at = |fraction: f64| table.at((fraction * 2f64.powi(32)) as u32);
        assert_eq!((at(0.0), at(0.2499)), (5, 5));
        assert_eq!((at(0.2501), at(0.99997)), (6, 9));
        assert!((1000..20_000).contains(&at(0.999_980_1)));
        assert!((999_900..=1_000_000).contains(&table.at(u32::MAX)));
        assert_eq!(table.longest(), 1_000_000);
    }
}
