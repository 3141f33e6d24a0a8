//! Random numbers, the same for the same seed.

/// A small, fast generator (xorshift64*), good enough to draw items.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Any seed will do.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A generator of its own for each thread, or for whatever else `stream` counts.
    pub fn of_stream(seed: u64, stream: u64) -> Self {
        let mut random = Self::new(mix(seed ^ mix(stream.wrapping_add(1))));
        // The first words of neighbouring seeds are alike.
        for _ in 0..8 {
            random.word();
        }
        random
    }

    /// The next 64 bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform in `0..n`.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// The time to the next of events that happen independently of each other, `mean` apart.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// Spreads the bits of a number (the finaliser of splitmix64).
pub(crate) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let first = |seed, stream| Random::of_stream(seed, stream).word();
        assert_eq!(first(1, 0), first(1, 0));
        let mut words: Vec<_> = (0..1000).map(|stream| first(1, stream)).collect();
        words.extend((0..1000).map(|stream| first(2, stream)));
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 2000);
    }

    #[test]
    fn exponential_times_have_their_mean() {
        let mut random = Random::new(5);
        let draws = 1_000_000;
        let sum: f64 = (0..draws).map(|_| random.exponential(3.0)).sum();
        let mean = sum / f64::from(draws);
        // The deviation of the mean is 0.003.
        assert!((mean - 3.0).abs() < 0.015, "{mean}");
    }
}
