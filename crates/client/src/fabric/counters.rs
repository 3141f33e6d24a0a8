//! Counters of a client over a fabric.

use micanite_chunks::reader::Refusal;

/// Names of the rules by which a read is refused, in the order of [`FabricCounters::refused`].
pub const REFUSALS: [&str; 10] = [
    "version",
    "incarnation",
    "void",
    "lengths",
    "key",
    "expired",
    "flushed",
    "checksum",
    "slow",
    "second_header",
];

/// Counters since the start of a client, over all its servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricCounters {
    /// Accepted operations.
    pub submitted: u64,
    /// Ended operations, with any result.
    pub completed: u64,
    /// Operations refused because buffers were full.
    pub pushed_back: u64,
    /// Operations that ended without a reply in time.
    pub timed_out: u64,
    /// Gets that a one-sided read answered.
    pub gets_one_sided: u64,
    /// Gets that a message answered.
    pub gets_two_sided: u64,
    /// One-sided reads that were refused, by the rules of [`REFUSALS`].
    pub refused: [u64; REFUSALS.len()],
    /// Reads that were done once more after a refusal.
    pub retries: u64,
    /// Reads that took longer than a lease, and were given up.
    pub reads_given_up: u64,
    /// Second reads of a header, of long values.
    pub second_headers: u64,
    /// Entries that replies brought.
    pub entries_replied: u64,
    /// Entries that pushes brought.
    pub entries_pushed: u64,
    /// Bytes of pushes.
    pub push_bytes: u64,
    /// Entries that lead out of the cache area: not kept.
    pub entries_bogus: u64,
    /// Messages with the history of one-sided reads.
    pub histories: u64,
    /// Records in these messages.
    pub history_records: u64,
    /// Reads that were not noted, because the table was full.
    pub history_dropped: u64,
    /// Messages of requests, including resent ones.
    pub messages: u64,
    /// Requests in these messages.
    pub requests: u64,
    /// Requests that were sent once more because their reply was lost.
    pub resent: u64,
    /// Connections after the first one of each server.
    pub reconnects: u64,
    /// Requests answered with "slow down" or "moved".
    pub slow_downs: u64,
    /// Requests answered with "no room".
    pub no_room: u64,
    /// Messages that answer nothing, or that are malformed: dropped.
    pub bogus: u64,
    /// Times that a server was declared dead.
    pub servers_lost: u64,
}

impl FabricCounters {
    /// Counts a refused read.
    pub(super) fn count_refusal(&mut self, refusal: Refusal) {
        self.refused[place(refusal)] += 1;
    }
}

const fn place(refusal: Refusal) -> usize {
    match refusal {
        Refusal::Version => 0,
        Refusal::Incarnation => 1,
        Refusal::Void => 2,
        Refusal::Lengths => 3,
        Refusal::Key => 4,
        Refusal::Expired => 5,
        Refusal::Flushed => 6,
        Refusal::Checksum => 7,
        Refusal::Slow => 8,
        Refusal::SecondHeader => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that the last refusal has the last name.
    #[test]
    fn each_refusal_has_a_name() {
        let mut counters = FabricCounters::default();
        counters.count_refusal(Refusal::SecondHeader);
        counters.count_refusal(Refusal::Checksum);
        assert_eq!(counters.refused, [0, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
        assert_eq!(REFUSALS[place(Refusal::Checksum)], "checksum");
    }
}
