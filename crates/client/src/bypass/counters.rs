//! What has happened at a port.

use micanite_net::frames::FrameCounters;
use std::ops::{AddAssign, Sub};

macro_rules! port_counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// What has happened at one queue of a port, since it was opened.
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
    /// Frames that arrived.
    received_frames,
    /// Those of them that were datagrams for this port.
    received_datagrams,
    /// Those that were dropped: wrong lengths, checksums or sources, fragments, options.
    dropped_frames,
    /// Datagrams that were sent in a frame of their own.
    copied_frames,
    /// Datagrams that were sent in the frame that they answered; a client has none.
    reused_frames,
    /// Datagrams that had to wait because there was no frame for them.
    no_frame,
    /// Frames that were lost on arrival for want of room.
    lost_frames,
    /// Frames that could not be sent.
    unsent_frames,
    /// Datagrams that were sent by the kernel, to make a next hop known.
    sent_by_kernel,
    /// Datagrams that the kernel got in place of the port.
    received_by_kernel,
    /// Datagrams for another thread's queue, passed on to it.
    passed_on,
    /// Those of them for which there was no room; they are sent again.
    passed_lost,
}

impl PortCounters {
    /// With the counters of the frames.
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
