//! One sample of the server: rates since the sample before, latencies of that time, and levels.

use std::time::Instant;

use micanite_engine::Stats;

use crate::shared::{AcceptorNumbers, Server};
use crate::telemetry::admin::metrics::transports;
use crate::telemetry::latency::{Class, HistogramSum, bound_ns};
use crate::telemetry::table::Totals;

/// Source of a number of a sample.
enum Source {
    /// Growth of a count per second.
    Rate(fn(&Moment) -> u64),
    /// Growth of a time in nanoseconds, in seconds per second.
    Busy(fn(&Moment) -> u64),
    /// A level, in the later of two moments.
    Level(fn(&Moment) -> u64),
    /// A quantile, in microseconds, of the requests of all classes or of one, or the number of those that
    /// were timed, per second.
    Timed(Option<Class>, Option<f64>),
}

/// A number of samples, under the name by which the page and the next program know it.
struct Series {
    name: &'static str,
    source: Source,
}

const fn rate(name: &'static str, count: fn(&Moment) -> u64) -> Series {
    Series { name, source: Source::Rate(count) }
}

const fn level(name: &'static str, level: fn(&Moment) -> u64) -> Series {
    Series { name, source: Source::Level(level) }
}

macro_rules! timed {
    ($($class:literal $of:expr),*) => {
        [$(
            Series { name: concat!($class, "_timed"), source: Source::Timed($of, None) },
            Series { name: concat!($class, "_p50"), source: Source::Timed($of, Some(0.5)) },
            Series { name: concat!($class, "_p99"), source: Source::Timed($of, Some(0.99)) },
            Series { name: concat!($class, "_p999"), source: Source::Timed($of, Some(0.999)) },
        )*]
    };
}

/// Rates per second and levels.
const COUNTS: [Series; COUNTS_LEN] = [
    rate("get_hits", |of| of.totals.get_hits),
    rate("get_misses", |of| of.totals.get_misses),
    rate("set", |of| of.totals.cmd_set),
    rate("touch", |of| of.totals.touch_hits + of.totals.touch_misses),
    rate("delete", |of| of.totals.delete_hits + of.totals.delete_misses),
    rate("arithmetic", |Moment { totals: of, .. }| {
        of.incr_hits + of.incr_misses + of.decr_hits + of.decr_misses
    }),
    rate("flush", |of| of.totals.cmd_flush + of.totals.cmd_flush_namespace),
    rate("evictions", |of| of.engine.evicted_log + of.engine.evicted_bucket),
    rate("evictions_bucket_full", |of| of.engine.evicted_bucket),
    rate("expired", |of| of.engine.expired),
    rate("refused", |of| of.totals.store_too_large + of.totals.store_no_memory),
    level("connections", |of| of.acceptor.accepted.saturating_sub(of.totals.connections_closed)),
    rate("accepted", |of| of.acceptor.accepted),
    rate("rejected", |of| of.acceptor.rejected),
    level("items", |of| of.engine.items_live),
    level("item_bytes", |of| of.engine.item_bytes_live),
    level("index_bytes", |of| of.engine.index_bytes),
    level("dead_bytes", |of| of.engine.early_bytes),
    level("memory_limit", |of| of.limit_bytes as u64),
    level("lag_s", |of| of.engine.expiry_lag_s),
    rate("received", |of| of.totals.bytes_read),
    rate("sent", |of| of.totals.bytes_written),
    Series { name: "cpu", source: Source::Busy(|of| of.totals.cpu_ns) },
    level("resident", |of| of.resident_bytes),
];
const COUNTS_LEN: usize = 24;

/// Requests that were timed, and their latencies.
const TIMES: [Series; TIMES_LEN] = timed!(
    "all" None, "get" Some(Class::Get), "set" Some(Class::Set), "touch" Some(Class::Touch),
    "delete" Some(Class::Delete), "arithmetic" Some(Class::Arithmetic)
);
const TIMES_LEN: usize = 4 * (1 + Class::ALL.len());

/// Numbers of a sample.
pub(super) const FIELDS: usize = COUNTS_LEN + TIMES_LEN;

fn series() -> impl Iterator<Item = &'static Series> {
    COUNTS.iter().chain(&TIMES)
}

/// Returns the names of the numbers, in their order. Rates are per second, times in microseconds. `_timed`
/// are the requests per second that were timed: the quantiles rest on them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    series().map(|series| series.name)
}

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
    resident_bytes: u64,
    acceptor: AcceptorNumbers,
    latency: [HistogramSum; Class::ALL.len()],
}

impl Moment {
    /// Reads the counters. Takes no lock that a worker takes.
    pub fn of(server: &Server, resident_bytes: u64) -> Self {
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
            resident_bytes,
            acceptor: server.acceptor.now(),
            latency,
        }
    }

    /// Returns the sample of the time from `before` to this moment.
    pub fn sample(&self, before: &Self, at_s: u32) -> Sample {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let classes = self.latency.iter().zip(&before.latency).map(|(now, then)| difference(now, then));
        let classes: Vec<HistogramSum> = classes.collect();
        let mut all = HistogramSum::default();
        for part in &classes {
            all.buckets.iter_mut().zip(&part.buckets).for_each(|(sum, count)| *sum += count);
        }
        let growth = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before)) as f64 / seconds;
        let number = |series: &Series| match series.source {
            Source::Rate(count) => growth(count) as f32,
            Source::Busy(time_ns) => (growth(time_ns) / 1e9) as f32,
            Source::Level(level) => level(self) as f32,
            Source::Timed(class, part) => {
                let buckets = &class.map_or(&all, |class| &classes[class as usize]).buckets;
                match part {
                    Some(part) => quantile(buckets, part, |bucket| bound_ns(bucket) as f64 / 1e3),
                    None => (buckets.iter().sum::<u64>() as f64 / seconds) as f32,
                }
            }
        };
        let mut values = [f32::NAN; FIELDS];
        values.iter_mut().zip(series()).for_each(|(value, series)| *value = number(series));
        Sample { at_s, values }
    }
}

fn difference(now: &HistogramSum, then: &HistogramSum) -> HistogramSum {
    let mut part = now.clone();
    part.buckets.iter_mut().zip(&then.buckets).for_each(|(now, then)| *now = now.saturating_sub(*then));
    part
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, NOW_S};

    fn value(sample: &Sample, name: &str) -> f32 {
        sample.values[names().position(|it| it == name).unwrap()]
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
        let before = Moment::of(&bench.server, 0);
        counters.get_hits.add(300);
        counters.get_misses.add(100);
        counters.incr_misses.add(50);
        let mut after = Moment::of(&bench.server, 1 << 20);
        after.at = before.at + std::time::Duration::from_secs(2);
        let sample = after.sample(&before, NOW_S);
        let of = |name| value(&sample, name);
        assert_eq!((of("get_hits"), of("get_misses"), of("arithmetic"), of("set")), (150.0, 50.0, 25.0, 0.0));
        assert_eq!((of("all_timed"), of("resident"), of("lag_s")), (0.0, 1_048_576.0, 0.0));
        assert!(of("get_p99").is_nan() && of("index_bytes") > 0.0);
        assert!(names().all(|name| names().filter(|it| *it == name).count() == 1));
        for (place, class) in Class::ALL.into_iter().enumerate() {
            let name = format!("{}_timed", class.name());
            let is_named = |series: &&Series| series.name == name;
            let source = &series().find(is_named).unwrap().source;
            assert!(matches!(source, Source::Timed(Some(of), None) if *of == class), "{name}");
            assert_eq!(class as usize, place);
        }
    }
}
