//! Fetches directories page by page, and again when the generation changes.

pub(super) mod map;
pub(super) mod paths;

use super::pace::Rtt;
use super::server::{Fetch, Health, Server};
use super::{Driver, Place};
use map::Map;
use micanite_wire::native::{Directory, DirectoryRequest, Header, Kind, PAYLOAD_BYTES_MIN, Status};
use std::net::SocketAddr;

/// Attempts after which a server that never replied counts as dead, if the deadline of an operation has
/// passed too, or another server replies.
const ATTEMPTS_UNTIL_DEAD: u32 = 6;

impl Driver {
    /// Schedules a fetch of a server's directory, not before `at` nor before the minimum interval
    /// has passed. Does nothing during a fetch.
    pub(crate) fn fetch_directory(&mut self, server: u16, at: u64) {
        let state = &mut self.servers[usize::from(server)];
        if state.fetch.is_some() {
            return;
        }
        let earliest = match state.fetched_at {
            0 => 0,
            fetched_at => fetched_at.saturating_add(self.options.refresh_ns_min),
        };
        let due_at = at.max(earliest);
        state.fetch = Some(Fetch {
            due_at,
            begun_at: 0,
            sent_at: 0,
            attempts: 0,
            sequence: u32::from(server),
            nonce: 0,
            asked: state.base,
            challenged: false,
            pages: None,
        });
        self.directories_due_at = self.directories_due_at.min(due_at);
    }

    /// Sends the directory requests that are due; returns whether the closure accepted all of them.
    pub(super) fn transmit_directories(
        &mut self,
        now_ns: u64,
        send: &mut impl FnMut(SocketAddr, &[u8]) -> bool,
    ) -> bool {
        let mut next = u64::MAX;
        for number in 0..self.servers.len() {
            if !self.transmit_probes(now_ns, number, send) {
                return false;
            }
            next = next.min(self.servers[number].probes_due_at());
            let Some(fetch) = &self.servers[number].fetch else {
                continue;
            };
            if fetch.due_at <= now_ns && !self.ask(now_ns, number, send) {
                return false;
            }
            let fetch = self.servers[number].fetch.as_ref();
            next = next.min(fetch.map_or(u64::MAX, |fetch| fetch.due_at));
        }
        self.directories_due_at = next;
        true
    }

    fn ask(&mut self, now_ns: u64, number: usize, send: &mut impl FnMut(SocketAddr, &[u8]) -> bool) -> bool {
        // The server's limit is not known yet, and it may drop longer datagrams.
        let payload_bytes = self.options.payload_bytes.min(PAYLOAD_BYTES_MIN);
        let has_other = self.servers.iter().any(|server| server.health == Health::Alive);
        let server = &mut self.servers[number];
        let asked = server.port_to_ask();
        let Some(fetch) = &mut server.fetch else {
            return true;
        };
        if fetch.sent_at == 0 {
            fetch.begun_at = now_ns;
        }
        // A loaded server may take longer than all attempts, and the user said how long is too long. A list
        // of servers does not wait for one of them.
        let is_late = has_other || now_ns.saturating_sub(fetch.begun_at) >= self.options.deadline_ns;
        if fetch.attempts >= ATTEMPTS_UNTIL_DEAD && is_late && server.health == Health::Unknown {
            server.health = Health::Dead;
        }
        // The reply to an earlier attempt counts as well: it may take longer than the longest wait.
        let (sequence, nonce) = match fetch.attempts {
            0 => (fetch.sequence.wrapping_add(1 << 16), self.random.next()),
            _ => (fetch.sequence, fetch.nonce),
        };
        let header = Header {
            kind: Kind::DirectoryRequest,
            generation: fetch.pages.as_ref().map_or(0, |pages| pages.generation),
            sequence,
            client: self.client,
            echo: nonce,
            cookie: server.cookie,
            ..Header::REQUESTS
        };
        let first = fetch.pages.as_ref().map_or(0, Map::next);
        self.scratch_bytes.clear();
        self.scratch_bytes.resize(payload_bytes, 0);
        DirectoryRequest { first }.write(&header, &mut self.scratch_bytes);
        if !send(asked, &self.scratch_bytes) {
            return false;
        }
        let wait_ns = match server.health {
            Health::Dead => self.options.dead_for_ns,
            _ => {
                let failures = u8::try_from(fetch.attempts).unwrap_or(u8::MAX);
                Rtt::default().resend_after_ns(failures, &self.options)
            }
        };
        fetch.sequence = sequence;
        fetch.nonce = nonce;
        fetch.asked = asked;
        fetch.sent_at = now_ns;
        fetch.attempts = fetch.attempts.saturating_add(1);
        fetch.due_at = now_ns.saturating_add(self.random.jittered(wait_ns));
        true
    }

    /// Finds the fetch of a directory reply, if all its fields match.
    fn fetching(&mut self, header: &Header, from: SocketAddr) -> Option<usize> {
        let number = usize::from(header.sequence as u16);
        let server = self.servers.get(number);
        let fetch = server.and_then(|server| server.fetch.as_ref());
        let is_asked = |fetch: &&Fetch| {
            fetch.attempts > 0
                && fetch.sequence == header.sequence
                && fetch.nonce == header.echo
                && self.client == header.client
                && fetch.asked.ip() == from.ip()
        };
        let found = fetch.filter(is_asked).is_some();
        match header.client == self.client {
            _ if found => {}
            true => self.counters.late += 1,
            false => self.counters.bogus += 1,
        }
        found.then_some(number)
    }

    /// Processes a page.
    pub(super) fn on_directory(&mut self, now_ns: u64, header: &Header, bytes: &[u8], from: SocketAddr) {
        if self.on_probed(now_ns, header, bytes, from) {
            return;
        }
        let Some(number) = self.fetching(header, from) else {
            return;
        };
        if header.status == Status::Unproven {
            self.on_challenge(now_ns, number, header);
            return;
        }
        let page = Directory::read(bytes).filter(|_| header.status == Status::Ok);
        let Some((facts, first, entries)) = page else {
            self.counters.bogus += 1;
            return;
        };
        self.counters.received += 1;
        let server = &mut self.servers[number];
        server.version = None;
        server.hear(now_ns, &self.options);
        server.base_heard_at = now_ns;
        if header.cookie != 0 {
            server.cookie = header.cookie;
        }
        let Some(fetch) = &mut server.fetch else {
            return;
        };
        fetch.due_at = now_ns;
        fetch.challenged = false;
        self.directories_due_at = 0;
        let begun = fetch.pages.take();
        let same = |pages: &Map| pages.generation == header.generation && pages.facts == facts;
        let begun = begun.filter(same);
        let mut pages = match (begun, first) {
            (Some(pages), _) => pages,
            (None, 0) => Map::begin(header.generation, facts),
            (None, _) => return, // another generation: start at the first entry
        };
        if entries.is_empty() || !pages.extend(first, entries) {
            // Invalid page: start at the first entry after a while.
            self.counters.bogus += 1;
            fetch.due_at = now_ns.saturating_add(self.options.resend_ns_first);
            return;
        }
        if !pages.is_complete() {
            fetch.attempts = 0;
            fetch.pages = Some(pages);
            return;
        }
        // After several attempts the reply may be to any of them.
        let rtt_ns = (fetch.attempts == 1).then(|| now_ns.saturating_sub(fetch.sent_at));
        self.adopt(now_ns, number, pages, rtt_ns);
    }

    /// Requests the page again with the cookie that the server gave, because it requires a proved
    /// address. A second challenge for the same page waits as long as after a lost reply.
    fn on_challenge(&mut self, now_ns: u64, number: usize, header: &Header) {
        self.counters.received += 1;
        self.counters.unproven += 1;
        let server = &mut self.servers[number];
        server.hear(now_ns, &self.options);
        if header.cookie != 0 {
            server.cookie = header.cookie;
        }
        let Some(fetch) = &mut server.fetch else {
            return;
        };
        if !fetch.challenged && header.cookie != 0 {
            fetch.challenged = true;
            fetch.attempts -= 1;
            fetch.due_at = now_ns;
            self.directories_due_at = 0;
        }
    }

    fn adopt(&mut self, now_ns: u64, number: usize, mut pages: Map, rtt_ns: Option<u64>) {
        pages.finish();
        self.counters.directories += 1;
        let mut rtt = Rtt::default();
        rtt_ns.into_iter().for_each(|rtt_ns| rtt.measure(rtt_ns));
        let server = &mut self.servers[number];
        server.fetch = None;
        server.fetched_at = now_ns.max(1);
        server.health = Health::Alive;
        server.adopt(now_ns, pages, rtt, &self.options);
        self.directories_due_at = self.directories_due_at.min(server.probes_due_at());
        let lanes = server.lanes.len();
        self.share_datagrams();
        // Datagrams for removed cores still have to leave, so their lanes stay.
        for core in 0..lanes as u16 {
            self.wake(Place { server: number as u16, core });
        }
    }

    /// Handles a server that replies in another version of the protocol.
    pub(super) fn on_other_version(&mut self, now_ns: u64, header: &Header, version: u8, from: SocketAddr) {
        let Some(number) = self.fetching(header, from) else {
            return;
        };
        let server = &mut self.servers[number];
        server.version = Some(version);
        server.health = Health::Dead;
        if let Some(fetch) = &mut server.fetch {
            fetch.due_at = now_ns.saturating_add(self.options.dead_for_ns);
        }
    }
}

impl Server {
    /// Returns the base port first, then the ports of the cores in turn, because one of them may be
    /// overloaded. All are at the address that the client was given: a core of another interface would name
    /// other ports for this one.
    fn port_to_ask(&self) -> SocketAddr {
        let attempts = self.fetch.as_ref().map_or(0, |fetch| fetch.attempts);
        let core = (attempts / 2) as usize % self.lanes.len().max(1);
        match (attempts % 2, self.lanes.get(core)) {
            (1, Some(lane)) => lane.fallback,
            _ => self.base,
        }
    }
}
