//! Which item is asked for: uniform, or Zipf drawn exactly.

/// A small, fast generator (xorshift64*), good enough to draw items.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// `seed` must not be zero.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Zipf-distributed ranks `1..=n` with weight `rank^-exponent`, by rejection-inversion
/// (Hörmann and Derflinger 1996): exact, unlike the approximation that YCSB uses.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    n: f64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    shortcut: f64,
}

impl Zipf {
    pub fn new(n: u64, exponent: f64) -> Self {
        let mut zipf = Self {
            n: n as f64,
            exponent,
            integral_first: 0.0,
            integral_last: 0.0,
            shortcut: 0.0,
        };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(zipf.n + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

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
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x / 2.0
    }
}

fn log_one_plus_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x / 2.0
    }
}

/// Which items are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Popularity {
    Uniform,
    /// Exponent 0.99, ranks scattered over the items.
    Zipf,
}

impl Popularity {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf 0.99",
        }
    }

    /// `count` items out of `items` (a power of two), drawn beforehand.
    pub fn draw(self, items: u64, count: usize, seed: u64) -> Vec<u32> {
        assert!(items.is_power_of_two() && items <= 1 << 32);
        let mut random = Random::new(seed);
        match self {
            Self::Uniform => (0..count).map(|_| random.below(items) as u32).collect(),
            Self::Zipf => {
                let zipf = Zipf::new(items, 0.99);
                // An odd factor permutes a power of two of items: hot ones are not neighbours.
                let scatter = |rank: u64| (rank.wrapping_mul(0x9e37_79b1) & (items - 1)) as u32;
                (0..count)
                    .map(|_| scatter(zipf.rank(&mut random)))
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mass(n: u64, top: u64) -> f64 {
        let weight = |rank: u64| (rank as f64).powf(-0.99);
        (1..=top).map(weight).sum::<f64>() / (1..=n).map(weight).sum::<f64>()
    }

    #[test]
    fn exact_mass_of_the_hottest_of_a_million() {
        let table = [
            (1, 0.06497),
            (10, 0.19206),
            (100, 0.34399),
            (1_000, 0.50215),
            (10_000, 0.66427),
        ];
        for (top, expected) in table {
            assert!((mass(1_000_000, top) - expected).abs() < 1e-5, "{top}");
        }
    }

    /// Chi-square over the first ranks and the rest; about 1 per degree of freedom if exact.
    #[test]
    fn zipf_is_drawn_exactly() {
        let (n, draws, cells) = (1_000_000, 2_000_000, 200);
        let zipf = Zipf::new(n, 0.99);
        let mut random = Random::new(42);
        let mut counts = vec![0u64; cells + 1];
        for _ in 0..draws {
            let rank = zipf.rank(&mut random);
            assert!((1..=n).contains(&rank));
            counts[(rank as usize - 1).min(cells)] += 1;
        }
        let total = mass(n, 1).recip();
        let expected = |cell: usize| {
            if cell < cells {
                ((cell + 1) as f64).powf(-0.99) / total
            } else {
                1.0 - mass(n, cells as u64)
            }
        };
        let chi_square: f64 = (0..=cells)
            .map(|cell| {
                let expected = expected(cell) * draws as f64;
                (counts[cell] as f64 - expected).powi(2) / expected
            })
            .sum();
        let per_degree = chi_square / cells as f64;
        assert!((0.6..1.5).contains(&per_degree), "{per_degree}");
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
            let mass = mass(n, top);
            let deviation = (mass * (1.0 - mass) / draws as f64).sqrt();
            assert!((share - mass).abs() < 5.0 * deviation, "{top}: {share}");
        }
    }

    #[test]
    fn scattered_items_stay_in_range_and_differ() {
        let drawn = Popularity::Zipf.draw(1 << 16, 100_000, 1);
        assert!(drawn.iter().all(|item| *item < 1 << 16));
        let mut counts = vec![0; 1 << 16];
        drawn.iter().for_each(|item| counts[*item as usize] += 1);
        let hottest = (0..1 << 16).max_by_key(|item| counts[*item]).unwrap();
        assert_eq!(hottest, 0x9e37_79b1 & 0xffff, "rank 1");
    }
}
