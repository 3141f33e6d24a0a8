//! What has happened to the frames of a port.

use super::NotTaken;

/// What has happened to the frames of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounters {
    /// Bursts that were not empty.
    pub bursts: u64,
    /// Frames that arrived.
    pub frames: u64,
    /// Those of them that were datagrams for us.
    pub datagrams: u64,
    /// Frames of other protocols, for other addresses or ports.
    pub not_ours: u64,
    /// Fragments; dropped.
    pub fragments: u64,
    /// Frames with IPv4 options or IPv6 extension headers; dropped.
    pub options: u64,
    /// Frames whose lengths are wrong; dropped.
    pub bad_lengths: u64,
    /// Frames whose checksums are wrong; dropped.
    pub bad_checksums: u64,
    /// Frames from addresses that nobody has; dropped.
    pub bad_sources: u64,
    /// Replies that left in the frame of their request.
    pub reused: u64,
    /// Datagrams that left in a frame of their own: there was no room behind the request, or it
    /// came from elsewhere.
    pub copied: u64,
    /// Datagrams for which there was no frame.
    pub no_frame: u64,
    /// Questions for our addresses, and echo requests, that were answered; they count in
    /// [`Self::not_ours`] as well.
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
