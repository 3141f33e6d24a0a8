//! Zipf's law, drawn exactly.

use crate::Random;

/// Ranks `1..=n` with weight `rank^-exponent`, by rejection-inversion (Hörmann and Derflinger
/// 1996): exact, unlike [`crate::ZipfGray`].
#[derive(Clone, Debug)]
pub struct Zipf {
    n: f64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    shortcut: f64,
}

impl Zipf {
    /// A law over `n` ranks, at least one; the exponent is not negative.
    pub fn new(n: u64, exponent: f64) -> Self {
        let mut zipf = Self { n: n as f64, exponent, integral_first: 0.0, integral_last: 0.0, shortcut: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(zipf.n + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Draws a rank; 1 is the most likely one.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.integral_last + random.unit() * (self.integral_first - self.integral_last);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.shortcut || u >= self.integral(k + 0.5) - self.weight(k) {
                return k as u64;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the weight, and its inverse; written so that an exponent of 1 is no
    /// special case.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        exp_minus_one_over((1.0 - self.exponent) * log) * log
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        (log_one_plus_over(t) * y).exp()
    }
}

fn exp_minus_one_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

fn log_one_plus_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The share of the `top` hottest of `n`.
    pub(crate) fn mass(n: u64, exponent: f64, top: u64) -> f64 {
        let weight = |rank: u64| (rank as f64).powf(-exponent);
        (1..=top).map(weight).sum::<f64>() / (1..=n).map(weight).sum::<f64>()
    }

    #[test]
    fn exact_mass_of_the_hottest_of_a_million() {
        let table = [(1, 0.06497), (10, 0.19206), (100, 0.34399), (1_000, 0.50215), (10_000, 0.66427)];
        for (top, expected) in table {
            assert!((mass(1_000_000, 0.99, top) - expected).abs() < 1e-5, "{top}");
        }
    }

    /// Chi-square over the first ranks and the rest, per degree of freedom; about 1 if exact.
    pub(crate) fn chi_square(n: u64, exponent: f64, draws: u64, mut rank: impl FnMut() -> u64) -> f64 {
        let cells = 200.min(n as usize - 1);
        let mut counts = vec![0u64; cells + 1];
        for _ in 0..draws {
            let rank = rank();
            assert!((1..=n).contains(&rank));
            counts[(rank as usize - 1).min(cells)] += 1;
        }
        let total = mass(n, exponent, 1).recip();
        let expected = |cell: usize| {
            if cell < cells {
                ((cell + 1) as f64).powf(-exponent) / total
            } else {
                1.0 - mass(n, exponent, cells as u64)
            }
        };
        let chi_square: f64 = (0..=cells)
            .map(|cell| {
                let expected = expected(cell) * draws as f64;
                (counts[cell] as f64 - expected).powi(2) / expected
            })
            .sum();
        chi_square / cells as f64
    }

    #[test]
    fn ranks_are_drawn_exactly() {
        for (n, exponent) in [(1_000_000, 0.99), (1000, 0.5), (1000, 1.0), (100_000, 1.3)] {
            let zipf = Zipf::new(n, exponent);
            let mut random = Random::new(42);
            let per_degree = chi_square(n, exponent, 2_000_000, || zipf.rank(&mut random));
            assert!((0.6..1.5).contains(&per_degree), "{n} {exponent}: {per_degree}");
        }
    }

    /// The tail as well: the share of draws within the hottest, within five standard deviations.
    #[test]
    fn draws_have_the_exact_mass() {
        let (n, draws) = (1_000_000, 1_000_000);
        let zipf = Zipf::new(n, 0.99);
        let mut random = Random::new(7);
        let ranks: Vec<_> = (0..draws).map(|_| zipf.rank(&mut random)).collect();
        for top in [1, 10, 100, 1_000, 10_000, 100_000] {
            let share = ranks.iter().filter(|rank| **rank <= top).count() as f64 / draws as f64;
            let mass = mass(n, 0.99, top);
            let deviation = (mass * (1.0 - mass) / draws as f64).sqrt();
            assert!((share - mass).abs() < 5.0 * deviation, "{top}: {share}");
        }
    }

    #[test]
    fn a_single_rank() {
        let zipf = Zipf::new(1, 0.99);
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| zipf.rank(&mut random) == 1));
    }
}
