//! Weighted counts of times, precise to one part in 128.

use std::collections::BTreeMap;

/// Bits of a float that are kept: sign, exponent and seven bits of the fraction.
const SHIFT: u32 = 52 - 7;

/// Times and their weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    weights: BTreeMap<u64, f64>,
    total: f64,
    sum: f64,
}

/// Percentiles in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Percentiles {
    /// Mean.
    pub mean_us: f64,
    /// Half of the requests take at most this.
    pub p50_us: f64,
    /// 95 % of them.
    pub p95_us: f64,
    /// 99 % of them.
    pub p99_us: f64,
    /// 99.9 % of them.
    pub p999_us: f64,
}

impl Histogram {
    /// Adds a time with a weight.
    pub fn add(&mut self, value: f64, weight: f64) {
        *self.weights.entry(value.max(0.0).to_bits() >> SHIFT).or_default() += weight;
        self.total += weight;
        self.sum += value * weight;
    }

    /// Adds another one, with all its weights multiplied.
    pub fn merge(&mut self, other: &Self, factor: f64) {
        for (bucket, weight) in &other.weights {
            *self.weights.entry(*bucket).or_default() += weight * factor;
        }
        self.total += other.total * factor;
        self.sum += other.sum * factor;
    }

    /// Returns the sum of the weights.
    pub const fn total(&self) -> f64 {
        self.total
    }

    /// Returns the mean.
    pub fn mean(&self) -> f64 {
        if self.total > 0.0 { self.sum / self.total } else { 0.0 }
    }

    /// Returns the time that a part of the weight does not exceed.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut left = self.total * part;
        for (bucket, weight) in &self.weights {
            left -= weight;
            if left <= self.total * 1e-12 {
                return middle(*bucket);
            }
        }
        self.weights.last_key_value().map_or(0.0, |(bucket, _)| middle(*bucket))
    }

    /// Returns the distribution of the sum with an independent time of equally likely values.
    #[must_use]
    pub fn plus(&self, values: &[f64]) -> Self {
        let mut sum = Self::default();
        for (bucket, weight) in &self.weights {
            for value in values {
                sum.add(middle(*bucket) + value, weight / values.len() as f64);
            }
        }
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Self { sum: self.sum + self.total * mean, ..sum }
    }

    /// Returns the percentiles of times in seconds.
    pub fn percentiles(&self) -> Percentiles {
        let us = |part| self.quantile(part) * 1e6;
        Percentiles {
            mean_us: self.mean() * 1e6,
            p50_us: us(0.5),
            p95_us: us(0.95),
            p99_us: us(0.99),
            p999_us: us(0.999),
        }
    }
}

/// Returns the middle of a bucket.
fn middle(bucket: u64) -> f64 {
    f64::from_bits((bucket << SHIFT) + if bucket == 0 { 0 } else { 1 << (SHIFT - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles are precise to one part in 128, and means are exact.
    #[test]
    fn quantiles_and_means() {
        let mut times = Histogram::default();
        (1..=1000).for_each(|time| times.add(f64::from(time), 2.0));
        assert!((times.quantile(0.5) / 500.0 - 1.0).abs() < 0.008);
        assert!((times.quantile(0.999) / 999.0 - 1.0).abs() < 0.008);
        assert!((times.mean() - 500.5).abs() < 1e-9 && times.total() == 2000.0);
        let mut merged = Histogram::default();
        merged.merge(&times, 0.5);
        assert_eq!(merged.quantile(0.5), times.quantile(0.5));
        assert!((times.plus(&[100.0, 300.0]).mean() - 700.5).abs() < 1e-9);
        assert_eq!(Histogram::default().quantile(0.5), 0.0);
    }
}
