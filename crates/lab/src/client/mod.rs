//! A closed-loop client of memcached's text protocol: one thread, many connections, each with a
//! fixed number of requests in flight; every reply is checked against its key.

mod connection;
mod request;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

pub(crate) use connection::Connection;
pub(crate) use request::{KEY_BYTES_MAX, Mix, Workload};

use crate::Result;

/// What a slice of load did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Keys got or set.
    pub operations: u64,
    pub misses: u64,
    /// Time from sending a pipeline to its last reply, in nanoseconds, one per pipeline.
    pub latency_ns: Vec<u32>,
    pub elapsed: Duration,
}

impl Tally {
    /// A quantile of the latencies, in microseconds.
    pub fn latency_us(&mut self, quantile: f64) -> f64 {
        if self.latency_ns.is_empty() {
            return f64::NAN;
        }
        let at = ((self.latency_ns.len() - 1) as f64 * quantile) as usize;
        let (_, value, _) = self.latency_ns.select_nth_unstable(at);
        f64::from(*value) / 1000.0
    }
}

/// Connections to one server with one workload.
pub(crate) struct Client {
    epoll: Epoll,
    connections: Vec<Connection>,
}

impl Client {
    pub fn connect(server: SocketAddr, connections: usize, workload: &Workload) -> Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut client = Self {
            epoll,
            connections: Vec::with_capacity(connections),
        };
        for number in 0..connections {
            let connection = Connection::new(server, workload.clone(), number as u64)?;
            let event = EpollEvent::new(EpollFlags::EPOLLIN, number as u64);
            client.epoll.add(connection.stream(), event)?;
            client.connections.push(connection);
        }
        Ok(client)
    }

    /// Keeps every connection busy for `duration`, then waits for what is in flight.
    pub fn run(&mut self, duration: Duration) -> Result<Tally> {
        let end = Instant::now() + duration;
        self.run_while(|_, now| now < end)
    }

    /// The next operations of the workload, this many; with one connection and a multiple of
    /// its pipeline exactly so many.
    pub fn run_operations(&mut self, operations: u64) -> Result<Tally> {
        self.run_while(|tally, _| tally.operations < operations)
    }

    /// Sends on every connection, and again whenever one is complete and `more` says so.
    fn run_while(&mut self, more: impl Fn(&Tally, Instant) -> bool) -> Result<Tally> {
        let mut tally = Tally::default();
        let start = Instant::now();
        for connection in &mut self.connections {
            connection.send(start)?;
        }
        let mut busy = self.connections.len();
        let mut events = [EpollEvent::empty(); 64];
        while busy > 0 {
            let ready = self
                .epoll
                .wait(&mut events, EpollTimeout::from(10_000u16))?;
            if ready == 0 {
                return Err("no reply for ten seconds".into());
            }
            let now = Instant::now();
            for event in &events[..ready] {
                let connection = &mut self.connections[event.data() as usize];
                if !connection.receive(now, &mut tally)? {
                    continue;
                }
                if more(&tally, now) {
                    connection.send(now)?;
                } else {
                    busy -= 1;
                }
            }
        }
        tally.elapsed = start.elapsed();
        Ok(tally)
    }
}
