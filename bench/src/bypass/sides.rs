//! Loads on servers, in turns, and what came of them.

use std::time::Duration;

use super::servers::Server;
use crate::Result;
use crate::generator::packets::Packets;
use crate::generator::tally::Tally;
use crate::harness::energy::Meters;
use crate::harness::system;

/// Datagrams in flight: what the rings of either medium hold without losses.
pub(super) const WINDOW: usize = 256;

/// One load on one server.
pub(super) struct Side {
    /// Index among the servers.
    pub server: usize,
    pub requests: Packets,
    /// Requests of each round per second, and per second that one of the CPUs was busy.
    pub per_second: Vec<f64>,
    pub per_cpu_second: Vec<f64>,
    /// Gigabits per second of its requests and of its replies, on an Ethernet.
    pub gigabits: [Vec<f64>; 2],
    /// Energy of a million requests, if there are meters.
    pub joules: Vec<f64>,
}

impl Side {
    pub fn new(server: usize, requests: Packets) -> Self {
        Self {
            server,
            requests,
            per_second: Vec::new(),
            per_cpu_second: Vec::new(),
            gigabits: [Vec::new(), Vec::new()],
            joules: Vec::new(),
        }
    }

    /// A slice of a closed loop.
    pub fn closed(&mut self, server: &mut Server, duration: Duration) -> Result<Tally> {
        let (requests, echoes) = (&mut self.requests, server.echoes);
        let tally = server.load.closed(requests, echoes, WINDOW, duration)?;
        tally.check(&server.name, self.requests.batch())?;
        Ok(tally)
    }

    /// Warms a server up that was paused: caches are cold, and it may wait for its core.
    pub fn warm_up(&mut self, server: &mut Server, duration: Duration) -> Result<()> {
        for _ in 0..20 {
            let (requests, echoes) = (&mut self.requests, server.echoes);
            let tally = server.load.closed(requests, echoes, WINDOW, duration)?;
            if tally.answered_datagrams > WINDOW as u64 {
                return Ok(());
            }
        }
        Err(format!("{} does not answer any more", server.name).into())
    }

    fn slice(&mut self, server: &mut Server, duration: Duration, cpus: &[usize]) -> Result<()> {
        server.process.resume();
        let measured = self.measure(server, duration, cpus);
        server.process.pause();
        measured
    }

    fn measure(&mut self, server: &mut Server, duration: Duration, cpus: &[usize]) -> Result<()> {
        self.warm_up(server, duration / 8)?;
        let meters = Meters::of_machine();
        let (before_s, energy) = (system::busy_s(cpus)?, meters.read());
        let tally = self.closed(server, duration)?;
        let joules = meters.joules_since(energy.as_ref());
        let busy_s = system::busy_s(cpus)? - before_s;
        self.per_second.push(tally.per_second());
        self.per_cpu_second.push(tally.succeeded as f64 / busy_s);
        for (all, gigabits) in self.gigabits.iter_mut().zip(tally.gigabits(&self.requests)) {
            all.push(gigabits);
        }
        self.joules.extend(joules.map(|joules| joules / (tally.succeeded as f64 / 1e6)));
        Ok(())
    }
}

/// Measures all sides in turns.
pub(super) fn measure(
    name: &str,
    servers: &mut [Server],
    sides: &mut [Side],
    (rounds, duration): (usize, Duration),
    cpus: &[usize],
) -> Result<()> {
    for round in 0..rounds {
        eprint!("\r{name}, round {} of {rounds}   ", round + 1);
        for side in sides.iter_mut() {
            side.slice(&mut servers[side.server], duration, cpus)?;
        }
    }
    eprintln!();
    Ok(())
}
