//! Paths to the interfaces of a server. The directory of a server with several interfaces names their
//! addresses. The client may not reach them, and the server may lie. So requests go to an address only after
//! it has answered a probe as the same server does; until then, and when it falls silent, they go to the
//! address that the client was given, where another core forwards them.

mod probes;

use super::map::Map;
use crate::driver::server::Server;
use crate::driver::{Driver, Place};
use probes::Probe;
pub(in crate::driver) use probes::ProbeBudget;
use std::net::{IpAddr, SocketAddr};

/// Number of no interface: the address that the client was given.
pub(in crate::driver) const BASE: u16 = u16::MAX;

/// Interfaces that a client considers.
const INTERFACES_MAX: usize = 64;
/// Addresses of an interface that it tries.
const CANDIDATES_MAX: usize = 4;
/// Wait after all addresses of an interface failed, and after the loss of a path; it doubles each time.
const PAUSE_NS: u64 = 1_000_000_000;
const PAUSE_DOUBLINGS_MAX: u32 = 6;
/// A path that is answered for so long has proved itself: its next loss counts as the first one.
const STEADY_NS: u64 = PAUSE_NS << PAUSE_DOUBLINGS_MAX;

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
    /// The server's proof of the address that datagrams on this path come from, where no lane has its own.
    pub(in crate::driver) cookie: u64,
    /// Time of the last reply on it.
    heard_at: u64,
    /// UDP port of the core that is probed.
    port: u16,
    probe: Probe,
    /// Time of the last answer to a probe, since which it is used.
    used_since: u64,
    /// Losses since it was last answered for [`STEADY_NS`].
    losses: u32,
}

impl Path {
    /// Returns the address that is used, if one is.
    pub(in crate::driver) fn ip(&self) -> Option<IpAddr> {
        self.candidates.get(self.at).copied().filter(|_| self.used)
    }

    /// Leaves the path, because a core is silent. That core has to answer the next probe, after a pause that
    /// doubles with each loss: a core may answer probes and nothing else.
    fn lose(&mut self, now_ns: u64, silent_port: u16) {
        if self.heard_at.saturating_sub(self.used_since) >= STEADY_NS {
            self.losses = 0;
        }
        self.used = false;
        self.port = silent_port;
        self.probe = Probe::at(now_ns.saturating_add(pause_ns(self.losses)));
        self.losses = self.losses.saturating_add(1);
    }
}

/// Returns the pause after so many earlier ones.
fn pause_ns(earlier: u32) -> u64 {
    PAUSE_NS << earlier.min(PAUSE_DOUBLINGS_MAX)
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
            let its = map.places.iter().filter(|place| place.interface == interface);
            let mut ports = its.map(|place| place.port);
            let first_port = ports.clone().next().unwrap_or(0);
            let known = old.get_mut(usize::from(interface)).map(std::mem::take).unwrap_or_default();
            let is_known = is_same_server && known.candidates == candidates;
            let port = match is_known && ports.any(|port| port == known.port) {
                true => known.port,
                false => first_port,
            };
            let is_wanted = port != 0 && !candidates.is_empty();
            let due_at = if is_wanted { now_ns } else { u64::MAX };
            self.paths.push(match is_known {
                true => Path { port, ..known },
                false => Path { candidates, port, probe: Probe::at(due_at), ..Path::default() },
            });
        }
    }

    /// Gives each lane its address.
    pub(in crate::driver) fn apply_paths(&mut self, now_ns: u64) {
        let Some(map) = &self.map else {
            return;
        };
        for (core, lane) in self.lanes.iter_mut().enumerate() {
            let place = map.places.get(core);
            let path = place.and_then(|place| self.paths.get(usize::from(place.interface)));
            let used = path.and_then(Path::ip).zip(place);
            match used {
                Some((ip, place)) => {
                    lane.direct = SocketAddr::new(ip, place.port);
                    lane.move_to(now_ns, lane.direct, place.interface);
                }
                None => lane.move_to(now_ns, lane.fallback, BASE),
            }
        }
    }

    /// Returns the cookie for datagrams to a core on a path.
    #[inline]
    pub(in crate::driver) fn cookie(&self, core: u16, interface: u16) -> u64 {
        let lane = &self.lanes[usize::from(core)];
        let (own, shared) = match self.paths.get(usize::from(interface)) {
            Some(path) => (lane.direct_cookie, path.cookie),
            None => (lane.fallback_cookie, self.cookie),
        };
        if own != 0 { own } else { shared }
    }

    /// Notes a reply of a core on a path, and its cookie. Other cores take it, too, unless theirs differs.
    #[inline]
    pub(in crate::driver) fn hear_on(&mut self, (core, interface): (u16, u16), cookie: u64, now_ns: u64) {
        let lane = &mut self.lanes[usize::from(core)];
        let (own, shared, heard_at) = match self.paths.get_mut(usize::from(interface)) {
            Some(path) => (&mut lane.direct_cookie, &mut path.cookie, &mut path.heard_at),
            None => (&mut lane.fallback_cookie, &mut self.cookie, &mut self.base_heard_at),
        };
        *heard_at = now_ns;
        if cookie != 0 {
            if *own == 0 || *own == *shared {
                *shared = cookie;
            }
            *own = cookie;
        }
    }

    /// Returns whether another path was answered since this time: if not, the whole server may be silent.
    fn is_heard_elsewhere(&self, interface: u16, since: u64) -> bool {
        let others = self.paths.iter().enumerate().filter(|(number, _)| *number != usize::from(interface));
        self.base_heard_at >= since || others.map(|(_, path)| path.heard_at).any(|at| at >= since)
    }
}

impl Driver {
    /// Leaves the path of a silent core while another path is answered: its lanes go back to the address that
    /// the client was given, until that core answers a probe. If no other path was used, the reply of the
    /// directory tells whether one is answered.
    pub(in crate::driver) fn leave_path(&mut self, now_ns: u64, place: Place, silent_since: u64) {
        let server = &mut self.servers[usize::from(place.server)];
        let lane = &server.lanes[usize::from(place.core)];
        let (interface, port) = (lane.interface, lane.address.port());
        if !server.is_heard_elsewhere(interface, silent_since) {
            self.fetch_directory(place.server, now_ns);
            return;
        }
        let Some(path) = server.paths.get_mut(usize::from(interface)) else {
            return;
        };
        path.lose(now_ns, port);
        self.directories_due_at = self.directories_due_at.min(path.probe.due_at);
        self.counters.paths_lost += 1;
        server.apply_paths(now_ns);
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
}
