//! Choice of the item of a request.

use std::fmt;
use std::str::FromStr;

use crate::{Random, Zipf, ZipfGray};

/// The most items that a law may choose among.
pub const ITEMS_MAX: u64 = 1 << 32;

/// The exponent of `latest`, as in YCSB.
const LATEST_EXPONENT: f64 = 0.99;
/// The items that YCSB's scrambled law draws among, whatever there are.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// A law by name; `FromStr` and `Display` are each other's inverse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// `uniform`: every item as often as every other.
    Uniform,
    /// `zipf:EXPONENT`: Zipf's law, exactly.
    Zipf(f64),
    /// `zipf-gray:EXPONENT`: the biased approximation that YCSB and MICA use.
    ZipfGray(f64),
    /// `scrambled`: YCSB's scrambled Zipfian law: ranks of 10^10 items by the approximation, with
    /// exponent 0.99, each put on one of the items by a hash. However many they are, the hottest gets
    /// 3.78 % of the requests; by [`Self::Zipf`] it gets 6.5 % where there are 10^6.
    Scrambled,
    /// `latest`: Zipf 0.99 over the age of the items; every write makes a new item.
    Latest,
    /// `hot:KEYS/REQUESTS`: this fraction of the items gets this fraction of the requests.
    Hot {
        /// Fraction of the items that are hot.
        items: f64,
        /// Fraction of the requests that go to them.
        requests: f64,
    },
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |word: &str| {
            word.parse::<f64>()
                .ok()
                .filter(|number| number.is_finite() && *number >= 0.0)
                .ok_or_else(|| format!("'{word}' in '{text}' is no number"))
        };
        let fraction = |word: &str| {
            number(word).and_then(|number| {
                (number <= 1.0)
                    .then_some(number)
                    .ok_or_else(|| format!("'{word}' in '{text}' is more than 1"))
            })
        };
        match text.split_once(':') {
            None if text == "uniform" => Ok(Self::Uniform),
            None if text == "scrambled" => Ok(Self::Scrambled),
            None if text == "latest" => Ok(Self::Latest),
            None if text == "zipf" => Ok(Self::Zipf(0.99)),
            Some(("zipf", exponent)) => number(exponent).map(Self::Zipf),
            Some(("zipf-gray", exponent)) => match number(exponent)? {
                exponent if exponent < 1.0 => Ok(Self::ZipfGray(exponent)),
                _ => Err(format!("the exponent of '{text}' must be below 1 (zipf: takes any)")),
            },
            Some(("hot", fractions)) => {
                let (items, requests) = fractions
                    .split_once('/')
                    .ok_or_else(|| format!("'{text}' should be hot:KEYS/REQUESTS, say hot:0.1/0.9"))?;
                Ok(Self::Hot { items: fraction(items)?, requests: fraction(requests)? })
            }
            _ => Err(format!(
                "'{text}' is no popularity: uniform, zipf:0.99, zipf-gray:0.99, scrambled, latest or \
                 hot:0.1/0.9"
            )),
        }
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Self::ZipfGray(exponent) => write!(f, "zipf-gray:{exponent}"),
            Self::Scrambled => f.write_str("scrambled"),
            Self::Latest => f.write_str("latest"),
            Self::Hot { items, requests } => write!(f, "hot:{items}/{requests}"),
        }
    }
}

/// A law over a number of items, ready to be drawn from.
#[derive(Clone, Debug)]
pub struct Sampler {
    law: Law,
    scatter: Scatter,
}

#[derive(Clone, Debug)]
enum Law {
    Uniform,
    Zipf(Zipf),
    ZipfGray(ZipfGray),
    Scrambled(ZipfGray),
    Hot { hot: u64, requests: f64 },
}

impl Sampler {
    /// A law over the items `0..items`.
    ///
    /// # Panics
    /// When there are no items, or more than [`ITEMS_MAX`].
    pub fn new(popularity: Popularity, items: u64) -> Self {
        assert!((1..=ITEMS_MAX).contains(&items), "{items} items");
        let law = match popularity {
            Popularity::Uniform => Law::Uniform,
            Popularity::Zipf(exponent) => Law::Zipf(Zipf::new(items, exponent)),
            Popularity::ZipfGray(exponent) => Law::ZipfGray(ZipfGray::new(items, exponent)),
            Popularity::Scrambled => Law::Scrambled(ZipfGray::new(SCRAMBLED_ITEMS, LATEST_EXPONENT)),
            Popularity::Latest => Law::Zipf(Zipf::new(items, LATEST_EXPONENT)),
            Popularity::Hot { items: share, requests } => {
                Law::Hot { hot: ((items as f64 * share).round() as u64).clamp(1, items), requests }
            }
        };
        let scatter = match popularity {
            // By age: the rank is the place.
            Popularity::Latest => Scatter::none(items),
            _ => Scatter::new(items),
        };
        Self { law, scatter }
    }

    /// Draws a place in the order of popularity: 0 is the most popular one. The scrambled law has no
    /// such order: its places are the items.
    #[inline]
    pub fn place(&self, random: &mut Random) -> u64 {
        match &self.law {
            Law::Uniform => random.below(self.scatter.items),
            Law::Zipf(zipf) => zipf.rank(random) - 1,
            Law::ZipfGray(zipf) => zipf.rank(random) - 1,
            Law::Scrambled(zipf) => fnv(zipf.rank(random) - 1) % self.scatter.items,
            Law::Hot { hot, requests } => {
                let cold = self.scatter.items - hot;
                if cold == 0 || random.chance(*requests) {
                    random.below(*hot)
                } else {
                    hot + random.below(cold)
                }
            }
        }
    }

    #[inline]
    pub fn item(&self, random: &mut Random) -> u64 {
        let place = self.place(random);
        match self.law {
            Law::Uniform | Law::Scrambled(_) => place,
            _ => self.scatter.item(place),
        }
    }

    /// The item at a place in the order of popularity.
    #[inline]
    pub fn item_at(&self, place: u64) -> u64 {
        self.scatter.item(place)
    }
}

/// FNV-1a of the eight bytes of a number, least first, as YCSB has it.
fn fnv(number: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(start, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211));
    hash.cast_signed().unsigned_abs()
}

/// Spreads places over the items, so that popular ones are not neighbours: a permutation.
#[derive(Clone, Debug)]
struct Scatter {
    items: u64,
    /// Shares no factor with `items`.
    factor: u64,
}

impl Scatter {
    const fn none(items: u64) -> Self {
        Self { items, factor: 1 }
    }

    fn new(items: u64) -> Self {
        // The golden section puts any few consecutive places about equally far apart.
        let start = (items as f64 * 0.618_033_988_749_895) as u64;
        let factor = (start.max(1)..).find(|factor| common_divisor(*factor, items) == 1).unwrap_or(1);
        Self { items, factor }
    }

    #[inline]
    fn item(&self, place: u64) -> u64 {
        // Both are at most 2^32.
        place * self.factor % self.items
    }
}

const fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_laws_are_inverse() {
        for text in
            ["uniform", "zipf:0.99", "zipf:1.2", "zipf-gray:0.99", "scrambled", "latest", "hot:0.1/0.9"]
        {
            assert_eq!(text.parse::<Popularity>().unwrap().to_string(), text);
        }
        assert_eq!("zipf".parse(), Ok(Popularity::Zipf(0.99)));
        for text in [
            "",
            "zipf:",
            "zipf:x",
            "zipf:-1",
            "zipf:nan",
            "zipf-gray:1",
            "hot:0.1",
            "hot:2/0.5",
            "hot:0.5/x",
            "uniform:1",
            "Zipf:1",
        ] {
            assert!(text.parse::<Popularity>().is_err(), "{text}");
        }
    }

    #[test]
    fn scattering_is_a_permutation() {
        for items in [1, 2, 3, 10, 64, 1000, 1 << 16, 99_991] {
            let scatter = Scatter::new(items);
            let mut seen = vec![false; items as usize];
            for place in 0..items {
                let item = scatter.item(place) as usize;
                assert!(!std::mem::replace(&mut seen[item], true), "{items}: {place}");
            }
        }
        let largest = Scatter::new(ITEMS_MAX);
        assert!(largest.item(ITEMS_MAX - 1) < ITEMS_MAX);
    }

    #[test]
    fn popular_items_are_no_neighbours() {
        let scatter = Scatter::new(1_000_000);
        let mut hottest: Vec<_> = (0..100).map(|place| scatter.item(place)).collect();
        hottest.sort_unstable();
        let nearest = hottest.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert!(nearest > Some(1000), "{nearest:?}");
    }

    fn shares(popularity: Popularity, items: u64, draws: u64) -> Vec<f64> {
        let sampler = Sampler::new(popularity, items);
        let mut random = Random::new(9);
        let mut counts = vec![0u64; items as usize];
        for _ in 0..draws {
            counts[sampler.item(&mut random) as usize] += 1;
        }
        counts.iter().map(|count| *count as f64 / draws as f64).collect()
    }

    /// Chi-square per degree of freedom of equal shares.
    fn of_equal(shares: &[f64], draws: f64) -> f64 {
        let expected = shares.iter().sum::<f64>() / shares.len() as f64;
        let sum: f64 = shares.iter().map(|share| (share - expected).powi(2) * draws / expected).sum();
        sum / (shares.len() - 1) as f64
    }

    #[test]
    fn uniform_is_uniform() {
        let per_degree = of_equal(&shares(Popularity::Uniform, 1000, 1_000_000), 1e6);
        assert!((0.8..1.2).contains(&per_degree), "{per_degree}");
    }

    #[test]
    fn a_zipf_law_keeps_its_hottest_item_when_scattered() {
        let shares = shares(Popularity::Zipf(0.99), 1000, 1_000_000);
        let sampler = Sampler::new(Popularity::Zipf(0.99), 1000);
        for (place, tolerance) in [(0, 0.003), (1, 0.003), (500, 0.0005)] {
            let exact = crate::synthetic::zipf::tests::mass(1000, 0.99, place + 1)
                - crate::synthetic::zipf::tests::mass(1000, 0.99, place);
            let share = shares[sampler.item_at(place) as usize];
            assert!((share - exact).abs() < tolerance, "{place}: {share} {exact}");
        }
    }

    #[test]
    fn hot_items_get_their_requests() {
        let law = Popularity::Hot { items: 0.1, requests: 0.9 };
        let sampler = Sampler::new(law, 1000);
        let shares = shares(law, 1000, 1_000_000);
        let by_place: Vec<_> = (0..1000).map(|place| shares[sampler.item_at(place) as usize]).collect();
        let hot: f64 = by_place[..100].iter().sum();
        assert!((hot - 0.9).abs() < 0.002, "{hot}");
        for part in [&by_place[..100], &by_place[100..]] {
            let per_degree = of_equal(part, 1e6);
            assert!((0.6..1.5).contains(&per_degree), "{per_degree}");
        }
    }

    /// Known of YCSB: its constant for the sum of the weights is 26.469, so that the hottest rank has
    /// 3.78 % of the requests, however many items there are.
    #[test]
    fn the_scrambled_law_is_that_of_ycsb() {
        for items in [1000, 100_000] {
            let shares = shares(Popularity::Scrambled, items, 1_000_000);
            let hottest = fnv(0) % items;
            let others = 1.0 / items as f64;
            let share = shares[hottest as usize];
            assert!((share - 0.03778).abs() < 0.001 + others, "{items}: {share}");
            let most = shares.iter().copied().fold(0.0, f64::max);
            assert!((most - share).abs() < f64::EPSILON, "{most}");
        }
    }

    #[test]
    fn extreme_fractions() {
        let mut random = Random::new(1);
        for (items, requests) in [(0.0, 0.5), (1.0, 0.0), (0.5, 1.0), (0.5, 0.0)] {
            let sampler = Sampler::new(Popularity::Hot { items, requests }, 10);
            assert!((0..1000).all(|_| sampler.item(&mut random) < 10));
        }
    }
}
