//! Counters of datagrams, by worker.

use crate::telemetry::table::Counter;
use crate::telemetry::table::group::counter_group;

counter_group! {
    /// Counters of a worker's datagrams of memcached's protocols.
    UdpCounters {
        /// Datagrams received.
        datagrams_received,
        /// Datagrams sent.
        datagrams_sent,
        /// Datagrams that the network did not take.
        datagrams_unsent,
        /// Datagrams from outside of the allow-list, or from a server's port.
        not_allowed,
        /// Datagrams that are not a request of one datagram.
        bad_frames,
        /// Requests that do not end where their datagram does.
        incomplete,
        /// Replies that were too long, replaced by an error.
        too_long,
        /// Datagrams with more requests than a turn has. The rest was refused.
        too_much,
        /// Datagrams that the kernel dropped because the socket's queue was full.
        dropped_by_kernel,
    }
}

impl UdpCounters {
    /// Calls with each name and the sum over workers.
    pub fn each_sum(workers: &[Self], mut visit: impl FnMut(&'static str, u64)) {
        let mut sums = [0; Self::HELP.len()];
        for of in workers {
            let mut place = sums.iter_mut();
            of.each(|_, count| place.next().into_iter().for_each(|sum| *sum += count));
        }
        Self::HELP.iter().zip(sums).for_each(|((name, _), sum)| visit(name, sum));
    }
}
