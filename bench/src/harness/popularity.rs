//! The two laws that the benchmarks of engine and server draw their items from.

use micanite_workload::Sampler;

pub(crate) use micanite_workload::Random;

/// Distribution of the requests over the items.
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

    /// `count` items out of `items`, drawn beforehand.
    pub fn draw(self, items: u64, count: usize, seed: u64) -> Vec<u32> {
        let law = match self {
            Self::Uniform => micanite_workload::Popularity::Uniform,
            Self::Zipf => micanite_workload::Popularity::Zipf(0.99),
        };
        let sampler = Sampler::new(law, items);
        let mut random = Random::new(seed);
        (0..count).map(|_| sampler.item(&mut random) as u32).collect()
    }
}
