//! Popularity as a quantile table: which part of the keys gets which part of the requests.

/// Parts of a table, at most.
const PARTS_MAX: usize = 8;

/// Parts of the keys and of the requests to them, the most popular keys first; within a part all
/// keys are alike. It looks the same whatever the number of keys.
#[derive(Debug)]
pub(super) struct Skew {
    /// The requests before each part; more than there are for parts that are not there.
    requests: [f64; PARTS_MAX],
    /// The keys before it.
    keys: [f64; PARTS_MAX],
    /// Keys per request within it.
    slopes: [f64; PARTS_MAX],
}

impl Skew {
    /// A table of fractions of the keys and of the requests; both add up to 1.
    pub const fn new(parts: &[(f64, f64)]) -> Self {
        let mut table = Self { requests: [2.0; PARTS_MAX], keys: [0.0; PARTS_MAX], slopes: [0.0; PARTS_MAX] };
        let (mut at, mut keys_before, mut requests_before) = (0, 0.0, 0.0);
        while at < parts.len() {
            let (keys, requests) = parts[at];
            table.requests[at] = requests_before;
            table.keys[at] = keys_before;
            table.slopes[at] = keys / requests;
            assert!(at == 0 || table.slopes[at] > table.slopes[at - 1]);
            requests_before += requests;
            keys_before += keys;
            at += 1;
        }
        assert!(keys_before > 1.0 - 1e-9 && keys_before < 1.0 + 1e-9);
        assert!(requests_before > 1.0 - 1e-9 && requests_before < 1.0 + 1e-9);
        table
    }

    /// The place of a request, as a fraction of the keys, for `draw` in `[0, 1)`. Rounding may make
    /// it a trifle more than 1.
    #[inline]
    pub fn at(&self, draw: f64) -> f64 {
        // All of them are compared: a branch would be mispredicted half of the time.
        let begun = self.requests.iter().map(|start| usize::from(draw >= *start));
        let part = (begun.sum::<usize>() - 1).min(PARTS_MAX - 1);
        self.keys[part] + (draw - self.requests[part]) * self.slopes[part]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn draws_meet_the_table() {
        let skew = Skew::new(&[(0.01, 0.2), (0.19, 0.5), (0.8, 0.3)]);
        let mut random = Random::new(4);
        let mut counts = [0; 3];
        for _ in 0..1_000_000 {
            let place = skew.at(random.unit());
            assert!((0.0..1.0).contains(&place));
            counts[usize::from(place >= 0.01) + usize::from(place >= 0.2)] += 1;
        }
        for (count, expected) in counts.into_iter().zip([0.2, 0.5, 0.3]) {
            assert!((f64::from(count) / 1e6 - expected).abs() < 0.0025);
        }
    }
}
