//! Counters of a port.

use micanite_net::frames::FrameCounters;
use std::ops::{AddAssign, Sub};

macro_rules! port_counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// Counters of one queue of a port, since it was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct PortCounters {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl AddAssign for PortCounters {
            fn add_assign(&mut self, other: Self) {
                $(self.$name = self.$name.wrapping_add(other.$name);)+
            }
        }

        impl Sub for PortCounters {
            type Output = Self;

            fn sub(self, earlier: Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(earlier.$name),)+ }
            }
        }
    };
}

port_counters! {
    /// Received frames.
    received_frames,
    /// Received frames that held datagrams for this port.
    received_datagrams,
    /// Dropped frames: wrong lengths, checksums or sources, fragments, options.
    dropped_frames,
    /// Datagrams sent in a frame of their own.
    copied_frames,
    /// Datagrams sent in the frame that they answered; always 0 for a client.
    reused_frames,
    /// Datagrams that had to wait for a frame.
    no_frame,
    /// Frames lost at reception because of a lack of room.
    lost_frames,
    /// Frames that could not be sent.
    unsent_frames,
    /// Datagrams sent by the kernel, to resolve a next hop.
    sent_by_kernel,
    /// Datagrams received by the kernel instead of the port.
    received_by_kernel,
    /// Datagrams forwarded to another thread's queue.
    passed_on,
    /// Datagrams for another thread's queue that had no room there. They are sent again.
    passed_lost,
}

impl PortCounters {
    /// Adds the counters of the frames.
    pub(super) const fn with_frames(mut self, frames: &FrameCounters) -> Self {
        self.received_frames = frames.frames;
        self.received_datagrams = frames.datagrams;
        self.dropped_frames = frames.fragments
            + frames.options
            + frames.bad_lengths
            + frames.bad_checksums
            + frames.bad_sources;
        self.copied_frames = frames.copied;
        self.reused_frames = frames.reused;
        self
    }
}
