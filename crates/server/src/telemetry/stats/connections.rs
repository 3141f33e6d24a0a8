//! `stats conns`: the connections of each worker, in a table that the worker writes and anyone reads.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::Lines;
use crate::shared::Server;
use crate::telemetry::peer::Peer;

/// Room for the lines of one connection.
const LINES_BYTES_MAX: usize = 1024;

/// State of a connection, by memcached's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ConnectionState {
    /// It waits for input.
    Read = 0,
    Write = 1,
    /// It waits for a value buffer.
    Wait = 2,
    /// It watches.
    Watch = 3,
    /// It waits for the rest of a body.
    Body = 4,
    /// The same, of a body that was refused.
    Refused = 5,
    /// The server has ended it, and waits for the peer to end, too.
    Closing = 6,
}

impl ConnectionState {
    const fn name(code: u32) -> &'static str {
        match code {
            0 => "conn_read",
            1 => "conn_mwrite",
            2 => "conn_waiting",
            3 => "conn_watch",
            4 => "conn_nread",
            5 => "conn_swallow",
            _ => "conn_closing",
        }
    }
}

/// One connection. The version is odd while it changes.
#[derive(Debug, Default)]
struct Entry {
    version: AtomicU32,
    /// The descriptor, plus one; 0 = there is none here.
    descriptor: AtomicU32,
    state: AtomicU32,
    /// The second of its last turn.
    active_s: AtomicU32,
    /// Peer and own address: 16 bytes of IP each, ports, and in bit 32 whether it is TCP.
    words: [AtomicU64; 5],
}

/// The connections of all workers.
#[derive(Debug)]
pub struct ConnectionTable {
    workers: Box<[Box<[Entry]>]>,
    listeners: OnceLock<Vec<(i32, Option<SocketAddr>)>>,
}

/// An [`Entry`] as it was at one moment.
#[derive(Clone, Copy, Debug)]
struct Row {
    descriptor: i32,
    state: u32,
    active_s: u32,
    peer: Peer,
    own: Option<SocketAddr>,
}

/// Progress of a report: the listeners, then the places of each worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionsProgress {
    listeners: bool,
    worker: usize,
    place: usize,
}

impl ConnectionTable {
    /// Bytes of the table for each connection.
    pub const ENTRY_BYTES: usize = size_of::<Entry>();

    /// For so many workers and connections of each.
    pub fn new(workers: usize, connections: usize) -> Self {
        let places = |_| (0..connections).map(|_| Entry::default()).collect();
        Self { workers: (0..workers).map(places).collect(), listeners: OnceLock::new() }
    }

    /// Notes what is listened on: descriptors and, for TCP, addresses.
    pub fn set_listeners(&self, listeners: Vec<(i32, Option<SocketAddr>)>) {
        // They do not change.
        let _ = self.listeners.set(listeners);
    }

    /// A connection of a worker has come. Only the worker may call this and what follows.
    pub fn insert(
        &self,
        (worker, place): (usize, usize),
        descriptor: i32,
        (peer, own): (Peer, Option<SocketAddr>),
        now_s: u32,
    ) {
        let Some(entry) = self.entry(worker, place) else {
            return;
        };
        let (peer_high, peer_low, peer_port) = match peer {
            Peer::Tcp(address) => pack(address),
            Peer::Local => (0, 0, 0),
        };
        let (own_high, own_low, own_port) = own.map_or((0, 0, 0), pack);
        let tcp = u64::from(matches!(peer, Peer::Tcp(_)));
        let ports = u64::from(peer_port) | u64::from(own_port) << 16 | tcp << 32;
        entry.write(|| {
            for (word, value) in entry.words.iter().zip([peer_high, peer_low, own_high, own_low, ports]) {
                word.store(value, Ordering::Relaxed);
            }
            entry.active_s.store(now_s, Ordering::Relaxed);
            entry.state.store(0, Ordering::Relaxed);
            entry.descriptor.store(descriptor as u32 + 1, Ordering::Relaxed);
        });
    }

    /// It has gone. Returns its descriptor and its peer, if it was here.
    pub fn remove(&self, worker: usize, place: usize) -> Option<(i32, Peer)> {
        let entry = self.entry(worker, place)?;
        let row = entry.read()?;
        entry.write(|| entry.descriptor.store(0, Ordering::Relaxed));
        Some((row.descriptor, row.peer))
    }

    /// It has a turn.
    #[inline]
    pub fn note_turn(&self, worker: usize, place: usize, now_s: u32) {
        if let Some(entry) = self.entry(worker, place) {
            entry.active_s.store(now_s, Ordering::Relaxed);
        }
    }

    /// Notes the state of a connection.
    #[inline]
    pub fn note_state(&self, worker: usize, place: usize, state: ConnectionState) {
        if let Some(entry) = self.entry(worker, place) {
            entry.state.store(state as u32, Ordering::Relaxed);
        }
    }

    /// The descriptor of a connection, -1 if there is none.
    pub fn descriptor(&self, worker: usize, place: usize) -> i32 {
        let entry = self.entry(worker, place);
        entry.map_or(-1, |entry| entry.descriptor.load(Ordering::Relaxed) as i32 - 1)
    }

    #[inline]
    fn entry(&self, worker: usize, place: usize) -> Option<&Entry> {
        self.workers.get(worker)?.get(place)
    }
}

impl Entry {
    fn write(&self, change: impl FnOnce()) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        change();
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// Reads the place if it has a connection and does not change meanwhile.
    fn read(&self) -> Option<Row> {
        let version = self.version.load(Ordering::Acquire);
        let words = self.words.each_ref();
        let [peer_high, peer_low, own_high, own_low, ports] = words.map(|word| word.load(Ordering::Relaxed));
        let descriptor = self.descriptor.load(Ordering::Relaxed);
        let (state, active_s) = (self.state.load(Ordering::Relaxed), self.active_s.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let stable = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        if descriptor == 0 || !stable {
            return None;
        }
        let tcp = ports >> 32 & 1 == 1;
        let peer = match tcp {
            true => Peer::Tcp(unpack(peer_high, peer_low, ports as u16)),
            false => Peer::Local,
        };
        Some(Row {
            descriptor: descriptor as i32 - 1,
            state,
            active_s,
            peer,
            own: tcp.then(|| unpack(own_high, own_low, (ports >> 16) as u16)),
        })
    }
}

fn pack(address: SocketAddr) -> (u64, u64, u16) {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let bits = ip.to_bits();
    ((bits >> 64) as u64, bits as u64, address.port())
}

fn unpack(high: u64, low: u64, port: u16) -> SocketAddr {
    let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
    SocketAddr::new(ip.to_canonical(), port)
}

/// Writes more of the report; true if there is still more.
pub(crate) fn connections(
    progress: &mut ConnectionsProgress,
    server: &Server,
    now_s: u32,
    lines: &mut Lines<'_, '_>,
) -> bool {
    let table = &server.shared.connection_table;
    let socket = server.settings.unix_socket.as_ref();
    if !progress.listeners {
        progress.listeners = true;
        for (descriptor, address) in table.listeners.get().into_iter().flatten().take(32) {
            lines.stat(&format!("{descriptor}:addr"), name(*address, socket));
            lines.stat(&format!("{descriptor}:state"), "conn_listening");
            lines.stat(&format!("{descriptor}:secs_since_last_cmd"), now_s.saturating_sub(server.started_s));
        }
    }
    while let Some(places) = table.workers.get(progress.worker) {
        for entry in &places[progress.place.min(places.len())..] {
            if lines.room() < LINES_BYTES_MAX {
                return true;
            }
            progress.place += 1;
            let Some(row) = entry.read() else { continue };
            let number = row.descriptor;
            match row.peer {
                Peer::Tcp(peer) => lines.stat(&format!("{number}:addr"), name(Some(peer), None)),
                Peer::Local => lines.stat(&format!("{number}:addr"), "unix:"),
            }
            lines.stat(&format!("{number}:listen_addr"), name(row.own, socket));
            lines.stat(&format!("{number}:state"), ConnectionState::name(row.state));
            lines.stat(&format!("{number}:secs_since_last_cmd"), now_s.saturating_sub(row.active_s));
        }
        progress.worker += 1;
        progress.place = 0;
    }
    false
}

/// An address as memcached writes it.
fn name(address: Option<SocketAddr>, socket: Option<&PathBuf>) -> String {
    match (address, socket) {
        (Some(SocketAddr::V4(address)), _) => format!("tcp:{address}"),
        (Some(address), _) => format!("tcp6:{address}"),
        (None, Some(path)) => format!("unix:{}", path.display()),
        (None, None) => "unix:".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_listed_until_they_end() {
        let table = ConnectionTable::new(2, 3);
        for text in ["127.0.0.1:80", "[::1]:443", "[2001:db8::1]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            let own = "10.0.0.1:11211".parse().unwrap();
            table.insert((1, 2), 7, (Peer::Tcp(address), Some(own)), 100);
            let row = table.workers[1][2].read().unwrap();
            assert_eq!((row.descriptor, row.peer), (7, Peer::Tcp(address)));
            assert_eq!((row.own, row.active_s), (Some(own), 100));
            assert_eq!(table.remove(1, 2), Some((7, Peer::Tcp(address))));
            assert!(table.workers[1][2].read().is_none());
        }
        table.insert((0, 9), 7, (Peer::Local, None), 100); // there is no such place
        assert_eq!(table.remove(0, 9), None);
    }
}
