//! Latencies of requests in a worker, as histograms of fixed size.
//!
//! Reading a clock takes 20 to 90 ns, so that is not done for each request, nor in each round of a
//! worker: one round of `ROUNDS` is timed, and every round while there are few. In a timed
//! round the clock is read when the worker has waited and once per turn of a connection: all
//! requests of a turn take as long as the turn, from the end of the wait that brought it to the
//! moment its replies were handed to the kernel. How many requests a turn had is the difference
//! of counters that are kept anyway. docs/metrics.md says what that includes and what it does not.

use std::time::Instant;

use crate::telemetry::table::{Counter, Counters};

/// One of so many rounds is timed, beside the first of each tick of the coarse clock.
const ROUNDS: u64 = 16;
/// Buckets per power of two.
const STEPS: usize = 4;
/// The first bucket is of what takes at most `2^10` ns.
const FIRST_SHIFT: u32 = 10;
/// Powers of two above the first bucket: up to 17 s.
const OCTAVES: usize = 24;
/// Buckets with an upper bound.
pub const BUCKETS: usize = 1 + OCTAVES * STEPS;

/// Requests as the histograms tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Reads without touch.
    Get,
    /// Stores of any kind.
    Set,
    /// Touch, and get-and-touch.
    Touch,
    /// Removals.
    Delete,
    /// Increment and decrement.
    Arithmetic,
}

impl Class {
    /// Each of them.
    pub const ALL: [Self; 5] = [Self::Get, Self::Set, Self::Touch, Self::Delete, Self::Arithmetic];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::Touch => "touch",
            Self::Delete => "delete",
            Self::Arithmetic => "arithmetic",
        }
    }

    /// Requests of the class that a worker has had.
    #[inline]
    fn count(self, of: &Counters) -> u64 {
        match self {
            Self::Get => of.get_hits.get() + of.get_misses.get(),
            Self::Set => of.cmd_set.get(),
            Self::Touch => of.touch_hits.get() + of.touch_misses.get(),
            Self::Delete => of.delete_hits.get() + of.delete_misses.get(),
            Self::Arithmetic => {
                let increments = of.incr_hits.get() + of.incr_misses.get();
                increments + of.decr_hits.get() + of.decr_misses.get()
            }
        }
    }
}

/// Transport of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP and Unix sockets.
    Stream,
    /// Datagrams of the native protocol.
    Native,
    /// Datagrams of memcached's protocols.
    Udp,
    /// Messages of a fabric.
    Fabric,
}

impl Transport {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Stream, Self::Native, Self::Udp, Self::Fabric];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Native => "native",
            Self::Udp => "udp",
            Self::Fabric => "fabric",
        }
    }
}

/// Counts by duration; one thread writes, anyone reads.
#[derive(Debug)]
pub struct Histogram {
    /// The last is of what is longer than every bound.
    buckets: [Counter; BUCKETS + 1],
    sum_ns: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| Counter::default()), sum_ns: Counter::default() }
    }
}

impl Histogram {
    #[inline]
    fn record(&self, duration_ns: u64, count: u64) {
        self.buckets[bucket(duration_ns)].add(count);
        self.sum_ns.add(duration_ns.saturating_mul(count));
    }

    /// Adds what was counted so far to `sum`.
    pub fn add_to(&self, sum: &mut HistogramSum) {
        for (to, from) in sum.buckets.iter_mut().zip(&self.buckets) {
            *to += from.get();
        }
        sum.sum_ns = sum.sum_ns.wrapping_add(self.sum_ns.get());
    }
}

/// Histograms added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSum {
    /// By duration; the last is of what is longer than every [`bound_ns`].
    pub buckets: [u64; BUCKETS + 1],
    /// All durations together.
    pub sum_ns: u64,
}

impl Default for HistogramSum {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS + 1], sum_ns: 0 }
    }
}

/// Returns the bucket of a duration: the first one whose bound is not less.
#[inline]
fn bucket(duration_ns: u64) -> usize {
    let below = duration_ns.saturating_sub(1);
    if below >> FIRST_SHIFT == 0 {
        return 0;
    }
    let shift = below.ilog2();
    let octave = (shift - FIRST_SHIFT) as usize;
    let step = (below >> (shift - STEPS.ilog2())) as usize % STEPS;
    (1 + octave * STEPS + step).min(BUCKETS)
}

/// The longest duration of a bucket that has a bound.
pub fn bound_ns(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(1) else {
        return 1 << FIRST_SHIFT;
    };
    let quarter = 1u64 << (FIRST_SHIFT as usize + above / STEPS - STEPS.ilog2() as usize);
    quarter * (STEPS + above % STEPS + 1) as u64
}

/// When a timed round began.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    at: Instant,
    now_ms: u64,
}

/// The histograms of a worker, which that worker alone writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Latency {
    histograms: [[Histogram; Class::ALL.len()]; Transport::ALL.len()],
    /// Requests before the timed turn.
    seen: [Counter; Class::ALL.len()],
    /// Rounds, timed or not.
    rounds: [Counter; Transport::ALL.len()],
    /// When a round was timed last, by the coarse clock.
    timed_ms: [Counter; Transport::ALL.len()],
}

impl Latency {
    /// A round begins. Returns whether it is timed.
    #[inline]
    pub fn begin(&self, transport: Transport, now_ms: u64, counters: &Counters) -> Option<Began> {
        let rounds = &self.rounds[transport as usize];
        rounds.add(1);
        if !rounds.get().is_multiple_of(ROUNDS) && self.timed_ms[transport as usize].get() == now_ms {
            return None;
        }
        for class in Class::ALL {
            self.seen[class as usize].set(class.count(counters));
        }
        let at = Instant::now();
        Some(Began { at, now_ms })
    }

    /// A turn of the round has ended: counts the requests that the worker has counted since the
    /// turn before, if the round is timed.
    #[inline]
    pub fn record(&self, transport: Transport, began: Option<Began>, counters: &Counters) {
        if let Some(began) = began {
            self.record_timed(transport, began, counters);
        }
    }

    fn record_timed(&self, transport: Transport, began: Began, counters: &Counters) {
        let duration_ns = began.at.elapsed().as_nanos() as u64;
        let histograms = &self.histograms[transport as usize];
        for class in Class::ALL {
            let seen = &self.seen[class as usize];
            let count = class.count(counters) - seen.get();
            if count > 0 {
                seen.add(count);
                histograms[class as usize].record(duration_ns, count);
                self.timed_ms[transport as usize].set(began.now_ms);
            }
        }
    }

    /// The durations of one kind of requests.
    pub fn of(&self, transport: Transport, class: Class) -> &Histogram {
        &self.histograms[transport as usize][class as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_within_its_bucket() {
        for power in 0..34 {
            for offset in [-3i64, -1, 0, 1, 2, 1 << power >> 2, 1 << power >> 1] {
                let Ok(duration_ns) = u64::try_from((1i64 << power) + offset) else {
                    continue;
                };
                let bucket = bucket(duration_ns);
                assert!(duration_ns <= bound_ns(bucket), "{duration_ns}");
                assert!(bucket == 0 || duration_ns > bound_ns(bucket - 1));
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS);
        assert_eq!(bucket(bound_ns(BUCKETS - 1)), BUCKETS - 1);
        assert_eq!(bucket(bound_ns(BUCKETS - 1) + 1), BUCKETS);
    }

    #[test]
    fn bounds_grow_by_a_quarter_at_most() {
        assert_eq!([0, 1, 4, 5].map(bound_ns), [1024, 1280, 2048, 2560]);
        for bucket in 1..BUCKETS {
            let (less, more) = (bound_ns(bucket - 1), bound_ns(bucket));
            assert!(less < more && more - less <= less.div_ceil(4));
        }
    }

    fn count(latency: &Latency, transport: Transport, class: Class) -> u64 {
        let mut sum = HistogramSum::default();
        latency.of(transport, class).add_to(&mut sum);
        sum.buckets.iter().sum()
    }

    #[test]
    fn requests_are_recorded_once_and_by_class() {
        let (latency, counters) = (Latency::default(), Counters::default());
        let round = |transport, now_ms| {
            let began = latency.begin(transport, now_ms, &counters);
            counters.get_hits.add(2);
            counters.get_misses.add(1);
            latency.record(transport, began, &counters);
            counters.decr_hits.add(1);
            latency.record(transport, began, &counters);
        };
        round(Transport::Stream, 1);
        // Requests of a round that is not timed are nobody's.
        counters.cmd_set.add(1);
        round(Transport::Native, 2);
        round(Transport::Stream, 3);
        for (transport, rounds) in [(Transport::Stream, 2), (Transport::Native, 1)] {
            assert_eq!(count(&latency, transport, Class::Get), 3 * rounds);
            assert_eq!(count(&latency, transport, Class::Arithmetic), rounds);
            assert_eq!(count(&latency, transport, Class::Set), 0);
        }
    }

    #[test]
    fn one_round_of_sixteen_is_timed_within_a_tick() {
        let (latency, counters) = (Latency::default(), Counters::default());
        for _ in 0..160 {
            let began = latency.begin(Transport::Stream, 7, &counters);
            counters.cmd_set.add(1);
            latency.record(Transport::Stream, began, &counters);
        }
        // The first, and ten more.
        assert_eq!(count(&latency, Transport::Stream, Class::Set), 11);
    }
}
