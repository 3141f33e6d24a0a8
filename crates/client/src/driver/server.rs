//! State of one server, and of each of its cores.

use super::directory::map::Map;
use super::directory::paths::{BASE, Path, ProbeBudget};
use super::ids::Ids;
use super::pace::Gathering;
use super::pace::Rtt;
use super::pace::Window;
use super::slots::{List, NONE};
use crate::options::Options;
use std::net::SocketAddr;

/// Consecutive missed replies after which a path to an interface is left.
const FAILURES_UNTIL_SILENT: u8 = 6;

/// A core of a server, with its waiting datagrams.
#[derive(Debug)]
pub(super) struct Lane {
    /// Destination of its datagrams.
    pub(super) address: SocketAddr,
    /// The core, or one that answers for it, at the address that the client was given.
    pub(super) fallback: SocketAddr,
    /// The core at its interface, if that was ever used.
    pub(super) direct: SocketAddr,
    /// The interface whose path it uses.
    pub(super) interface: u16,
    /// The server's proofs of the client's address, as the core sees it at [`Self::fallback`] and
    /// [`Self::direct`]: a NAT may choose another one for each port of a server. 0: not known.
    pub(super) fallback_cookie: u64,
    pub(super) direct_cookie: u64,
    /// Complete datagrams.
    pub(super) queue: List,
    /// Datagrams that accept requests: for the owner, and for shared gets.
    pub(super) filling: [u16; 2],
    /// The lane is in the list of lanes to look at.
    pub(super) ready: bool,
    pub(super) in_flight: u32,
    /// Datagrams of this lane, in any state.
    pub(super) held: u32,
    /// A datagram waited only because the window was full.
    pub(super) blocked: bool,
    pub(super) window: Window,
    pub(super) rtt: Rtt,
    /// Consecutive missed replies, and the time of the last miss.
    failures: u8,
    failed_at: u64,
    /// Time of the first of them.
    failing_since: u64,
    /// Interval of the last request, for [`Gathering::count`].
    pub(super) seen: u32,
}

impl Lane {
    fn new(address: SocketAddr, rtt: Rtt, options: &Options) -> Self {
        Self {
            address,
            fallback: address,
            direct: address,
            interface: BASE,
            fallback_cookie: 0,
            direct_cookie: 0,
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
            failing_since: 0,
            seen: 0,
        }
    }

    pub(super) fn allows(&self) -> bool {
        self.window.allows(self.in_flight)
    }

    /// Returns whether a reply may come from an address: requests may have left for either.
    pub(super) fn is_from(&self, from: SocketAddr) -> bool {
        let is = |own: SocketAddr| own.port() == from.port() && own.ip() == from.ip();
        is(self.address) || is(self.fallback) || is(self.direct)
    }

    /// Returns the interface whose path a reply has taken; `None` if that path was left since.
    pub(super) fn interface_from(&self, from: SocketAddr) -> Option<u16> {
        match from.ip() == self.fallback.ip() {
            true => Some(BASE),
            false => Some(self.interface).filter(|interface| *interface != BASE && from == self.address),
        }
    }

    /// Sends datagrams to another address from now on. Missed replies of the former one do not count there.
    pub(super) fn move_to(&mut self, now_ns: u64, address: SocketAddr, interface: u16) {
        if (self.address, self.interface) != (address, interface) {
            (self.address, self.interface) = (address, interface);
            self.direct_cookie = 0;
            (self.failures, self.failed_at) = (0, now_ns);
        }
    }

    /// Records a reply: earlier losses were not caused by a silent core.
    pub(super) fn hear(&mut self) {
        self.failures = 0;
    }

    /// Records a missed reply. Datagrams that were in flight together count as one failure.
    pub(super) fn miss(&mut self, now_ns: u64, sent_at: u64) {
        if self.failures == 0 {
            self.failing_since = now_ns;
        }
        if sent_at >= self.failed_at {
            self.failures = self.failures.saturating_add(1);
            self.failed_at = now_ns;
        }
    }

    /// Returns since when replies are missing, if they are so many that its path may lead nowhere.
    pub(super) fn silent_since(&self) -> Option<u64> {
        let is_silent = self.interface != BASE && self.failures >= FAILURES_UNTIL_SILENT;
        is_silent.then_some(self.failing_since)
    }

    /// Returns whether the core has not answered for half a deadline, and a datagram asks it already: others
    /// would wait for as long.
    #[inline]
    pub(super) fn is_unanswered(&self, now_ns: u64, deadline_ns: u64) -> bool {
        self.failures > 0
            && self.held > 0
            && now_ns.saturating_sub(self.failing_since) >= deadline_ns / 2
            && now_ns.saturating_sub(self.failed_at) <= deadline_ns
    }

    /// Returns the timeout of a datagram that has failed `backoff` times. The timeout doubles only
    /// while the core is silent. If the core answers others, a longer wait would only delay these.
    pub(super) fn resend_after_ns(&self, backoff: u8, options: &Options) -> u64 {
        let failures = backoff.min(self.failures);
        self.rtt.resend_after_ns(failures, options)
    }

    /// Returns how many requests a datagram should have, and how long to wait for them.
    pub(super) fn gather(&self, gathering: &Gathering) -> (u16, u64) {
        gathering.size(self.rtt.smoothed_ns())
    }
}

/// A fetch of a directory.
#[derive(Debug)]
pub(super) struct Fetch {
    /// Time of the next attempt.
    pub(super) due_at: u64,
    /// Time of the first attempt.
    pub(super) begun_at: u64,
    /// Time of the last attempt, 0 before the first.
    pub(super) sent_at: u64,
    pub(super) attempts: u32,
    pub(super) sequence: u32,
    pub(super) nonce: u64,
    /// Address of the last request.
    pub(super) asked: SocketAddr,
    /// The server has challenged the client since the last page.
    pub(super) challenged: bool,
    /// Entries that have arrived.
    pub(super) pages: Option<Map>,
}

/// State of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// The directory is not known yet.
    Unknown,
    Alive,
    /// Until the next attempt.
    Dead,
}

/// One server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) base: SocketAddr,
    pub(super) health: Health,
    /// Version of the server, if it differs.
    pub(super) version: Option<u8>,
    pub(super) map: Option<Map>,
    pub(super) lanes: Vec<Lane>,
    /// Paths to its interfaces.
    pub(super) paths: Vec<Path>,
    pub(super) probes: ProbeBudget,
    pub(super) ids: Ids,
    /// Proof of this client for the address that it was given, where no lane has its own.
    pub(super) cookie: u64,
    /// Time of the last reply from there.
    pub(super) base_heard_at: u64,
    /// A request with an id was answered, so the server knows this client.
    pub(super) introduced: bool,
    /// Datagram of the introduction that is in flight.
    pub(super) introduction: Option<u16>,
    pub(super) fetch: Option<Fetch>,
    pub(super) fetched_at: u64,
    /// Datagrams of all lanes.
    held: u32,
    /// Time of the last reply, or of the first request after idle time.
    pub(super) heard_at: u64,
    /// Time of the first reply after a silence that was longer than any wait between two attempts.
    pub(super) resumed_at: u64,
    /// Mean length of returned values.
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
            paths: Vec::new(),
            probes: ProbeBudget::default(),
            ids: Ids::new(),
            cookie: 0,
            base_heard_at: 0,
            introduced: false,
            introduction: None,
            fetch: None,
            fetched_at: 0,
            held: 0,
            heard_at: 0,
            resumed_at: 0,
            value_bytes: 0.0,
        }
    }

    /// Applies a new directory.
    pub(super) fn adopt(&mut self, now_ns: u64, map: Map, rtt: Rtt, options: &Options) {
        for (core, entry) in map.cores.iter().enumerate() {
            let address = SocketAddr::new(self.base.ip(), entry.port);
            match self.lanes.get_mut(core) {
                Some(lane) => lane.fallback = address,
                None => self.lanes.push(Lane::new(address, rtt, options)),
            }
        }
        self.ids.set_window(map.facts.ids_window);
        let old = self.map.replace(map);
        let is_same_server = old.zip(self.map.as_ref()).is_some_and(|(old, new)| new.follows(&old));
        if !is_same_server {
            for lane in &mut self.lanes {
                (lane.fallback_cookie, lane.direct_cookie) = (0, 0);
            }
        }
        if options.follow_interfaces {
            self.plan_paths(is_same_server, now_ns);
        }
        self.apply_paths(now_ns);
    }

    /// Notes a reply.
    pub(super) fn hear(&mut self, now_ns: u64, options: &Options) {
        let longest_wait_ns = options.resend_ns_max.max(options.resend_ns_min);
        if now_ns.saturating_sub(self.heard_at) > longest_wait_ns.saturating_mul(2) {
            self.resumed_at = now_ns;
        }
        self.heard_at = now_ns;
    }

    /// Counts another datagram of a lane.
    pub(super) fn hold(&mut self, now_ns: u64, core: u16) {
        if self.held == 0 {
            self.heard_at = self.heard_at.max(now_ns);
        }
        self.held += 1;
        self.lanes[usize::from(core)].held += 1;
    }

    /// Counts one datagram of a lane less.
    pub(super) fn let_go(&mut self, core: u16) {
        self.held -= 1;
        self.lanes[usize::from(core)].held -= 1;
    }

    /// Returns the longest datagram that both sides accept.
    pub(super) fn payload_bytes(&self, options: &Options) -> usize {
        let theirs = self.map.as_ref().map_or(usize::MAX, |map| map.facts.payload_bytes_max as usize);
        theirs.min(options.payload_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_replies_of_a_former_address_do_not_count_for_another_one() {
        let [base, other] = ["10.0.0.2:1000", "10.0.1.2:1001"].map(|address| address.parse().unwrap());
        let mut lane = Lane::new(base, Rtt::default(), &Options::default());
        for at in 1..u64::from(FAILURES_UNTIL_SILENT) {
            lane.miss(at, at);
        }
        lane.move_to(10, other, 1);
        // It was in flight to the former address.
        lane.miss(11, 9);
        for at in 12..11 + u64::from(FAILURES_UNTIL_SILENT) {
            lane.miss(at, at);
            assert_eq!(lane.silent_since(), None);
        }
        lane.miss(20, 20);
        assert_eq!(lane.silent_since(), Some(12));
    }
}
