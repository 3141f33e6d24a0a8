//! Counters of a client.

/// Number of requests from which on [`Counters::batch_sizes`] counts datagrams in its last entry.
pub const BATCH_SIZES_MAX: usize = 64;

/// Counters since the start of a client.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Accepted operations.
    pub submitted: u64,
    /// Ended operations, with any result.
    pub completed: u64,
    /// Operations refused because windows and buffers were full.
    pub pushed_back: u64,
    /// Sent datagrams of requests, including resent ones.
    pub sent: u64,
    /// Datagrams sent again after no reply had arrived.
    pub resent: u64,
    /// Received datagrams that ended something.
    pub received: u64,
    /// Replies to requests that were answered or had ended before.
    pub late: u64,
    /// Received datagrams that answer no request: dropped.
    pub bogus: u64,
    /// Operations that ended without a reply in time.
    pub timed_out: u64,
    /// Replies with "slow down", for a datagram or a request.
    pub slow_downs: u64,
    /// Reductions of a window.
    pub window_cuts: u64,
    /// Requests answered with "moved".
    pub moved: u64,
    /// Requests answered with "no room".
    pub no_room: u64,
    /// Requests answered with "unproven".
    pub unproven: u64,
    /// Directories that were read completely.
    pub directories: u64,
    /// Times that a server was declared dead.
    pub servers_lost: u64,
    /// Probes of addresses that a directory named.
    pub probes: u64,
    /// Interfaces of servers that answered a probe, and are used from then on.
    pub paths_found: u64,
    /// Interfaces that fell silent, and are not used until they answer a probe.
    pub paths_lost: u64,
    /// Datagrams by their number of requests, when first sent.
    pub batch_sizes: [u64; BATCH_SIZES_MAX + 1],
    /// The same datagrams by the number of requests that the client chose when it began to fill them.
    pub chosen_sizes: [u64; BATCH_SIZES_MAX + 1],
    /// Requests of these datagrams.
    pub gathered_requests: u64,
    /// Sum of the times from the submission of these requests to their first sending.
    pub gathering_ns: u64,
    /// Round trips that were measured.
    pub round_trips: u64,
    /// Sum of these round trips.
    pub round_trips_ns: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            submitted: 0,
            completed: 0,
            pushed_back: 0,
            sent: 0,
            resent: 0,
            received: 0,
            late: 0,
            bogus: 0,
            timed_out: 0,
            slow_downs: 0,
            window_cuts: 0,
            moved: 0,
            no_room: 0,
            unproven: 0,
            directories: 0,
            servers_lost: 0,
            probes: 0,
            paths_found: 0,
            paths_lost: 0,
            batch_sizes: [0; BATCH_SIZES_MAX + 1],
            chosen_sizes: [0; BATCH_SIZES_MAX + 1],
            gathered_requests: 0,
            gathering_ns: 0,
            round_trips: 0,
            round_trips_ns: 0,
        }
    }
}
