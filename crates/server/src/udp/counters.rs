//! Counters of datagrams, by worker.

use crate::telemetry::stats::Counter;

macro_rules! udp_counters {
    ($($(#[doc = $what:literal])* $name:ident,)*) => {
        /// Counters of a worker, which alone writes them.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct UdpCounters {
            $($(#[doc = $what])* pub $name: Counter,)*
        }

        impl UdpCounters {
            /// Calls `visit` with each name and the sum over workers.
            pub fn each_sum(workers: &[Self], mut visit: impl FnMut(&'static str, u64)) {
                $(visit(stringify!($name), workers.iter().map(|of| of.$name.get()).sum());)*
            }
        }
    };
}

udp_counters! {
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
