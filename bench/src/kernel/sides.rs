//! Loads on servers, in turns, and what came of them.

use std::time::Duration;

use super::load::client::Pace;
use super::load::requests::{Kind, Ring};
use super::load::tally::Tally;
use super::servers::Server;
use super::usage::Usage;
use crate::Result;
use crate::results::measurement::Measurement;
use crate::results::statistics::median;

pub(super) const METRIC: &str = "gets_per_server_core_second";
pub(super) const UNIT: &str = "GETs/core-s";
/// Requests in flight at most: what the rings of a cable hold without losses.
const WINDOW: usize = 256;
/// A peak is what is reached with this mean latency at most.
const LATENCY_US_MAX: f64 = 1000.0;
/// A window is too large, or a slice is what it is, when it has been so often.
const TRIES: usize = 3;

/// Lets the client's core go idle between slices: the kernel takes a real-time thread off its core
/// for 50 ms when it has had nearly all of a second, and what is in flight then is late or lost.
pub(super) fn rest() {
    std::thread::sleep(Duration::from_millis(120));
}

/// One load on one server.
pub(super) struct Side {
    /// Index among the servers.
    pub server: usize,
    pub name: String,
    pub ring: Ring,
    /// Lines that leave over TCP before each slice, so that each finds the server as it was.
    pub before: Vec<u8>,
    window: Option<usize>,
    pub rounds: Vec<Round>,
}

/// Result of a slice.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub tally: Tally,
    pub usage: Usage,
}

impl Round {
    fn per_core_second(&self) -> f64 {
        self.tally.gets as f64 / self.usage.busy_s
    }

    fn by_thread_time(&self) -> f64 {
        self.tally.gets as f64 / self.usage.threads_s
    }

    pub fn requests_per_second(&self) -> f64 {
        self.tally.answered() as f64 / self.tally.elapsed_s
    }
}

impl Side {
    pub fn new(server: usize, name: &str, ring: Ring) -> Self {
        Self { server, name: name.to_owned(), ring, before: Vec::new(), window: None, rounds: Vec::new() }
    }

    /// A slice of the highest rate that this latency allows.
    pub fn slice(&mut self, server: &mut Server, duration: Duration) -> Result<()> {
        rest();
        server.process.resume();
        let measured = self.measure(server, duration);
        server.process.pause();
        self.rounds.push(measured?);
        Ok(())
    }

    fn measure(&mut self, server: &mut Server, duration: Duration) -> Result<Round> {
        self.ring.renew(server.terms()?);
        let window = self.find_window(server, duration / 8)?;
        let mut tries = 0;
        loop {
            server.send_quietly(&self.before)?;
            let before = server.meter.read()?;
            let pace = Pace::Closed(window);
            let tally = server.client.run(&mut self.ring, pace, duration)?;
            let usage = server.meter.since(&before)?;
            tries += 1;
            // Otherwise something else has had the core for a while: once more.
            let is_lossy = tally.lost_ratio() > 0.02 || tally.gets == 0;
            if !is_lossy && (tally.mean_of_all_us() <= LATENCY_US_MAX || tries == TRIES) {
                return Ok(Round { tally, usage });
            }
            if tries == TRIES {
                return Err(format!("{}: {tally:?}", server.name).into());
            }
        }
    }

    /// The largest window whose requests take a millisecond at most: what stands still between its
    /// turns warms up besides.
    fn find_window(&mut self, server: &mut Server, duration: Duration) -> Result<usize> {
        // A window that was too large at a bad moment may suit now.
        let mut window = self.window.map_or(WINDOW, |last| (last * 4).min(WINDOW));
        loop {
            for _ in 0..TRIES {
                let pace = Pace::Closed(window);
                let tally = server.client.run(&mut self.ring, pace, duration)?;
                if tally.mean_of_all_us() <= LATENCY_US_MAX * 0.9 || window == 1 {
                    self.window = Some(window);
                    return Ok(window);
                }
            }
            window /= 2;
        }
    }

    pub fn per_core_second(&self) -> Vec<f64> {
        self.rounds.iter().map(Round::per_core_second).collect()
    }

    /// GETs per second of CPU time of the server's threads, by round.
    pub fn by_thread_time(&self) -> Vec<f64> {
        self.rounds.iter().map(Round::by_thread_time).collect()
    }

    /// Requests per second, by round.
    pub fn peaks(&self) -> Vec<f64> {
        self.rounds.iter().map(Round::requests_per_second).collect()
    }

    /// The share of the core's busy time that its threads have not had.
    pub fn other_work(&self) -> f64 {
        let share = |round: &Round| 1.0 - round.usage.threads_s / round.usage.busy_s;
        median(&self.rounds.iter().map(share).collect::<Vec<_>>())
    }

    /// Enters what is to be known of it besides the ratio.
    pub fn report(&self, case: &str, report: &mut Measurement) {
        let case = format!("{case}/{}", self.name);
        let mut value = |metric: &str, unit: &str, of: &dyn Fn(&Round) -> f64| {
            let rounds: Vec<_> = self.rounds.iter().map(of).collect();
            report.value(&case, metric, unit, &rounds);
        };
        value(METRIC, UNIT, &Round::per_core_second);
        value("gets_by_thread_time", UNIT, &Round::by_thread_time);
        let all = &Round::requests_per_second;
        value("requests_per_second", "requests/s", all);
        value("mean_latency", "us", &|round| round.tally.mean_of_all_us());
        value("core_busy", "%", &|round| round.usage.utilisation() * 100.0);
        value("lost", "%", &|round| round.tally.lost_ratio() * 100.0);
        value("hits", "% of GETs", &|round| round.tally.hit_ratio() * 100.0);
        value("gets", "% of requests", &|round| {
            round.tally.of(Kind::Get) as f64 / round.tally.answered() as f64 * 100.0
        });
    }
}

/// Measures all sides in turns.
pub(super) fn measure(
    case: &str,
    servers: &mut [Server],
    sides: &mut [Side],
    (rounds, duration): (usize, Duration),
) -> Result<()> {
    for round in 0..rounds {
        eprint!("\r{case}, round {} of {rounds}   ", round + 1);
        for side in sides.iter_mut() {
            side.slice(&mut servers[side.server], duration)?;
        }
    }
    eprintln!();
    Ok(())
}
