//! What is known of one server, and of each of its cores.

use super::batch::Gathering;
use super::ids::Ids;
use super::map::Map;
use super::rtt::Rtt;
use super::slots::{List, NONE};
use super::window::Window;
use crate::options::Options;
use std::net::SocketAddr;

/// A core of a server: where datagrams wait for their turn.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) address: SocketAddr,
    /// Datagrams that are complete.
    pub(super) queue: List,
    /// The one that takes requests for the owner, and the one that takes shared gets.
    pub(super) filling: [u16; 2],
    /// In the list of lanes to look at.
    pub(super) ready: bool,
    pub(super) in_flight: u32,
    /// Datagrams of this lane, in whatever state.
    pub(super) held: u32,
    /// Something waited only because the window was full.
    pub(super) blocked: bool,
    pub(super) window: Window,
    pub(super) rtt: Rtt,
    /// Times in a row that replies failed to come, and when that was noticed last.
    failures: u8,
    failed_at: u64,
    /// See [`Gathering::count`].
    pub(super) seen: u32,
}

impl Lane {
    fn new(address: SocketAddr, rtt: Rtt, options: &Options) -> Self {
        Self {
            address,
            queue: List::EMPTY,
            filling: [NONE; 2],
            ready: false,
            in_flight: 0,
            held: 0,
            blocked: false,
            window: Window::new(options.window_first, options.window_max),
            rtt,
            failures: 0,
            failed_at: 0,
            seen: 0,
        }
    }

    pub(super) fn allows(&self) -> bool {
        self.window.allows(self.in_flight)
    }

    /// A reply has come: what did not come got lost by itself.
    pub(super) fn hear(&mut self) {
        self.failures = 0;
    }

    /// The reply to what was sent at a time did not come. What was in the air together fails once.
    pub(super) fn miss(&mut self, now_ns: u64, sent_at: u64) {
        if sent_at >= self.failed_at {
            self.failures = self.failures.saturating_add(1);
            self.failed_at = now_ns;
        }
    }

    /// How long to wait for the reply to a datagram that has failed so often. The wait doubles as long
    /// as the core is silent; while it answers others, patience would only hold these up.
    pub(super) fn resend_after_ns(&self, backoff: u8, options: &Options) -> u64 {
        let failures = backoff.min(self.failures);
        self.rtt.resend_after_ns(failures, options)
    }

    /// How many requests a datagram should have here, and how long to wait for them.
    pub(super) fn gather(&self, gathering: &Gathering) -> (u16, u64) {
        gathering.size(self.rtt.smoothed_ns())
    }
}

/// A directory that is being fetched.
#[derive(Debug)]
pub(super) struct Fetch {
    /// Not to be sent, or sent again, before.
    pub(super) due_at: u64,
    pub(super) sent_at: u64,
    pub(super) attempts: u8,
    pub(super) sequence: u32,
    pub(super) nonce: u64,
    /// Where it was asked last.
    pub(super) asked: SocketAddr,
    /// The server has asked for the cookie since the last page.
    pub(super) challenged: bool,
    /// The pages so far.
    pub(super) pages: Option<Map>,
}

/// Whether a server replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// The directory is not known yet.
    Unknown,
    Alive,
    /// Until it is asked again.
    Dead,
}

/// One server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) base: SocketAddr,
    pub(super) health: Health,
    /// Its version, when it is not ours.
    pub(super) version: Option<u8>,
    pub(super) map: Option<Map>,
    pub(super) lanes: Vec<Lane>,
    pub(super) ids: Ids,
    pub(super) cookie: u64,
    /// A request with an id has been answered: the server knows this client.
    pub(super) introduced: bool,
    /// One is on its way for just that.
    pub(super) introducing: bool,
    pub(super) fetch: Option<Fetch>,
    pub(super) fetched_at: u64,
    /// Datagrams of all its lanes.
    held: u32,
    /// When it was heard last, or began to owe a reply.
    pub(super) heard_at: u64,
    /// Mean length of the values that gets have returned.
    pub(super) value_bytes: f32,
}

impl Server {
    pub(super) fn new(base: SocketAddr) -> Self {
        Self {
            base,
            health: Health::Unknown,
            version: None,
            map: None,
            lanes: Vec::new(),
            ids: Ids::new(),
            cookie: 0,
            introduced: false,
            introducing: false,
            fetch: None,
            fetched_at: 0,
            held: 0,
            heard_at: 0,
            value_bytes: 0.0,
        }
    }

    /// Goes by a directory from now on.
    pub(super) fn adopt(&mut self, map: Map, rtt: Rtt, options: &Options) {
        for (core, entry) in map.cores.iter().enumerate() {
            let address = SocketAddr::new(self.base.ip(), entry.port);
            match self.lanes.get_mut(core) {
                Some(lane) => lane.address = address,
                None => self.lanes.push(Lane::new(address, rtt, options)),
            }
        }
        self.ids.set_window(map.facts.ids_window);
        self.map = Some(map);
    }

    /// A lane has one datagram more.
    pub(super) fn hold(&mut self, now_ns: u64, core: u16) {
        if self.held == 0 {
            self.heard_at = self.heard_at.max(now_ns);
        }
        self.held += 1;
        self.lanes[usize::from(core)].held += 1;
    }

    /// A lane has one datagram less.
    pub(super) fn let_go(&mut self, core: u16) {
        self.held -= 1;
        self.lanes[usize::from(core)].held -= 1;
    }

    /// The longest datagram that both sides take.
    pub(super) fn payload_bytes(&self, options: &Options) -> usize {
        let theirs = self
            .map
            .as_ref()
            .map_or(usize::MAX, |map| map.facts.payload_bytes_max as usize);
        theirs.min(options.payload_bytes)
    }
}
