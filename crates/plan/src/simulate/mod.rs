//! Discrete-event simulation of one core: datagrams come, wait in its receive queue, and are answered
//! together as one receive brings them.
//!
//! ```text
//! arrivals (Poisson, bursts, the rate of a trace) -> queue -> receive of up to n -> service -> replies
//!                                                              housekeeping takes the core now and then
//! ```

mod histogram;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use micanite_workload::Random;

pub use histogram::{Histogram, Percentiles};

/// Requests between two reports of progress.
const STEP: u64 = 1 << 20;
/// Share of the requests, at the beginning, that are not counted.
const WARM_UP: u64 = 10;

/// How datagrams come.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Independently of each other.
    Poisson,
    /// So many at once; the groups come independently of each other.
    Bursts(u32),
    /// Independently, at a rate that changes: factors of the mean for equal parts of the time.
    Profile(Vec<f64>),
}

/// Time that the service of a datagram takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Always the same, in seconds.
    Fixed(f64),
    /// Exponentially distributed with this mean.
    Exponential(f64),
}

impl Service {
    const fn mean(self) -> f64 {
        match self {
            Self::Fixed(mean) | Self::Exponential(mean) => mean,
        }
    }
}

/// Housekeeping: the core does something else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pause {
    /// Seconds from one pause to the next.
    pub every_s: f64,
    /// Length in seconds.
    pub length_s: f64,
}

/// A core and its load.
#[derive(Clone, Debug, PartialEq)]
pub struct Core {
    /// Datagrams per second.
    pub rate: f64,
    /// Requests of a datagram.
    pub batch: u32,
    /// Service of a datagram.
    pub service: Service,
    /// Most datagrams that one receive brings; all of them are answered at its end.
    pub receive_max: usize,
    /// How datagrams come.
    pub arrivals: Arrivals,
    /// Housekeeping, if there is any.
    pub pause: Option<Pause>,
}

/// Results of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Times in the system in seconds, weighted by requests.
    pub times: Histogram,
    /// Share of the time in which the core worked.
    pub utilisation: f64,
    /// Datagrams in the system, averaged over the time.
    pub in_system: f64,
    /// Datagrams per second that were answered.
    pub rate: f64,
    /// Datagrams of a receive, on average.
    pub per_receive: f64,
}

impl Core {
    /// Returns the share of the core's time that the load takes, housekeeping included.
    pub fn load(&self) -> f64 {
        let pause = self.pause.map_or(0.0, |pause| pause.length_s / pause.every_s);
        self.rate * self.service.mean() + pause
    }

    /// Simulates about so many requests. The same seed gives the same outcome. `progress` is told the
    /// requests that are done.
    ///
    /// Pauses that are rare beside the simulated time are put in more often, and weighted: requests from the
    /// begin of a pause until the queue is empty again stand for fewer, the others for more.
    pub fn simulate(&self, requests: u64, seed: u64, progress: &mut dyn FnMut(u64)) -> Outcome {
        // Without arrivals the simulation would have no end.
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return Outcome::default();
        }
        let datagrams = (requests / u64::from(self.batch)).max(1);
        let Some(pause) = self.pause else {
            return Run::new(self, datagrams, seed, None).finish(progress);
        };
        // The mean time until the queue is empty again, of which requests come all the while.
        let recovery_s = pause.length_s / (1.0 - self.load()).max(1e-3);
        let is_often = datagrams as f64 / self.rate > 50.0 * pause.every_s;
        if is_often || recovery_s > pause.every_s / 2.0 {
            return Run::new(self, datagrams, seed, Some(pause)).finish(progress);
        }
        let steady = Run::new(self, datagrams / 2, seed, None).finish(progress);
        // Each pause waits for the end of the one before.
        let often = Pause { every_s: recovery_s / 2.0, ..pause };
        let mut run = Run::new(self, datagrams / 2, seed ^ 1, Some(often));
        run.counts_recovery_only = true;
        let recovering = run.recoveries(progress);
        let share = recovery_s / pause.every_s;
        let mut times = Histogram::default();
        times.merge(&steady.times, (1.0 - share) / steady.times.total().max(f64::MIN_POSITIVE));
        times.merge(&recovering, share / recovering.total().max(f64::MIN_POSITIVE));
        Outcome { times, ..steady }
    }
}

/// A simulation under way.
struct Run<'a> {
    core: &'a Core,
    random: Random,
    datagrams: u64,
    pause: Option<Pause>,
    next_pause_s: f64,
    next_arrival_s: f64,
    burst_left: u32,
    arrived: u64,
    now_s: f64,
    queue: VecDeque<f64>,
    /// True from the begin of a pause until the queue is empty.
    is_recovering: bool,
    counts_recovery_only: bool,
    area: f64,
    area_until_s: f64,
    counted_from_s: f64,
    busy_s: f64,
    receives: u64,
    answered: u64,
    counted: u64,
    times: Histogram,
}

impl<'a> Run<'a> {
    fn new(core: &'a Core, datagrams: u64, seed: u64, pause: Option<Pause>) -> Self {
        let mut run = Self {
            core,
            random: Random::of_stream(seed, 0),
            datagrams,
            pause,
            next_pause_s: f64::INFINITY,
            next_arrival_s: 0.0,
            burst_left: 0,
            arrived: 0,
            now_s: 0.0,
            queue: VecDeque::new(),
            is_recovering: false,
            counts_recovery_only: false,
            area: 0.0,
            area_until_s: 0.0,
            counted_from_s: 0.0,
            busy_s: 0.0,
            receives: 0,
            answered: 0,
            counted: 0,
            times: Histogram::default(),
        };
        if let Some(pause) = pause {
            run.next_pause_s = pause.every_s * run.random.unit();
        }
        run.draw_arrival();
        run
    }

    /// Simulates to the end.
    fn finish(mut self, progress: &mut dyn FnMut(u64)) -> Outcome {
        self.all(progress);
        let seconds = (self.now_s - self.counted_from_s).max(f64::MIN_POSITIVE);
        Outcome {
            times: self.times,
            utilisation: self.busy_s / seconds,
            in_system: self.area / seconds,
            rate: self.counted as f64 / seconds,
            per_receive: self.counted as f64 / self.receives.max(1) as f64,
        }
    }

    /// Simulates to the end; returns the times of requests from pauses until the queue was empty again.
    fn recoveries(mut self, progress: &mut dyn FnMut(u64)) -> Histogram {
        self.all(progress);
        self.times
    }

    fn all(&mut self, progress: &mut dyn FnMut(u64)) {
        let warm_up = if self.counts_recovery_only { 0 } else { self.datagrams / WARM_UP };
        let step = (STEP / u64::from(self.core.batch)).max(1);
        let mut next_step = step;
        let mut is_warm = warm_up == 0;
        while self.answered < self.datagrams || self.counts_recovery_only && self.is_recovering {
            self.receive(is_warm);
            if !is_warm && self.answered >= warm_up {
                is_warm = true;
                (self.counted_from_s, self.area, self.busy_s) = (self.now_s, 0.0, 0.0);
            }
            if self.answered >= next_step {
                progress(self.answered * u64::from(self.core.batch));
                next_step += step;
            }
        }
    }

    /// One receive: waits for a datagram, serves what is there, answers.
    fn receive(&mut self, is_counted: bool) {
        if self.queue.is_empty() {
            if self.is_recovering && self.counts_recovery_only {
                let every_s = self.pause.map_or(f64::INFINITY, |pause| pause.every_s);
                self.next_pause_s = self.now_s + every_s * self.random.unit();
            }
            self.is_recovering = false;
            if self.next_arrival_s > self.now_s {
                self.now_s = self.next_arrival_s.min(self.next_pause_s);
            }
        }
        if self.now_s >= self.next_pause_s {
            let pause = self.pause.unwrap_or(Pause { every_s: f64::INFINITY, length_s: 0.0 });
            self.now_s += pause.length_s;
            self.next_pause_s += if self.counts_recovery_only { f64::INFINITY } else { pause.every_s };
            self.is_recovering = true;
        }
        self.admit(self.now_s);
        let taken = self.queue.len().min(self.core.receive_max);
        if taken == 0 {
            return;
        }
        let service_s: f64 = match self.core.service {
            Service::Fixed(mean) => mean * taken as f64,
            Service::Exponential(mean) => (0..taken).map(|_| self.random.exponential(mean)).sum(),
        };
        self.now_s += service_s;
        // Requests that come meanwhile count as being there before these leave.
        self.admit(self.now_s);
        self.count_area(self.now_s);
        self.answered += taken as u64;
        let weight = f64::from(self.core.batch);
        let is_wanted = is_counted && (self.is_recovering || !self.counts_recovery_only);
        for arrival_s in self.queue.drain(..taken) {
            if is_wanted {
                self.times.add(self.now_s - arrival_s, weight);
            }
        }
        if is_counted {
            self.busy_s += service_s;
            self.receives += 1;
            self.counted += taken as u64;
        }
    }

    /// Puts what has come until a time into the queue.
    fn admit(&mut self, until_s: f64) {
        while self.next_arrival_s <= until_s {
            self.count_area(self.next_arrival_s);
            self.queue.push_back(self.next_arrival_s);
            self.arrived += 1;
            self.draw_arrival();
        }
    }

    /// Adds the time since the last event, weighted by the datagrams in the system.
    fn count_area(&mut self, until_s: f64) {
        self.area += self.queue.len() as f64 * (until_s - self.area_until_s);
        self.area_until_s = until_s;
    }

    fn draw_arrival(&mut self) {
        let mean_s = 1.0 / self.core.rate;
        self.next_arrival_s += match &self.core.arrivals {
            Arrivals::Poisson => self.random.exponential(mean_s),
            Arrivals::Bursts(_) if self.burst_left > 0 => {
                self.burst_left -= 1;
                0.0
            }
            Arrivals::Bursts(size) => {
                self.burst_left = size.saturating_sub(1);
                self.random.exponential(mean_s * f64::from((*size).max(1)))
            }
            Arrivals::Profile(factors) => {
                let part = self.arrived as f64 / self.datagrams.max(1) as f64;
                self.random.exponential(mean_s / factor_at(factors, part))
            }
        };
    }
}

/// Returns the factor of the rate when this part of the arrivals has come.
fn factor_at(factors: &[f64], part: f64) -> f64 {
    let all: f64 = factors.iter().sum();
    let mut left = part * all;
    for factor in factors {
        left -= factor;
        if left < 0.0 {
            // The factors are relative to their mean.
            return (factor * factors.len() as f64 / all).max(1e-6);
        }
    }
    1.0
}
