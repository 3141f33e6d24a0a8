//! Counters of datagrams, of one worker each.

use crate::telemetry::stats::Counter;

macro_rules! udp_counters {
    ($($(#[doc = $what:literal])* $name:ident,)*) => {
        /// The counters of one worker, which that worker alone writes.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct UdpCounters {
            $($(#[doc = $what])* pub $name: Counter,)*
        }

        impl UdpCounters {
            /// Calls with each name and the sum over workers.
            pub fn each_sum(workers: &[Self], mut visit: impl FnMut(&'static str, u64)) {
                $(visit(stringify!($name), workers.iter().map(|of| of.$name.get()).sum());)*
            }
        }
    };
}

udp_counters! {
    /// Datagrams that came.
    datagrams_received,
    /// Datagrams sent.
    datagrams_sent,
    /// Datagrams that the network did not take.
    datagrams_unsent,
    /// Datagrams from elsewhere than the allow-list says, or from a server's port: not looked at.
    not_allowed,
    /// Datagrams that are no request of one datagram.
    bad_frames,
    /// Requests that do not end where their datagram does.
    incomplete,
    /// Replies that were too long, and an error instead.
    too_long,
    /// Datagrams that asked for more than a turn has: the rest of their requests was refused.
    too_much,
    /// Datagrams that the kernel dropped because the socket's queue was full.
    dropped_by_kernel,
}
