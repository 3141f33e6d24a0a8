//! Load of the hottest partition, and of all: keys under Zipf's law, put on partitions by a hash.

use micanite_workload::Random;
use serde::Serialize;

use crate::law::Law;

/// Hashes that a distribution is over.
pub const HASHES: usize = 1000;
/// Keys that are put on partitions one by one; the others add their mean and a normal deviation.
const KEYS: u64 = 1 << 13;

/// The load of the hottest of several partitions, each figure over the mean load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hottest {
    /// Partitions.
    pub partitions: u64,
    /// Keys.
    pub items: u64,
    /// Exponent of Zipf's law.
    pub zipf: f64,
    /// Share of the requests that the hottest key gets.
    pub top_key_share: f64,
    /// Expected load of the partition of the hottest key: `P p1 + 1 - p1`.
    pub expected_over_mean: f64,
    /// The same, summed over the ranks: the hottest key, and of each other key the share of hashes
    /// that put it beside.
    pub sum_over_ranks: f64,
    /// Maximum over the partitions, for random hashes.
    pub maximum: Maximum,
}

/// Distribution of the maximum.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Maximum {
    /// Hashes that were drawn.
    pub hashes: usize,
    /// Mean.
    pub mean: f64,
    /// Least.
    pub least: f64,
    /// 5 % of the hashes are at most this.
    pub p5: f64,
    /// Half of the hashes.
    pub p50: f64,
    /// 95 % of the hashes.
    pub p95: f64,
    /// Greatest.
    pub greatest: f64,
}

/// Returns the load of the partition that has the hottest key over the mean load.
pub fn expected_over_mean(partitions: u64, top_key_share: f64) -> f64 {
    partitions as f64 * top_key_share + 1.0 - top_key_share
}

impl Hottest {
    /// Computes all figures; the maximum is drawn with a seed.
    pub fn new(partitions: u64, law: &Law, seed: u64) -> Self {
        let top = law.share(1);
        let beside = (law.top(law.items) - top) / partitions as f64;
        Self {
            partitions,
            items: law.items,
            zipf: law.exponent,
            top_key_share: top,
            expected_over_mean: expected_over_mean(partitions, top),
            sum_over_ranks: partitions as f64 * (top + beside),
            maximum: Maximum::of(maxima(partitions, law, seed)),
        }
    }
}

impl Maximum {
    fn of(mut maxima: Vec<f64>) -> Self {
        maxima.sort_by(f64::total_cmp);
        let at = |part: f64| maxima[((maxima.len() - 1) as f64 * part) as usize];
        Self {
            hashes: maxima.len(),
            mean: maxima.iter().sum::<f64>() / maxima.len() as f64,
            least: at(0.0),
            p5: at(0.05),
            p50: at(0.5),
            p95: at(0.95),
            greatest: at(1.0),
        }
    }
}

/// Returns the maximum over the partitions for each of [`HASHES`] hashes, over the mean.
pub fn maxima(partitions: u64, law: &Law, seed: u64) -> Vec<f64> {
    let one = |hash: usize| loads(partitions, law, seed, hash as u64).into_iter().fold(0.0, f64::max);
    (0..HASHES).map(one).collect()
}

/// Returns the load of each partition over the mean under one hash.
pub fn loads(partitions: u64, law: &Law, seed: u64, hash: u64) -> Vec<f64> {
    let mut random = Random::of_stream(seed, hash);
    let keys = KEYS.min(law.items);
    let mean = 1.0 / partitions as f64;
    let rest = (1.0 - law.top(keys)).max(0.0);
    let deviation = (law.squares_from(keys + 1) * mean * (1.0 - mean)).sqrt();
    let mut loads: Vec<f64> =
        (0..partitions).map(|_| (rest * mean + deviation * normal(&mut random)).max(0.0)).collect();
    for rank in 1..=keys {
        loads[random.below(partitions) as usize] += law.share(rank);
    }
    let sum: f64 = loads.iter().sum();
    loads.into_iter().map(|load| load / sum * partitions as f64).collect()
}

/// Returns the loads from the hottest partition to the coldest, each the mean over some hashes.
pub fn ordered_loads(partitions: u64, law: &Law, seed: u64, hashes: u64) -> Vec<f64> {
    let mut ordered = vec![0.0; partitions as usize];
    for hash in 0..hashes {
        let mut loads = loads(partitions, law, seed, hash);
        loads.sort_by(|one, other| other.total_cmp(one));
        ordered.iter_mut().zip(loads).for_each(|(sum, load)| *sum += load / hashes as f64);
    }
    ordered
}

fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * random.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper() -> Law {
        Law::new(192 << 20, 0.99)
    }

    /// E = P p1 + 1 - p1 at 192 Mi keys and Zipf 0.99, within 2 %.
    #[test]
    fn expected_loads_of_the_issue() {
        for (partitions, expected) in [(16, 1.69), (24, 2.06), (120, 6.5), (240, 12.0)] {
            let law = paper();
            let found = expected_over_mean(partitions, law.share(1));
            assert!((found / expected - 1.0).abs() < 0.02, "{partitions}: {found}");
            let by_ranks = partitions as f64 * (law.share(1) + (1.0 - law.share(1)) / partitions as f64);
            assert!((found / by_ranks - 1.0).abs() < 1e-9);
        }
    }

    /// Loads sum to one per partition, and a seed gives the same loads.
    #[test]
    fn loads_are_shares() {
        for exponent in [0.0, 0.99] {
            let law = Law::new(1 << 20, exponent);
            let drawn = loads(24, &law, 7, 3);
            assert!((drawn.iter().sum::<f64>() - 24.0).abs() < 1e-9);
            assert_eq!(drawn, loads(24, &law, 7, 3));
        }
        let uniform = ordered_loads(24, &Law::new(192 << 20, 0.0), 1, 4);
        assert!(uniform[0] < 1.01, "{uniform:?}");
    }

    /// The mean of the maximum is never below the expected load of the partition of the top key.
    #[test]
    fn the_maximum_is_at_least_the_partition_of_the_top_key() {
        let hottest = Hottest::new(24, &paper(), 1);
        assert!(hottest.maximum.mean > hottest.expected_over_mean * 0.99, "{hottest:?}");
        let Maximum { least, p5, p50, p95, greatest, .. } = hottest.maximum;
        assert!(least <= p5 && p5 <= p50 && p50 <= p95 && p95 <= greatest);
    }
}
