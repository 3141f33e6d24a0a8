//! Latencies of one thread or of a run, by the kind of their requests.

use hdrhistogram::Histogram;

use crate::run::recorder::{Answer, Kind};

/// Longer latencies are recorded as this.
pub(crate) const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// A kind of request that has latencies of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Class {
    /// GETs that a server answered.
    #[default]
    Get,
    /// GETs whose values were all read one-sided.
    GetOneSided,
    Set,
    /// DELETEs, and requests that were never sent.
    Other,
}

impl Class {
    /// The class of an answer.
    #[inline]
    pub fn of(answer: &Answer) -> Self {
        match answer.kind {
            Kind::Read if answer.one_sided > 0 && answer.one_sided == answer.operations => Self::GetOneSided,
            kind => Self::of_lost(kind),
        }
    }

    /// The class of a request without an answer.
    #[inline]
    pub const fn of_lost(kind: Kind) -> Self {
        match kind {
            Kind::Read => Self::Get,
            Kind::Write => Self::Set,
            Kind::Delete => Self::Other,
        }
    }
}

/// A histogram for each class, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Latencies([Histogram<u64>; 4]);

impl Latencies {
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| latency_histogram()))
    }

    /// Records a latency within bounds.
    #[inline]
    pub fn record(&mut self, class: Class, latency_ns: u64, count: u64) {
        // Within bounds, so that this cannot fail.
        let _ = self.0[class as usize].record_n(latency_ns, count);
    }

    pub fn add(&mut self, other: &Self) {
        for (to, from) in self.0.iter_mut().zip(&other.0) {
            // The same bounds: cannot fail.
            let _ = to.add(from);
        }
    }

    /// Those of one class.
    pub const fn of(&self, class: Class) -> &Histogram<u64> {
        &self.0[class as usize]
    }

    /// Those of all GETs.
    pub fn gets(&self) -> Histogram<u64> {
        self.sum(&[Class::Get, Class::GetOneSided])
    }

    /// Those of all requests.
    pub fn all(&self) -> Histogram<u64> {
        self.sum(&[Class::Get, Class::GetOneSided, Class::Set, Class::Other])
    }

    fn sum(&self, classes: &[Class]) -> Histogram<u64> {
        let mut sum = latency_histogram();
        for class in classes {
            // The same bounds: cannot fail.
            let _ = sum.add(self.of(*class));
        }
        sum
    }
}

/// Nanoseconds to three digits.
pub(crate) fn latency_histogram() -> Histogram<u64> {
    bounded(3)
}

#[expect(clippy::expect_used, reason = "the bounds are constants that the histogram accepts")]
pub(super) fn bounded<T: hdrhistogram::Counter>(digits: u8) -> Histogram<T> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, digits).expect("constant bounds")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind has its own latencies, and all of them together are what they were apart.
    #[test]
    fn kinds_are_apart() {
        let mut latencies = Latencies::new();
        let answer = |kind, one_sided| Answer { kind, operations: 2, one_sided, ..Answer::default() };
        for (kind, one_sided, ns) in
            [(Kind::Read, 0, 10), (Kind::Read, 1, 20), (Kind::Read, 2, 30), (Kind::Write, 0, 40)]
        {
            latencies.record(Class::of(&answer(kind, one_sided)), ns, 1);
        }
        latencies.record(Class::of_lost(Kind::Delete), 50, 2);
        let ends = |histogram: &Histogram<u64>| (histogram.len(), histogram.min(), histogram.max());
        assert_eq!(ends(latencies.of(Class::Get)), (2, 10, 20));
        assert_eq!(ends(latencies.of(Class::GetOneSided)), (1, 30, 30));
        assert_eq!(ends(latencies.of(Class::Set)), (1, 40, 40));
        assert_eq!(ends(&latencies.gets()), (3, 10, 30));
        assert_eq!(ends(&latencies.all()), (6, 10, 50));
        let mut twice = latencies.clone();
        twice.add(&latencies);
        assert_eq!(ends(&twice.all()), (12, 10, 50));
    }
}
