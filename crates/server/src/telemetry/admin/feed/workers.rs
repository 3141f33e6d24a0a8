//! Load of each worker: what its counters have grown since the last tick.

use std::time::Instant;

use super::sample::quantile;
use crate::limits::CONSOLE_LOAD_BYTES_MAX;
use crate::shared::Server;
use crate::telemetry::admin::metrics::transports;
use crate::telemetry::latency::{BUCKETS, Class, HistogramSum, bound_ns};
use crate::telemetry::table::{Counters, Totals};

/// Buckets of a worker's histogram, by powers of two; the first is alone, the last has no bound.
const COARSE: usize = 2 + (BUCKETS - 1) / STEPS;
const STEPS: usize = 4;

/// Load of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Requests per second.
    pub rate: f32,
    pub connections: f32,
    /// CPU time and upkeep per second.
    pub cpu: f32,
    pub upkeep: f32,
    /// 99 % of the timed requests took at most so many microseconds.
    pub p99_us: f32,
}

/// Counters of a worker at the last tick.
#[derive(Clone, Debug, Default)]
struct Before {
    requests: u64,
    cpu_ns: u64,
    upkeep_ns: u64,
    timed: [u64; COARSE],
}

/// The loads of all workers, taken anew at each tick.
#[derive(Debug)]
pub(super) struct Loads {
    at: Instant,
    before: Vec<Before>,
    pub now: Vec<Load>,
}

/// Bytes of one worker's.
pub(super) const BYTES: usize = size_of::<Before>() + size_of::<Load>();

const _: () = assert!(BYTES <= CONSOLE_LOAD_BYTES_MAX);

impl Loads {
    pub fn new(server: &Server) -> Self {
        let workers = server.shared.counters.len();
        let mut loads = Self {
            at: Instant::now(),
            before: vec![Before::default(); workers],
            now: vec![Load::default(); workers],
        };
        loads.tick(server);
        loads.now.fill(Load::default());
        loads
    }

    pub fn tick(&mut self, server: &Server) {
        let now = Instant::now();
        let seconds = now.duration_since(self.at).as_secs_f32().max(1e-3);
        self.at = now;
        let workers = server.shared.counters.iter().zip(&server.shared.latency);
        let slots = self.before.iter_mut().zip(&mut self.now);
        for ((counters, latency), (before, load)) in workers.zip(slots) {
            let mut sum = HistogramSum::default();
            for transport in transports(&server.shared) {
                Class::ALL.into_iter().for_each(|class| latency.of(transport, class).add_to(&mut sum));
            }
            let now = Before {
                requests: requests(counters),
                cpu_ns: counters.cpu_ns.get(),
                upkeep_ns: counters.housekeeping_ns.get(),
                timed: coarse(&sum),
            };
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f32 / seconds;
            let counts: [u64; COARSE] =
                std::array::from_fn(|bucket| now.timed[bucket].saturating_sub(before.timed[bucket]));
            let closed = counters.connections_closed.get();
            *load = Load {
                rate: rate(now.requests, before.requests),
                connections: counters.connections_opened.get().saturating_sub(closed) as f32,
                cpu: rate(now.cpu_ns, before.cpu_ns) / 1e9,
                upkeep: rate(now.upkeep_ns, before.upkeep_ns) / 1e9,
                p99_us: quantile(&counts, 0.99, |bucket| bound_ns(STEPS * bucket) as f64 / 1e3),
            };
            *before = now;
        }
    }
}

/// Requests that a worker has executed.
fn requests(counters: &Counters) -> u64 {
    let mut t = Totals::default();
    t.add(counters);
    let found = t.get_hits + t.touch_hits + t.delete_hits + t.incr_hits + t.decr_hits;
    let missed = t.get_misses + t.touch_misses + t.delete_misses + t.incr_misses + t.decr_misses;
    found + missed + t.cmd_set + t.cmd_flush + t.cmd_flush_namespace
}

fn coarse(sum: &HistogramSum) -> [u64; COARSE] {
    let mut counts = [0; COARSE];
    for (bucket, count) in sum.buckets.iter().enumerate() {
        let place = if bucket == BUCKETS { COARSE - 1 } else { bucket.div_ceil(STEPS) };
        counts[place] += count;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn every_bucket_is_below_the_bound_of_its_place() {
        let mut sum = HistogramSum::default();
        for bucket in 0..=BUCKETS {
            sum.buckets.fill(0);
            sum.buckets[bucket] = 1;
            let place = coarse(&sum).iter().position(|count| *count == 1).unwrap();
            assert_eq!(place == COARSE - 1, bucket == BUCKETS);
            assert!(bucket == BUCKETS || bound_ns(bucket) <= bound_ns(STEPS * place));
        }
    }

    #[test]
    fn loads_are_what_has_come_since() {
        let bench = Bench::new("");
        let counters = &bench.server.shared.counters[0];
        counters.get_hits.add(1000);
        let mut loads = Loads::new(&bench.server);
        assert_eq!(loads.now[0].rate, 0.0);
        counters.cmd_set.add(10);
        counters.connections_opened.add(3);
        loads.tick(&bench.server);
        assert!(loads.now[0].rate > 0.0 && loads.now[0].connections == 3.0 && loads.now[0].p99_us.is_nan());
    }
}
