//! One sample of the server: rates since the sample before, latencies of that time, and levels.

use std::time::Instant;

use micanite_engine::Stats;

use crate::shared::{AcceptorNumbers, Server};
use crate::telemetry::admin::metrics::transports;
use crate::telemetry::latency::{BUCKETS, Class, HistogramSum, bound_ns};
use crate::telemetry::stats::Totals;

/// Numbers of a sample.
pub(super) const FIELDS: usize = 48;

/// Names of the numbers, in their order. Rates are per second, times in microseconds. `_timed` are the
/// requests per second that were timed: the quantiles rest on them.
pub(super) const NAMES: [&str; FIELDS] = [
    "get_hits",
    "get_misses",
    "set",
    "touch",
    "delete",
    "arithmetic",
    "flush",
    "all_timed",
    "all_p50",
    "all_p99",
    "all_p999",
    "get_timed",
    "get_p50",
    "get_p99",
    "get_p999",
    "set_timed",
    "set_p50",
    "set_p99",
    "set_p999",
    "touch_timed",
    "touch_p50",
    "touch_p99",
    "touch_p999",
    "delete_timed",
    "delete_p50",
    "delete_p99",
    "delete_p999",
    "arithmetic_timed",
    "arithmetic_p50",
    "arithmetic_p99",
    "arithmetic_p999",
    "evictions",
    "evictions_bucket_full",
    "expired",
    "refused",
    "connections",
    "accepted",
    "rejected",
    "items",
    "item_bytes",
    "index_bytes",
    "dead_bytes",
    "memory_limit",
    "lag_s",
    "received",
    "sent",
    "cpu",
    "resident",
];

/// A sample; what is not known is not a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Unix time.
    pub at_s: u32,
    pub values: [f32; FIELDS],
}

/// Counters of the server at one moment.
#[derive(Debug)]
pub(super) struct Moment {
    at: Instant,
    totals: Totals,
    engine: Stats,
    limit_bytes: usize,
    acceptor: AcceptorNumbers,
    latency: [HistogramSum; Class::ALL.len()],
}

impl Moment {
    /// Reads the counters. Takes no lock that a worker takes.
    pub fn of(server: &Server) -> Self {
        let mut latency = std::array::from_fn(|_| HistogramSum::default());
        for worker in &server.shared.latency {
            for (class, sum) in Class::ALL.into_iter().zip(&mut latency) {
                transports(&server.shared).for_each(|transport| worker.of(transport, class).add_to(sum));
            }
        }
        Self {
            at: Instant::now(),
            totals: server.totals(),
            engine: server.shared.cache.stats(),
            limit_bytes: server.shared.cache.memory_limit_bytes(),
            acceptor: server.acceptor.now(),
            latency,
        }
    }

    /// Returns the sample of the time from `before` to this moment.
    pub fn sample(&self, before: &Self, at_s: u32, resident_bytes: u64) -> Sample {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let rate = |now: u64, then: u64| (now.saturating_sub(then) as f64 / seconds) as f32;
        let (t, s, e) = (self.totals.since(&before.totals), &self.engine, &before.engine);
        let of = |count: u64| rate(count, 0);
        let mut values = Values::default();
        values.extend([of(t.get_hits), of(t.get_misses), of(t.cmd_set), of(t.touch_hits + t.touch_misses)]);
        values.extend([of(t.delete_hits + t.delete_misses)]);
        values.extend([of(t.incr_hits + t.incr_misses + t.decr_hits + t.decr_misses)]);
        values.extend([of(t.cmd_flush + t.cmd_flush_namespace)]);
        self.latencies(before, seconds, &mut values);
        let evicted = |stats: &Stats| stats.evicted_log + stats.evicted_bucket;
        values.extend([rate(evicted(s), evicted(e)), rate(s.evicted_bucket, e.evicted_bucket)]);
        values.extend([rate(s.expired, e.expired)]);
        values.extend([of(t.store_too_large + t.store_no_memory)]);
        let open = self.acceptor.accepted.saturating_sub(self.totals.connections_closed);
        values.extend([open as f32, rate(self.acceptor.accepted, before.acceptor.accepted)]);
        values.extend([rate(self.acceptor.rejected, before.acceptor.rejected)]);
        let levels = [s.items_live, s.item_bytes_live, s.index_bytes, s.early_bytes];
        values.extend(levels.map(|level| level as f32));
        values.extend([self.limit_bytes as f32, s.expiry_lag_s as f32]);
        values.extend([of(t.bytes_read), of(t.bytes_written), of(t.cpu_ns) / 1e9, resident_bytes as f32]);
        Sample { at_s, values: values.numbers }
    }

    fn latencies(&self, before: &Self, seconds: f64, values: &mut Values) {
        let mut all = HistogramSum::default();
        let classes = self.latency.iter().zip(&before.latency).map(|(now, then)| {
            let part = difference(now, then);
            all.buckets.iter_mut().zip(&part.buckets).for_each(|(sum, count)| *sum += count);
            quantiles(&part, seconds)
        });
        let classes: Vec<_> = classes.collect();
        values.extend(quantiles(&all, seconds));
        classes.into_iter().for_each(|four| values.extend(four));
    }
}

/// Fills a sample from its first number to its last.
struct Values {
    numbers: [f32; FIELDS],
    filled: usize,
}

impl Default for Values {
    fn default() -> Self {
        Self { numbers: [f32::NAN; FIELDS], filled: 0 }
    }
}

impl Values {
    fn extend(&mut self, numbers: impl IntoIterator<Item = f32>) {
        for number in numbers {
            self.numbers[self.filled] = number;
            self.filled += 1;
        }
    }
}

fn difference(now: &HistogramSum, then: &HistogramSum) -> HistogramSum {
    let mut part = now.clone();
    part.buckets.iter_mut().zip(&then.buckets).for_each(|(now, then)| *now = now.saturating_sub(*then));
    part
}

/// Returns the timed requests per second, and the median, 99 % and 99.9 % in microseconds.
fn quantiles(of: &HistogramSum, seconds: f64) -> [f32; 4] {
    let count: u64 = of.buckets.iter().sum();
    let at = |part| quantile(&of.buckets, part, |bucket| bound_ns(bucket) as f64 / 1e3);
    [(count as f64 / seconds) as f32, at(0.5), at(0.99), at(0.999)]
}

/// Returns a quantile of counts by upper bound, interpolated within its bucket; the last bucket has no bound.
/// Without counts it is not a number.
pub(super) fn quantile(counts: &[u64], part: f64, bound: impl Fn(usize) -> f64) -> f32 {
    let wanted = part * counts.iter().sum::<u64>() as f64;
    let (mut lower, mut below) = (0.0, 0.0);
    for (bucket, count) in counts.iter().enumerate() {
        let count = *count as f64;
        if count > 0.0 && below + count >= wanted {
            let is_last = bucket + 1 == counts.len();
            let upper = if is_last { lower } else { bound(bucket) };
            return (lower + (upper - lower) * (wanted - below) / count) as f32;
        }
        below += count;
        if bucket + 1 < counts.len() {
            lower = bound(bucket);
        }
    }
    f32::NAN
}

const _: () = assert!(FIELDS == 7 + 4 * (1 + Class::ALL.len()) + 17 && BUCKETS > 0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, NOW_S};

    fn value(sample: &Sample, name: &str) -> f32 {
        sample.values[NAMES.iter().position(|it| *it == name).unwrap()]
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let bound = |bucket: usize| 10.0 * (bucket + 1) as f64;
        assert_eq!(quantile(&[0, 10, 0], 0.5, bound), 15.0);
        assert_eq!(quantile(&[10, 10, 0], 0.99, bound), 19.8);
        assert_eq!(quantile(&[0, 0, 5], 0.5, bound), 20.0);
        assert!(quantile(&[0, 0], 0.5, bound).is_nan());
    }

    #[test]
    fn a_sample_has_the_rates_of_its_time() {
        let bench = Bench::new("");
        let counters = &bench.server.shared.counters[0];
        let before = Moment::of(&bench.server);
        counters.get_hits.add(300);
        counters.get_misses.add(100);
        counters.incr_misses.add(50);
        let mut after = Moment::of(&bench.server);
        after.at = before.at + std::time::Duration::from_secs(2);
        let sample = after.sample(&before, NOW_S, 1 << 20);
        let of = |name| value(&sample, name);
        assert_eq!((of("get_hits"), of("get_misses"), of("arithmetic"), of("set")), (150.0, 50.0, 25.0, 0.0));
        assert_eq!((of("all_timed"), of("resident"), of("lag_s")), (0.0, 1_048_576.0, 0.0));
        assert!(of("get_p99").is_nan() && of("index_bytes") > 0.0);
        assert!(NAMES.iter().all(|name| NAMES.iter().filter(|it| it == &name).count() == 1));
    }
}
