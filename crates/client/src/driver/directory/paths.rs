//! Paths to the interfaces of a server. The directory of a server with several interfaces names their
//! addresses. The client may not reach them, and the server may lie. So requests go to an address only after
//! it has answered a probe as the same server does; until then, and when it falls silent, they go to the
//! address that the client was given, where another core forwards them.

use super::map::Map;
use crate::driver::Driver;
use crate::driver::server::Server;
use micanite_wire::native::{Directory, DirectoryRequest, DirectoryWriter, Header, Kind, Status};
use std::net::{IpAddr, SocketAddr};

/// Number of no interface: the address that the client was given.
pub(in crate::driver) const BASE: u16 = u16::MAX;

/// Interfaces that a client considers.
const INTERFACES_MAX: usize = 64;
/// Addresses of an interface that it tries.
const CANDIDATES_MAX: usize = 4;
/// Probes of an address without an answer, until the next address is tried.
const ATTEMPTS_MAX: u8 = 3;
/// Wait after all addresses of an interface failed; it doubles with each round up to 64 times.
const ROUND_NS: u64 = 1_000_000_000;
const ROUND_DOUBLINGS_MAX: u32 = 6;
/// Probes of a server's addresses in a second, whatever its directories say.
const PROBES_PER_S: u16 = 128;
const SECOND_NS: u64 = 1_000_000_000;
/// Bytes of a probe.
const PROBE_BYTES: usize = DirectoryWriter::BYTES_MIN;

/// The path to the cores of one interface.
#[derive(Debug, Default)]
pub(in crate::driver) struct Path {
    /// Addresses of the interface, the best first; none if its cores are at the address that the client was
    /// given.
    candidates: Vec<IpAddr>,
    /// The one that is probed or used.
    at: usize,
    /// It has answered a probe.
    used: bool,
    /// The server's proof of the address that datagrams on this path come from.
    pub(in crate::driver) cookie: u64,
    /// Time of the last reply on it.
    heard_at: u64,
    /// UDP port of one of its cores.
    port: u16,
    probe: Probe,
}

#[derive(Debug)]
struct Probe {
    due_at: u64,
    attempts: u8,
    rounds: u32,
    nonce: u64,
    /// The server has asked for a proof since the last probe of this address.
    challenged: bool,
}

impl Default for Probe {
    fn default() -> Self {
        Self { due_at: u64::MAX, attempts: 0, rounds: 0, nonce: 0, challenged: false }
    }
}

/// Probes that a server may still cause.
#[derive(Debug, Default)]
pub(in crate::driver) struct ProbeBudget {
    left: u16,
    until: u64,
}

impl ProbeBudget {
    /// Takes a probe from the budget; otherwise returns when there are more.
    fn take(&mut self, now_ns: u64) -> Result<(), u64> {
        if now_ns >= self.until {
            *self = Self { left: PROBES_PER_S, until: now_ns.saturating_add(SECOND_NS) };
        }
        self.left = self.left.checked_sub(1).ok_or(self.until)?;
        Ok(())
    }
}

impl Path {
    /// Returns the address that is used, if one is.
    pub(in crate::driver) fn ip(&self) -> Option<IpAddr> {
        self.candidates.get(self.at).copied().filter(|_| self.used)
    }

    /// Returns the address to probe next. After the last one there is a pause.
    fn candidate(&mut self, now_ns: u64) -> Option<IpAddr> {
        if self.probe.attempts >= ATTEMPTS_MAX {
            (self.probe.attempts, self.probe.challenged) = (0, false);
            self.cookie = 0;
            self.at += 1;
        }
        if self.at >= self.candidates.len() {
            self.at = 0;
            let doublings = self.probe.rounds.min(ROUND_DOUBLINGS_MAX);
            self.probe.rounds += 1;
            self.probe.due_at = now_ns.saturating_add(ROUND_NS << doublings);
            return None;
        }
        Some(self.candidates[self.at])
    }
}

/// Returns the addresses of an interface that the client may try: of the family of the given address,
/// the most similar ones first.
fn candidates(map: &Map, interface: u16, base: IpAddr) -> Vec<IpAddr> {
    let its = map.addresses.iter().filter(|address| address.interface == interface);
    let mut its: Vec<IpAddr> = its.map(|address| address.ip).filter(|ip| may_be_tried(*ip, base)).collect();
    if its.contains(&base) {
        return Vec::new();
    }
    its.sort_by_key(|ip| std::cmp::Reverse(common_bits(*ip, base)));
    its.truncate(CANDIDATES_MAX);
    its
}

/// Returns whether a directory that was fetched from `base` may make the client send to `ip`.
fn may_be_tried(ip: IpAddr, base: IpAddr) -> bool {
    let is_of_link = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        // Without the number of the link it leads nowhere.
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let is_host = match ip {
        IpAddr::V4(ip) => !ip.is_broadcast(),
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_none(),
    };
    ip.is_ipv4() == base.is_ipv4()
        && is_host
        && !ip.is_unspecified()
        && !ip.is_multicast()
        && (!ip.is_loopback() || base.is_loopback())
        && (!is_of_link(ip) || ip.is_ipv4() && is_of_link(base))
}

fn common_bits(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

impl Server {
    /// Plans the paths of a new directory. Paths to the same addresses of the same server stay as they are.
    pub(in crate::driver) fn plan_paths(&mut self, is_same_server: bool, now_ns: u64) {
        let Some(map) = &self.map else {
            return;
        };
        let mut old = std::mem::take(&mut self.paths);
        let interfaces = map.places.iter().map(|place| usize::from(place.interface) + 1);
        let interfaces = interfaces.filter(|count| *count <= INTERFACES_MAX).max().unwrap_or(0);
        for interface in 0..interfaces as u16 {
            let candidates = candidates(map, interface, self.base.ip());
            let its = map.places.iter().find(|place| place.interface == interface);
            let port = its.map_or(0, |place| place.port);
            let known = old.get_mut(usize::from(interface)).map(std::mem::take).unwrap_or_default();
            let is_known = is_same_server && known.candidates == candidates;
            let is_wanted = port != 0 && !candidates.is_empty();
            let due_at = if is_wanted { now_ns } else { u64::MAX };
            self.paths.push(match is_known {
                true => Path { port, ..known },
                false => {
                    Path { candidates, port, probe: Probe { due_at, ..Probe::default() }, ..Path::default() }
                }
            });
        }
        self.apply_paths();
    }

    /// Gives each lane its address.
    fn apply_paths(&mut self) {
        let Some(map) = &self.map else {
            return;
        };
        for (core, lane) in self.lanes.iter_mut().enumerate() {
            let place = map.places.get(core);
            let path = place.and_then(|place| self.paths.get(usize::from(place.interface)));
            let used = path.and_then(Path::ip).zip(place);
            (lane.address, lane.interface) = match used {
                Some((ip, place)) => (SocketAddr::new(ip, place.port), place.interface),
                None => (lane.fallback, BASE),
            };
            if lane.interface != BASE {
                lane.direct = lane.address;
            }
        }
    }

    /// Returns the cookie for datagrams on a path.
    #[inline]
    pub(in crate::driver) fn cookie(&self, interface: u16) -> u64 {
        self.paths.get(usize::from(interface)).map_or(self.cookie, |path| path.cookie)
    }

    /// Notes a reply on a path, and its cookie.
    #[inline]
    pub(in crate::driver) fn hear_on(&mut self, interface: u16, cookie: u64, now_ns: u64) {
        let (own, heard_at) = match self.paths.get_mut(usize::from(interface)) {
            Some(path) => (&mut path.cookie, &mut path.heard_at),
            None => (&mut self.cookie, &mut self.base_heard_at),
        };
        *heard_at = now_ns;
        if cookie != 0 {
            *own = cookie;
        }
    }

    /// Returns whether another path was answered since this time: if not, the whole server may be silent.
    fn is_heard_elsewhere(&self, interface: u16, since: u64) -> bool {
        let others = self.paths.iter().enumerate().filter(|(number, _)| *number != usize::from(interface));
        self.base_heard_at >= since || others.map(|(_, path)| path.heard_at).any(|at| at >= since)
    }

    /// Returns when the next probe is due.
    pub(in crate::driver) fn probes_due_at(&self) -> u64 {
        self.paths.iter().map(|path| path.probe.due_at).min().unwrap_or(u64::MAX)
    }
}

impl Driver {
    /// Sends the probes of a server that are due; returns whether the closure accepted all of them.
    pub(in crate::driver) fn transmit_probes(
        &mut self,
        now_ns: u64,
        number: usize,
        send: &mut impl FnMut(SocketAddr, &[u8]) -> bool,
    ) -> bool {
        for interface in 0..self.servers[number].paths.len() {
            let is_due = self.servers[number].paths[interface].probe.due_at <= now_ns;
            if is_due && !self.probe(now_ns, (number, interface), send) {
                return false;
            }
        }
        true
    }

    fn probe(
        &mut self,
        now_ns: u64,
        (number, interface): (usize, usize),
        send: &mut impl FnMut(SocketAddr, &[u8]) -> bool,
    ) -> bool {
        let server = &mut self.servers[number];
        let path = &mut server.paths[interface];
        let Some(ip) = path.candidate(now_ns) else {
            return true;
        };
        if let Err(later) = server.probes.take(now_ns) {
            path.probe.due_at = later;
            return true;
        }
        let nonce = self.random.next();
        let header = Header {
            kind: Kind::DirectoryRequest,
            generation: server.map.as_ref().map_or(0, |map| map.generation),
            sequence: number as u32,
            client: self.client,
            echo: nonce,
            cookie: path.cookie,
            ..Header::REQUESTS
        };
        let mut datagram = [0; PROBE_BYTES];
        DirectoryRequest { first: 0 }.write(&header, &mut datagram);
        if !send(SocketAddr::new(ip, path.port), &datagram) {
            return false;
        }
        self.counters.probes += 1;
        let probe = &mut path.probe;
        probe.nonce = nonce;
        let wait_ns = self.options.resend_ns_first << probe.attempts;
        probe.attempts += 1;
        probe.due_at = now_ns.saturating_add(self.random.jittered(wait_ns));
        true
    }

    /// Takes a reply to a probe; returns whether it is one.
    pub(in crate::driver) fn on_probed(
        &mut self,
        now_ns: u64,
        header: &Header,
        bytes: &[u8],
        from: SocketAddr,
    ) -> bool {
        let number = usize::from(header.sequence as u16);
        let Some(server) = self.servers.get_mut(number).filter(|_| header.client == self.client) else {
            return false;
        };
        let is_probed = |path: &&mut Path| {
            !path.used
                && path.probe.attempts > 0
                && path.probe.nonce == header.echo
                && path.candidates.get(path.at) == Some(&from.ip())
                && path.port == from.port()
        };
        let Some(path) = server.paths.iter_mut().find(is_probed) else {
            return false;
        };
        self.counters.received += 1;
        if header.cookie != 0 {
            path.cookie = header.cookie;
        }
        if header.status == Status::Unproven {
            if !path.probe.challenged && header.cookie != 0 {
                path.probe.challenged = true;
                path.probe.attempts -= 1;
                path.probe.due_at = now_ns;
                self.directories_due_at = 0;
            }
            return true;
        }
        // Only who proved its address learns the seed, and each start of a server draws another one.
        let facts = server.map.as_ref().map(|map| map.facts);
        let is_same = header.status == Status::Ok
            && Directory::read(bytes).is_some_and(|(theirs, ..)| Some(theirs) == facts);
        if is_same {
            path.used = true;
            path.probe = Probe::default();
            self.counters.paths_found += 1;
            server.apply_paths();
        }
        true
    }

    /// Leaves a path whose core is silent while another path is answered: its lanes go back to the address
    /// that the client was given, until a probe is answered. If no other path was used, the directory's reply
    /// tells whether one is answered.
    pub(in crate::driver) fn leave_path(
        &mut self,
        now_ns: u64,
        (number, interface): (u16, u16),
        silent_since: u64,
    ) {
        let server = &mut self.servers[usize::from(number)];
        if !server.is_heard_elsewhere(interface, silent_since) {
            self.fetch_directory(number, now_ns);
            return;
        }
        let Some(path) = server.paths.get_mut(usize::from(interface)) else {
            return;
        };
        path.used = false;
        path.probe =
            Probe { due_at: now_ns.saturating_add(self.options.resend_ns_first), ..Probe::default() };
        self.directories_due_at = self.directories_due_at.min(path.probe.due_at);
        self.counters.paths_lost += 1;
        server.apply_paths();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_lead_to_hosts_of_the_same_family_only() {
        let may = |ip: &str, base: &str| may_be_tried(ip.parse().unwrap(), base.parse().unwrap());
        for (ip, base) in [
            ("10.0.1.2", "10.0.0.2"),
            ("127.0.0.2", "127.0.0.1"),
            ("169.254.1.2", "169.254.1.1"),
            ("fd00:1::2", "fd00::2"),
        ] {
            assert!(may(ip, base), "{ip}");
        }
        for (ip, base) in [
            ("127.0.0.1", "10.0.0.2"),
            ("169.254.1.2", "10.0.0.2"),
            ("255.255.255.255", "10.0.0.2"),
            ("224.0.0.1", "10.0.0.2"),
            ("0.0.0.0", "10.0.0.2"),
            ("fd00::2", "10.0.0.2"),
            ("10.0.0.2", "fd00::2"),
            ("fe80::2", "fd00::2"),
            ("fe80::2", "fe80::1"),
            ("ff02::1", "fd00::2"),
            ("::1", "fd00::2"),
            ("::ffff:10.0.0.9", "fd00::2"),
        ] {
            assert!(!may(ip, base), "{ip}");
        }
    }

    #[test]
    fn probes_have_a_budget() {
        let mut budget = ProbeBudget::default();
        for _ in 0..PROBES_PER_S {
            assert_eq!(budget.take(5), Ok(()));
        }
        assert_eq!(budget.take(7), Err(5 + SECOND_NS));
        assert_eq!(budget.take(5 + SECOND_NS), Ok(()));
    }
}
