//! What a client counts.

/// The last of [`Counters::batch_sizes`] counts datagrams of so many requests and more.
pub const BATCH_SIZES_MAX: usize = 64;

/// Counts since the start of a client.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Operations taken.
    pub submitted: u64,
    /// Operations that have ended, however.
    pub completed: u64,
    /// Operations refused because windows and buffers were full.
    pub pushed_back: u64,
    /// Datagrams of requests sent, the resent ones too.
    pub sent: u64,
    /// Datagrams sent again because no reply had come.
    pub resent: u64,
    /// Datagrams received that ended something.
    pub received: u64,
    /// Replies to what had been answered already, or given up.
    pub late: u64,
    /// Datagrams received that answer nothing that was asked: dropped.
    pub bogus: u64,
    /// Operations that ended without a reply in time.
    pub timed_out: u64,
    /// Replies that said "slow down", of a datagram or a request.
    pub slow_downs: u64,
    /// Times that a window was made smaller.
    pub window_cuts: u64,
    /// Requests answered with "moved".
    pub moved: u64,
    /// Requests answered with "no room".
    pub no_room: u64,
    /// Requests answered with "unproven".
    pub unproven: u64,
    /// Directories read completely.
    pub directories: u64,
    /// Times that a server was given up for a while.
    pub servers_lost: u64,
    /// Datagrams by their number of requests, when sent first.
    pub batch_sizes: [u64; BATCH_SIZES_MAX + 1],
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
            batch_sizes: [0; BATCH_SIZES_MAX + 1],
        }
    }
}
