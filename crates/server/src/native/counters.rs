//! Counters of the native protocol, of one worker each.

use micanite_net::frames::FrameCounters;

use crate::telemetry::table::Counter;
use crate::telemetry::table::group::counter_group;

/// Places of the histogram of bursts: 1, 2, up to 4, up to 8, and so on.
pub const BURST_PLACES: usize = 10;

counter_group! {
    /// The counters of the native protocol, of one worker.
    NativeCounters {
        /// Datagrams that came from the network.
        datagrams_received,
        /// Datagrams sent.
        datagrams_sent,
        /// Datagrams that the network did not take.
        datagrams_unsent,
        /// Requests executed or refused, one by one.
        requests,
        /// Datagrams that the kernel, or the port around it, dropped because the queue was full.
        dropped_by_kernel,
        /// Datagrams of another protocol, too short, or of a kind that only servers send.
        not_ours,
        /// Datagrams that make no sense.
        bad_datagrams,
        /// Requests that make no sense: a write whose hash is wrong.
        bad_requests,
        /// Datagrams of another version.
        other_versions,
        /// Requests refused because the address was not proved.
        unproven,
        /// Requests whose value found no room.
        no_room,
        /// Directory requests.
        directories,
        /// Datagrams by a directory that is out of date.
        stale,
        /// Datagrams handed to the owner of their partition.
        forwarded,
        /// Datagrams for an owner at another interface than the one they came by.
        crossed,
        /// Datagrams that other workers handed over.
        forwarded_in,
        /// Datagrams that could not be handed over: the ring was full.
        ring_full,
        /// Numbered requests that were executed already and answered from memory.
        answered_again,
        /// Numbered requests of which nothing is known any more.
        forgotten,
        /// Requests of a turn that had moved as much as it may within the memory: not executed, and told to
        /// slow down.
        turned_away,
    }
    /// Bursts by their length in datagrams: place `i` counts those of at most `2^i` that are longer than
    /// `2^(i-1)`; the last counts what is longer as well.
    pub bursts: [Counter; BURST_PLACES],
}

counter_group! {
    /// Counters of one worker's queue of a port around the kernel.
    FrameStats {
        /// Frames that arrived.
        frames_received,
        /// Frames of other protocols, for other addresses or ports.
        frames_not_ours,
        /// Fragments.
        frames_fragments,
        /// Frames with IPv4 options or IPv6 extension headers.
        frames_options,
        /// Frames whose lengths are wrong.
        frames_bad_lengths,
        /// Frames whose checksums are wrong.
        frames_bad_checksums,
        /// Frames from addresses that nobody has.
        frames_bad_sources,
        /// Questions for our Ethernet address, and echo requests, that were answered here.
        neighbour_answers,
        /// Frames that were lost because the queue was full.
        frames_lost,
        /// Replies that left in the frame of their request.
        replies_reused,
        /// Replies in a frame of their own: no room behind the request, or it was handed over.
        replies_copied,
        /// Replies for which there was no frame.
        replies_no_frame,
        /// Frames that the queue had no room for when they were to leave.
        replies_unsent,
        /// 1 once the queue is of no use any more.
        failed,
    }
}

impl FrameStats {
    /// Takes over what the port and its queue have counted.
    #[inline]
    pub fn set(&self, of: &FrameCounters, unsent: u64) {
        self.frames_received.set(of.frames);
        self.frames_not_ours.set(of.not_ours);
        self.frames_fragments.set(of.fragments);
        self.frames_options.set(of.options);
        self.frames_bad_lengths.set(of.bad_lengths);
        self.frames_bad_checksums.set(of.bad_checksums);
        self.frames_bad_sources.set(of.bad_sources);
        self.neighbour_answers.set(of.neighbour_answers);
        self.replies_reused.set(of.reused);
        self.replies_copied.set(of.copied);
        self.replies_no_frame.set(of.no_frame);
        self.replies_unsent.set(unsent);
    }
}

impl NativeCounters {
    /// Counts a burst that is not empty.
    #[inline]
    pub fn burst(&self, datagrams: usize) {
        let place = (usize::BITS - (datagrams - 1).leading_zeros()) as usize;
        self.bursts[place.min(BURST_PLACES - 1)].add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_counted_by_powers_of_two() {
        let counters = NativeCounters::default();
        for datagrams in [1, 2, 3, 4, 5, 32, 33, 512, 513, 100_000] {
            counters.burst(datagrams);
        }
        let counts: Vec<_> = counters.bursts.iter().map(Counter::get).collect();
        assert_eq!(counts, [1, 1, 2, 1, 0, 1, 1, 0, 0, 3]);
    }
}
