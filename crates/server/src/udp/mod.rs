//! memcached's protocols in datagrams (`-U`): a frame, then input of a session.
//!
//! ```text
//!  port.rs     a worker's sockets: a burst in, a burst out
//!  answer.rs     a datagram: a session of its own, its reply cut into numbered datagrams
//! ```
//!
//! A datagram is a whole conversation: nothing is kept between two datagrams. Every worker has its own socket
//! on the same port (`SO_REUSEPORT`: the kernel spreads clients over them), and serves any key.

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

/// State of UDP that workers share.
#[derive(Debug)]
pub struct UdpShared {
    /// Counters by worker, which alone writes its own.
    pub counters: Box<[UdpCounters]>,
    port: AtomicU16,
}

impl UdpShared {
    /// Makes the state for so many workers.
    pub fn new(workers: usize) -> Self {
        Self { counters: (0..workers).map(|_| UdpCounters::default()).collect(), port: AtomicU16::new(0) }
    }

    /// Returns the first UDP port.
    pub fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    /// Sets the first UDP port.
    pub fn set_port(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }
}
