//! Zipf's law as YCSB and MICA draw it: fast, and biased.

use crate::Random;

/// Up to this rank the sum of the weights is added up; beyond, the integral stands for it.
const SUMMED: u64 = 100_000;

/// Ranks `1..=n` by the approximation of Gray et al. ("Quickly generating billion-record synthetic
/// databases", 1994). With exponent 0.99 it draws ranks 3 to 8 some 5 to 19 % too often and the ten
/// hottest together 5 % too often, which flatters caches. It is here so that published figures can
/// be compared with; use [`crate::Zipf`] otherwise.
#[derive(Clone, Debug)]
pub struct ZipfGray {
    n: f64,
    total: f64,
    alpha: f64,
    eta: f64,
    /// Weights of the ranks 1 and 2, which are exact.
    first_two: f64,
}

impl ZipfGray {
    /// A law over `n` ranks, at least one, whose exponent is below 1.
    pub fn new(n: u64, exponent: f64) -> Self {
        let total = weights(n, exponent);
        let first_two = 1.0 + 0.5f64.powf(exponent);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - exponent)) / (1.0 - first_two / total);
        Self {
            n: n as f64,
            total,
            alpha: 1.0 / (1.0 - exponent),
            eta: if n > 2 { eta } else { 0.0 },
            first_two,
        }
    }

    /// Draws a rank; 1 is the most likely one.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let weight = unit * self.total;
        if weight < 1.0 || self.n < 2.0 {
            return 1;
        }
        if weight < self.first_two {
            return 2;
        }
        let rank = 1.0 + self.n * (self.eta * (unit - 1.0) + 1.0).powf(self.alpha);
        rank.floor().min(self.n) as u64
    }
}

/// The sum of `rank^-exponent` over `1..=n`; beyond [`SUMMED`] ranks by the formula of Euler and
/// Maclaurin, whose error is far below that of the sum.
fn weights(n: u64, exponent: f64) -> f64 {
    let summed = n.min(SUMMED);
    let sum: f64 = (1..=summed).map(|rank| (rank as f64).powf(-exponent)).sum();
    if n == summed {
        return sum;
    }
    let (from, to) = (summed as f64, n as f64);
    let integral = (to.powf(1.0 - exponent) - from.powf(1.0 - exponent)) / (1.0 - exponent);
    sum + integral + (to.powf(-exponent) - from.powf(-exponent)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::zipf::tests::{chi_square, mass};

    #[test]
    fn the_sum_of_weights() {
        for (n, exponent) in [(10, 0.99), (100_001, 0.99), (3_000_000, 0.5)] {
            let exact = mass(n, exponent, 1).recip();
            let relative = weights(n, exponent) / exact - 1.0;
            assert!(relative.abs() < 1e-9, "{n} {exponent}: {relative}");
        }
    }

    /// The approximation is biased by as much as is known of it.
    #[test]
    fn the_known_bias() {
        let (n, draws) = (1_000_000, 4_000_000u64);
        let law = ZipfGray::new(n, 0.99);
        let mut random = Random::new(3);
        let mut counts = [0u64; 12];
        for _ in 0..draws {
            let rank = law.rank(&mut random) as usize;
            if rank < counts.len() {
                counts[rank] += 1;
            }
        }
        let excess = |from: usize, to: usize| {
            let drawn: u64 = counts[from..=to].iter().sum();
            let exact = mass(n, 0.99, to as u64) - mass(n, 0.99, from as u64 - 1);
            drawn as f64 / draws as f64 / exact - 1.0
        };
        assert!(excess(1, 2).abs() < 0.01, "{}", excess(1, 2));
        for rank in 3..=8 {
            assert!((0.03..0.21).contains(&excess(rank, rank)), "{rank}: {}", excess(rank, rank));
        }
        assert!((0.03..0.07).contains(&excess(1, 10)), "{}", excess(1, 10));
        let per_degree = chi_square(n, 0.99, draws, || law.rank(&mut random));
        assert!(per_degree > 10.0, "{per_degree}");
    }

    #[test]
    fn few_ranks() {
        let mut random = Random::new(1);
        for n in 1..5 {
            let law = ZipfGray::new(n, 0.99);
            assert!((0..1000).all(|_| (1..=n).contains(&law.rank(&mut random))));
        }
    }
}
