//! memcached's protocols in datagrams (`-U`): a frame in front, a session behind it.
//!
//! ```text
//!  port.rs     a worker's sockets: a burst in, a burst out
//!  answer.rs     one datagram: a session of its own, its reply cut into numbered datagrams
//! ```
//!
//! | file | what |
//! |---|---|
//! | `allow.rs` | whose datagrams are looked at |
//! | `counters.rs` | what happened |
//!
//! A datagram is a whole conversation: nothing is kept between two of them. Every worker has a socket
//! of its own on the same port (`SO_REUSEPORT`, the kernel spreads clients over them), and any worker
//! serves any key.

mod allow;
mod answer;
mod counters;
mod port;
#[cfg(test)]
mod tests;

pub use allow::AllowList;
#[cfg(test)]
pub(crate) use answer::{Answer, answer};
pub use counters::UdpCounters;
pub use port::{UdpPort, UdpSockets};

use std::sync::atomic::{AtomicU16, Ordering};

/// What the workers share of it.
#[derive(Debug)]
pub struct UdpShared {
    /// One of each per worker; that worker alone writes it.
    pub counters: Box<[UdpCounters]>,
    port: AtomicU16,
}

impl UdpShared {
    /// For so many workers.
    pub fn new(workers: usize) -> Self {
        Self { counters: (0..workers).map(|_| UdpCounters::default()).collect(), port: AtomicU16::new(0) }
    }

    /// The first UDP port that is listened on.
    pub fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    /// Notes the first UDP port.
    pub fn set_port(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }
}
