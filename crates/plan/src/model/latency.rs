//! Latency against the rate, by simulation of the cores.

use serde::Serialize;

use super::capacity::Capacity;
use crate::load::Load;
use crate::machine::Machine;
use crate::simulate::{Arrivals, Core, Histogram, Pause, Percentiles, Service};

/// Least requests of a class of cores that are simulated.
const REQUESTS_MIN: u64 = 50_000;
/// Least datagrams and least bursts of a class: percentiles of fewer mean nothing.
const DATAGRAMS_MIN: u64 = 5_000;
const BURSTS_MIN: u64 = 200;
/// Share of the requests below which a core counts as idle.
const SHARE_MIN: f64 = 1e-12;

/// Latency at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Requests per second.
    pub rate: f64,
    /// Share of its time that the busiest core works.
    pub load: f64,
    /// Percentiles of the latency.
    #[serde(flatten)]
    pub latency: Percentiles,
}

/// A question for the simulation.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Machine.
    pub machine: &'a Machine,
    /// Load; its rate is not used.
    pub load: &'a Load,
    /// Cores of a mode.
    pub capacity: &'a Capacity,
    /// Requests that are simulated, about.
    pub requests: u64,
}

impl Question<'_> {
    /// Simulates a rate; nothing where a core, the memory or the network cannot keep up.
    ///
    /// Cores of similar load are one class, which is simulated as one core.
    pub fn at(&self, rate: f64, progress: &mut dyn FnMut(u64)) -> Option<Point> {
        if rate > self.capacity.limits.memory || rate > self.capacity.limits.network {
            return None;
        }
        let Self { machine, load, capacity, requests } = *self;
        let mut all = Histogram::default();
        let mut busiest = 0.0f64;
        let mut done = 0;
        for (number, class) in classes(capacity).into_iter().enumerate() {
            let core = Core {
                rate: rate * class.share / class.cores / f64::from(load.batch),
                batch: load.batch,
                service: Service::Fixed(class.request_s * f64::from(load.batch)),
                receive_max: machine.latency.receive_max,
                arrivals: load.arrivals.clone(),
                pause: self.pause(),
            };
            busiest = busiest.max(core.load());
            if core.load() >= 1.0 {
                return None;
            }
            let bursts = match load.arrivals {
                Arrivals::Bursts(size) => u64::from(size) * BURSTS_MIN,
                Arrivals::Poisson | Arrivals::Profile(_) => 0,
            };
            let least = REQUESTS_MIN.min(requests).max(DATAGRAMS_MIN.max(bursts) * u64::from(load.batch));
            let budget = ((requests as f64 * class.share) as u64).max(least);
            let outcome = core
                .simulate(budget, load.seed.wrapping_add(number as u64), &mut |more| progress(done + more));
            done += budget;
            all.merge(&outcome.times, class.share / outcome.times.total().max(f64::MIN_POSITIVE));
        }
        let round_trips = machine.latency.round_trips_us(load.batch, rate / capacity.throughput);
        let round_trips: Vec<f64> = round_trips.into_iter().map(|us| us * 1e-6).collect();
        let latency = all.plus(&round_trips).percentiles();
        Some(Point { rate, load: busiest, latency })
    }

    fn pause(&self) -> Option<Pause> {
        let latency = &self.machine.latency;
        let pause = Pause { every_s: latency.pause_every_s, length_s: latency.pause_us * 1e-6 };
        (pause.length_s > 0.0).then_some(pause)
    }

    /// Returns the highest rate whose 95th percentile is within a bound, and its latency.
    pub fn within(&self, p95_us: f64, progress: &mut dyn FnMut(u64)) -> Option<Point> {
        let is_within = |point: &Point| point.latency.p95_us <= p95_us;
        let (mut low, mut high) = (0.0, 1.0);
        let mut best = None;
        for _ in 0..9 {
            let part = if best.is_none() && low == 0.0 { high * 0.5 } else { (low + high) / 2.0 };
            let point = self.at(self.capacity.throughput * part, progress).filter(is_within);
            match point {
                Some(point) => (low, best) = (part, Some(point)),
                None => high = part,
            }
        }
        best
    }
}

/// Cores of similar load.
struct Class {
    cores: f64,
    share: f64,
    request_s: f64,
}

/// Groups the cores: the hottest alone, then twice as many each time; all in one if they are alike. Cores
/// without requests are in no group.
fn classes(capacity: &Capacity) -> Vec<Class> {
    let busy = capacity.cores.iter().take_while(|core| core.share > SHARE_MIN).count();
    let cores = &capacity.cores[..busy.max(1)];
    let (hottest, coldest) = (cores[0], cores[cores.len() - 1]);
    let is_even = hottest.share <= coldest.share * 1.001 && hottest.request_s == coldest.request_s;
    let mut classes = Vec::new();
    let (mut from, mut size) = (0, if is_even { cores.len() } else { 1 });
    while from < cores.len() {
        let group = &cores[from..(from + size).min(cores.len())];
        let share: f64 = group.iter().map(|core| core.share).sum();
        let busy: f64 = group.iter().map(|core| core.share * core.request_s).sum();
        classes.push(Class { cores: group.len() as f64, share, request_s: busy / share });
        from += size;
        size *= 2;
    }
    classes
}
