//! Counts of a load.

use super::requests::Kind;

/// A GET that was lost counts as having taken so long.
const LOST_US: f64 = 100_000.0;

/// Counts of one load.
#[derive(Clone, Debug, Default)]
pub(in crate::kernel) struct Tally {
    /// Requests sent, and GETs that were never answered.
    pub sent: u64,
    pub lost: u64,
    /// GETs answered, and how many of them with a value.
    pub gets: u64,
    pub hits: u64,
    /// Answered, by kind.
    pub updates: u64,
    pub deletes: u64,
    pub elapsed_s: f64,
    /// Sum of the latencies of the answered, by kind, in nanoseconds.
    pub latency_ns: [u64; 3],
    /// Each latency of an open loop, by kind, in nanoseconds.
    pub latencies_ns: [Vec<u32>; 3],
    /// True in an open loop.
    pub keeps_all: bool,
}

impl Tally {
    pub fn answered(&self) -> u64 {
        self.gets + self.updates + self.deletes
    }

    pub fn of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Get => self.gets,
            Kind::Update => self.updates,
            Kind::Delete => self.deletes,
        }
    }

    #[inline]
    pub fn add(&mut self, kind: Kind, latency_ns: u64) {
        let count = match kind {
            Kind::Get => &mut self.gets,
            Kind::Update => &mut self.updates,
            Kind::Delete => &mut self.deletes,
        };
        *count += 1;
        self.latency_ns[kind as usize] += latency_ns;
        if self.keeps_all {
            self.latencies_ns[kind as usize].push(latency_ns.min(u32::MAX.into()) as u32);
        }
    }

    /// Latency, in microseconds, that a share of a kind's requests does not exceed; GETs that were lost took
    /// the longest. NaN of none.
    pub fn quantile_us(&self, kind: Kind, share: f64) -> f64 {
        let mut all = self.latencies_ns[kind as usize].clone();
        let lost = if kind == Kind::Get { self.lost as usize } else { 0 };
        let count = all.len() + lost;
        if count == 0 {
            return f64::NAN;
        }
        let at = ((count - 1) as f64 * share) as usize;
        if at >= all.len() {
            return LOST_US;
        }
        let (_, found, _) = all.select_nth_unstable(at);
        f64::from(*found) / 1000.0
    }

    /// Mean of a kind, in microseconds, with the GETs that were lost. NaN of none.
    pub fn mean_us(&self, kind: Kind) -> f64 {
        let lost = if kind == Kind::Get { self.lost } else { 0 };
        mean_us(self.latency_ns[kind as usize], self.of(kind), lost)
    }

    /// Mean of all, in microseconds, with the GETs that were lost.
    pub fn mean_of_all_us(&self) -> f64 {
        let sum_ns = self.latency_ns.iter().sum::<u64>();
        mean_us(sum_ns, self.answered(), self.lost)
    }

    pub fn lost_ratio(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }
}

/// Mean latency; a lost request counts as long as a client waits before it tries again.
fn mean_us(sum_ns: u64, answered: u64, lost: u64) -> f64 {
    (sum_ns as f64 / 1000.0 + lost as f64 * LOST_US) / (answered + lost) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_a_kind_and_count_what_was_lost() {
        let mut tally = Tally::default();
        tally.add(Kind::Get, 10_000);
        tally.add(Kind::Get, 30_000);
        tally.add(Kind::Delete, 50_000);
        assert_eq!(tally.mean_us(Kind::Get), 20.0);
        assert_eq!(tally.mean_us(Kind::Delete), 50.0);
        assert!(tally.mean_us(Kind::Update).is_nan());
        assert_eq!((tally.answered(), tally.mean_of_all_us()), (3, 30.0));
        assert!(tally.quantile_us(Kind::Get, 0.5).is_nan());
        tally.lost = 2;
        assert_eq!(tally.mean_us(Kind::Get), (40.0 + 2.0 * LOST_US) / 4.0);
    }

    #[test]
    fn quantiles_count_lost_requests_as_the_slowest() {
        let mut tally = Tally { keeps_all: true, ..Tally::default() };
        for us in [30, 10, 20] {
            tally.add(Kind::Get, us * 1000);
        }
        tally.lost = 1;
        let of = |share| tally.quantile_us(Kind::Get, share);
        assert_eq!([of(0.0), of(0.5), of(0.7), of(1.0)], [10.0, 20.0, 30.0, LOST_US]);
        assert!(tally.quantile_us(Kind::Update, 0.5).is_nan());
    }
}
