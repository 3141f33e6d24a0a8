//! Shares of keys under Zipf's law, computed for any number of keys.

/// Ranks whose weights are summed one by one; the Euler-Maclaurin formula sums the rest.
const SUMMED: u64 = 1 << 12;

/// Zipf's law over a number of keys; with exponent 0 all keys are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// Keys.
    pub items: u64,
    /// Exponent.
    pub exponent: f64,
    total: f64,
}

impl Law {
    /// A law over so many keys, at least one; the exponent is not negative.
    pub fn new(items: u64, exponent: f64) -> Self {
        Self { items, exponent, total: sum(items, exponent) }
    }

    /// Returns the share of the requests that the key of a rank gets; 1 is the hottest.
    pub fn share(&self, rank: u64) -> f64 {
        (rank as f64).powf(-self.exponent) / self.total
    }

    /// Returns the share of the requests that the hottest keys get together.
    pub fn top(&self, keys: u64) -> f64 {
        sum(keys.min(self.items), self.exponent) / self.total
    }

    /// Returns the sum of the squared shares of all keys from a rank on.
    pub fn squares_from(&self, rank: u64) -> f64 {
        let squared = 2.0 * self.exponent;
        let rest = sum(self.items, squared) - sum((rank - 1).min(self.items), squared);
        rest.max(0.0) / (self.total * self.total)
    }
}

/// Returns the sum of `rank^-exponent` over the ranks from 1 to `n`.
pub fn sum(n: u64, exponent: f64) -> f64 {
    let weight = |x: f64| x.powf(-exponent);
    let head: f64 = (1..=n.min(SUMMED)).map(|rank| weight(rank as f64)).sum();
    if n <= SUMMED {
        return head;
    }
    let (from, to) = (SUMMED as f64, n as f64);
    let log = (to / from).ln();
    let x = (1.0 - exponent) * log;
    // The integral of the weight, written so that an exponent of 1 is no special case.
    let integral = weight(from) * from * log * if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 };
    let slope = |x: f64| -exponent * weight(x) / x;
    head + integral + (weight(to) - weight(from)) / 2.0 + (slope(to) - slope(from)) / 12.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum by the formula equals the sum over every rank.
    #[test]
    fn the_formula_sums_every_rank() {
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.3, 1.98] {
            for n in [1u64, 4096, 4097, 1_000_000] {
                let exact: f64 = (1..=n).map(|rank| (rank as f64).powf(-exponent)).sum();
                let error = (sum(n, exponent) / exact - 1.0).abs();
                assert!(error < 1e-10, "{exponent} {n}: {error}");
            }
        }
    }

    /// The paper's top key of 192 Mi is 9.3 million times hotter than the mean (section 6.2).
    #[test]
    fn the_top_key_of_the_paper() {
        let law = Law::new(192 << 20, 0.99);
        let over_mean = law.share(1) * law.items as f64;
        assert!((over_mean / 9.3e6 - 1.0).abs() < 0.02, "{over_mean}");
        assert!((law.top(law.items) - 1.0).abs() < 1e-12);
    }
}
