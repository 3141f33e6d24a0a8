use super::NotTaken;

/// Counters of a port's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounters {
    /// Bursts with at least one frame.
    pub bursts: u64,
    /// Received frames.
    pub frames: u64,
    /// Received frames with a datagram for this port.
    pub datagrams: u64,
    /// Frames of other protocols, for other addresses or ports.
    pub not_ours: u64,
    /// Fragments; dropped.
    pub fragments: u64,
    /// Frames with IPv4 options or IPv6 extension headers; dropped.
    pub options: u64,
    /// Frames with wrong lengths; dropped.
    pub bad_lengths: u64,
    /// Frames with wrong checksums; dropped.
    pub bad_checksums: u64,
    /// Frames from addresses that no station can have; dropped.
    pub bad_sources: u64,
    /// Replies that left in the frame of their request.
    pub reused: u64,
    /// Datagrams that left in a frame of their own: the request's buffer had no room, or the
    /// datagram answers no request of the burst.
    pub copied: u64,
    /// Datagrams without a free frame; dropped.
    pub no_frame: u64,
    /// Answered neighbour requests for own addresses, and answered echo requests. They count in
    /// [`Self::not_ours`], too.
    pub neighbour_answers: u64,
}

impl FrameCounters {
    pub(super) const fn count(&mut self, why: NotTaken) {
        *match why {
            NotTaken::OtherProtocol => &mut self.not_ours,
            NotTaken::Fragment => &mut self.fragments,
            NotTaken::Options => &mut self.options,
            NotTaken::Length => &mut self.bad_lengths,
            NotTaken::Checksum => &mut self.bad_checksums,
            NotTaken::Source => &mut self.bad_sources,
        } += 1;
    }
}
