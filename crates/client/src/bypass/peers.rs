//! Headers of datagrams to each server, and checks that they are still valid.

use super::hops::Hops;
use micanite_net::frames::{FramePort, Header};
use std::net::{IpAddr, SocketAddr};

/// Interval between checks of headers, and time after which a server counts as silent.
const CHECK_EVERY_NS: u64 = 250_000_000;
/// Interval between checks of a server whose next hop is unknown.
const CHECK_SLOW_EVERY_NS: u64 = 5_000_000;
/// Maximum number of addresses with headers, which is more than the cores of all servers of a list.
const HEADERS_MAX: usize = 16_384;

/// Path of a datagram.
#[derive(Debug)]
pub(super) enum Way<'p> {
    /// In a frame with these headers.
    Frame(&'p Header),
    /// Over the slow path, which makes the next hop known.
    Slowly,
    /// Not looked up yet.
    Unknown,
}

/// A server, by its IP address.
#[derive(Debug)]
struct Peer {
    ip: IpAddr,
    pace: Pace,
    check_at_ns: u64,
    /// State since the last check.
    sent: bool,
    heard: bool,
    /// Headers for each port that was used, in order.
    headers: Vec<(SocketAddr, Header)>,
    /// One of its ports.
    probe: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Fast,
    /// Until its next hop is known.
    Unknown,
    /// Until it replies.
    Silent,
}

/// All servers that were sent datagrams.
#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: Vec<Peer>,
    /// Peer of the last datagram.
    last: usize,
    check_at_ns: u64,
    headers: usize,
}

impl Peers {
    /// Returns the path of a datagram.
    #[inline]
    pub fn way(&mut self, to: SocketAddr) -> Way<'_> {
        let Some(peer) = self.find(to.ip()) else {
            return Way::Unknown;
        };
        let peer = &mut self.peers[peer];
        peer.sent = true;
        if peer.pace != Pace::Fast {
            return Way::Slowly;
        }
        match peer.headers.binary_search_by(|(port, _)| port.cmp(&to)) {
            Ok(at) => Way::Frame(&peer.headers[at].1),
            Err(_) => Way::Unknown,
        }
    }

    #[inline]
    fn find(&mut self, ip: IpAddr) -> Option<usize> {
        if self.peers.get(self.last).is_none_or(|peer| peer.ip != ip) {
            self.last = self.peers.iter().position(|peer| peer.ip == ip)?;
        }
        Some(self.last)
    }

    /// Records a datagram from an address.
    #[inline]
    pub fn hear(&mut self, from: SocketAddr) {
        if let Some(peer) = self.find(from.ip()) {
            let peer = &mut self.peers[peer];
            peer.heard = true;
            if peer.pace != Pace::Fast {
                (peer.check_at_ns, self.check_at_ns) = (0, 0);
            }
        }
    }

    /// Looks up the headers for an unknown address.
    pub fn look_up<Q>(
        &mut self,
        port: &mut FramePort<Q>,
        hops: &mut impl Hops<Q>,
        (to, now_ns): (SocketAddr, u64),
    ) {
        if self.headers >= HEADERS_MAX {
            // Servers that change their ports all the time.
            self.peers.clear();
            self.headers = 0;
        }
        let header = hops.header(port, to, now_ns);
        let known = self.find(to.ip()).unwrap_or_else(|| {
            self.peers.push(Peer {
                ip: to.ip(),
                pace: Pace::Fast,
                check_at_ns: now_ns + CHECK_EVERY_NS,
                sent: true,
                heard: false,
                headers: Vec::new(),
                probe: to,
            });
            self.peers.len() - 1
        });
        let peer = &mut self.peers[known];
        match header {
            Some(header) => {
                let place = peer.headers.binary_search_by(|(port, _)| port.cmp(&to));
                if let Err(at) = place {
                    peer.headers.insert(at, (to, header));
                    self.headers += 1;
                }
            }
            None => peer.slow_down(Pace::Unknown, now_ns),
        }
        self.check_at_ns = self.check_at_ns.min(peer.check_at_ns);
    }

    /// Returns whether [`Self::check`] is due.
    #[inline]
    pub const fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.check_at_ns
    }

    /// Checks for silent servers, and whether headers are still valid.
    pub fn check<Q>(&mut self, port: &mut FramePort<Q>, hops: &mut impl Hops<Q>, now_ns: u64) {
        self.check_at_ns = u64::MAX;
        for peer in &mut self.peers {
            if now_ns >= peer.check_at_ns {
                peer.check(port, hops, now_ns);
            }
            self.check_at_ns = self.check_at_ns.min(peer.check_at_ns);
        }
        self.headers = self.peers.iter().map(|peer| peer.headers.len()).sum();
    }
}

impl Peer {
    fn check<Q>(&mut self, port: &mut FramePort<Q>, hops: &mut impl Hops<Q>, now_ns: u64) {
        let is_silent = self.sent && !self.heard;
        let header = hops.header(port, self.probe, now_ns);
        let pace = match (self.pace, &header) {
            (_, None) => Pace::Unknown,
            (Pace::Fast, _) if is_silent && hops.suspect_move(port, self.probe) => Pace::Silent,
            (Pace::Silent, _) if !self.heard => Pace::Silent,
            _ => Pace::Fast,
        };
        let was_sent = self.sent;
        (self.sent, self.heard) = (false, false);
        match (pace, header) {
            (Pace::Fast, Some(header)) => {
                let is_same = self.headers.iter().any(|(to, known)| *to == self.probe && *known == header);
                if !is_same {
                    self.headers.clear();
                    self.headers.push((self.probe, header));
                }
                self.pace = Pace::Fast;
                self.check_at_ns = now_ns + CHECK_EVERY_NS;
            }
            (pace, _) => {
                self.slow_down(pace, now_ns);
                if !was_sent {
                    // Nobody waits for it, as for an address that only a probe was sent to.
                    self.check_at_ns = now_ns + CHECK_EVERY_NS;
                }
            }
        }
    }

    fn slow_down(&mut self, pace: Pace, now_ns: u64) {
        self.headers.clear();
        self.pace = pace;
        self.check_at_ns = now_ns + CHECK_SLOW_EVERY_NS;
    }
}
