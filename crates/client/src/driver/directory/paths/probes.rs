//! Probes: an address of an interface is used once it has answered as the server itself does.

use super::{Path, pause_ns};
use crate::driver::Driver;
use crate::driver::server::Server;
use micanite_wire::native::{Directory, DirectoryRequest, DirectoryWriter, Header, Kind, Status};
use std::net::{IpAddr, SocketAddr};

/// Probes of an address without an answer, until the next address is tried.
const ATTEMPTS_MAX: u8 = 3;
/// Probes of a server's addresses in a second, whatever its directories say.
const PROBES_PER_S: u16 = 128;
const SECOND_NS: u64 = 1_000_000_000;
/// Bytes of a probe.
const PROBE_BYTES: usize = DirectoryWriter::BYTES_MIN;

/// The next probe of a path, and the last one.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) due_at: u64,
    attempts: u8,
    rounds: u32,
    nonce: u64,
    /// The server has asked for a proof since the last probe of this address.
    challenged: bool,
}

impl Probe {
    /// Nothing was probed yet.
    pub(super) fn at(due_at: u64) -> Self {
        Self { due_at, attempts: 0, rounds: 0, nonce: 0, challenged: false }
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self::at(u64::MAX)
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

    /// Gives back a probe that was taken and not sent.
    fn give_back(&mut self) {
        self.left += 1;
    }
}

impl Path {
    /// Returns the address to probe next. After the last one there is a pause.
    fn candidate(&mut self, now_ns: u64) -> Option<IpAddr> {
        if self.probe.attempts >= ATTEMPTS_MAX {
            (self.probe.attempts, self.probe.challenged) = (0, false);
            self.cookie = 0;
            self.at += 1;
        }
        if self.at >= self.candidates.len() {
            self.at = 0;
            self.probe.due_at = now_ns.saturating_add(pause_ns(self.probe.rounds));
            self.probe.rounds = self.probe.rounds.saturating_add(1);
            return None;
        }
        Some(self.candidates[self.at])
    }
}

impl Server {
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
            server.probes.give_back();
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
        // Copies of an image have the same seed, but each start of a server draws its first generation.
        let own = server.map.as_ref().map(|map| (map.generation, map.facts));
        let theirs = Directory::read(bytes).filter(|_| header.status == Status::Ok);
        let theirs = theirs.map(|(facts, ..)| (header.generation, facts));
        if theirs.is_some() && theirs == own {
            (path.used, path.used_since) = (true, now_ns);
            path.probe = Probe::default();
            self.counters.paths_found += 1;
            server.apply_paths(now_ns);
        } else if theirs.is_some() {
            // The next probe compares with the server's present directory.
            self.fetch_directory(number as u16, now_ns);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
