//! Options of a client.

use micanite_wire::native::{PAYLOAD_BYTES, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN};
use std::net::SocketAddr;

const MS: u64 = 1_000_000;

/// Number of requests per datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// As many as the caller's own rate brings together within a tenth of a round trip.
    Adaptive,
    /// This number, or fewer when [`Options::linger_ns_max`] is over.
    Fixed(u16),
    /// As many as fit, or fewer when [`Options::linger_ns_max`] is over.
    Full,
}

/// Treatment of the keys of a dead server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDead {
    /// Their operations fail at once.
    FailFast,
    /// They go to the next server on the continuum until the server is back.
    MoveOn,
}

/// Longest deadline: for so long the server excludes that a numbered request is executed twice
/// (`docs/protocol.md`, "Once").
pub(crate) const DEADLINE_NS_MAX: u64 = 60_000_000_000;

/// Shortest time until a server that failed is tried again, over every link: without one, a client would
/// flood the server, and spin.
pub(crate) const DEAD_FOR_NS_MIN: u64 = 10 * MS;

/// Settings of a client. [`Options::default`] suits most.
#[derive(Clone, Debug)]
pub struct Options {
    /// Deadline of an operation, at most 60 s. Without a reply by then it ends as
    /// [`crate::Outcome::TimedOut`].
    pub deadline_ns: u64,
    /// Shortest wait before a datagram is sent again.
    pub resend_ns_min: u64,
    /// Longest wait before a datagram is sent again.
    pub resend_ns_max: u64,
    /// Wait before a round trip was measured.
    pub resend_ns_first: u64,
    /// Number of datagrams that are filled, waiting or in flight at a time, over all servers: the
    /// memory of the client. At least 16, at most 32,768.
    pub datagrams: usize,
    /// Longest datagram, from 1,232 to 65,507 bytes. The server may have a lower limit.
    pub payload_bytes: usize,
    /// Initial number of datagrams in flight per server core.
    pub window_first: u16,
    /// Maximum number of datagrams in flight per server core.
    pub window_max: u16,
    /// Number of requests per datagram.
    pub batch: Batch,
    /// Longest wait of a partly filled datagram for more requests.
    pub linger_ns_max: u64,
    /// NUMA node whose cores answer plain gets under CREW; by default the owner's.
    pub numa_node: Option<u16>,
    /// Number of deadlines without any reply after which a server counts as dead.
    pub dead_after_deadlines: u32,
    /// Time until a dead server is tried again, at least 10 ms.
    pub dead_for_ns: u64,
    /// Treatment of a dead server's keys.
    pub on_dead: OnDead,
    /// Shortest time between two fetches of a server's directory.
    pub refresh_ns_min: u64,
    /// Sends requests to other addresses that a server's directory names, once they have answered a probe.
    /// Otherwise all go to the address that the client was given.
    pub follow_interfaces: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline_ns: 2_000 * MS,
            resend_ns_min: 2 * MS,
            resend_ns_max: 200 * MS,
            resend_ns_first: 50 * MS,
            datagrams: 1024,
            payload_bytes: PAYLOAD_BYTES,
            window_first: 16,
            window_max: 512,
            batch: Batch::Adaptive,
            linger_ns_max: MS / 5,
            numa_node: None,
            dead_after_deadlines: 1,
            dead_for_ns: 1_000 * MS,
            on_dead: OnDead::FailFast,
            refresh_ns_min: 10 * MS,
            follow_interfaces: true,
        }
    }
}

impl Options {
    /// Returns the longest datagram within its bounds.
    pub(crate) fn bounded_payload_bytes(&self) -> usize {
        self.payload_bytes.clamp(PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX)
    }

    /// Returns the deadline of an operation within its bound.
    pub(crate) fn bounded_deadline_ns(&self) -> u64 {
        self.deadline_ns.min(DEADLINE_NS_MAX)
    }
}

/// A server of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// Address of its base port.
    pub address: SocketAddr,
    /// Name on the continuum, `host:port` as all clients of the list write it. (libmemcached drops
    /// the port if it is 11211.)
    pub name: String,
    /// Share of the keys, relative to the other servers.
    pub weight: u32,
}
