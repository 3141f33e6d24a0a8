//! What a caller may choose.

use micanite_wire::native::PAYLOAD_BYTES;
use std::net::SocketAddr;

const MS: u64 = 1_000_000;

/// How many requests travel in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// As many as the caller's own rate brings together within a tenth of a round trip.
    Adaptive,
    /// So many, or what there is when [`Options::linger_ns_max`] is over.
    Fixed(u16),
    /// As many as fit, or what there is when [`Options::linger_ns_max`] is over.
    Full,
}

/// What becomes of the keys of a server that does not reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDead {
    /// Their operations fail at once.
    FailFast,
    /// They go to the next server on the continuum until it is back.
    MoveOn,
}

/// Settings of a client. [`Options::default`] suits most.
#[derive(Clone, Debug)]
pub struct Options {
    /// An operation that has no reply by then ends as [`crate::Outcome::TimedOut`].
    pub deadline_ns: u64,
    /// The shortest wait before a datagram is sent again.
    pub resend_ns_min: u64,
    /// The longest.
    pub resend_ns_max: u64,
    /// Before a round trip was measured.
    pub resend_ns_first: u64,
    /// Datagrams that are filled, waiting or in the air at a time, over all servers: the memory of
    /// the client. At least 16, at most 32,768.
    pub datagrams: usize,
    /// The longest datagram; the server may want shorter ones.
    pub payload_bytes: usize,
    /// Datagrams in the air per server core, at first.
    pub window_first: u16,
    /// Datagrams in the air per server core, at most.
    pub window_max: u16,
    /// Requests per datagram.
    pub batch: Batch,
    /// The longest that a partly filled datagram waits for more requests.
    pub linger_ns_max: u64,
    /// The NUMA node whose cores answer plain gets under CREW; without it, the owner's.
    pub numa_node: Option<u16>,
    /// A server that has not replied to anything for so many deadlines is dead.
    pub dead_after_deadlines: u32,
    /// How long until a dead server is asked again.
    pub dead_for_ns: u64,
    /// What becomes of a dead server's keys.
    pub on_dead: OnDead,
    /// The least time between two fetches of a server's directory.
    pub refresh_ns_min: u64,
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
        }
    }
}

/// A server of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// Of its base port.
    pub address: SocketAddr,
    /// Its name on the continuum, `host:port` as all clients of the list write it. (libmemcached
    /// leaves out the port if it is 11211.)
    pub name: String,
    /// Its share of the keys, relative to the other servers.
    pub weight: u32,
}
