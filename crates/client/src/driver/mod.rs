//! The client without sockets and clocks: requests go in, datagrams come out, and the other way round.
//!
//! | file | what |
//! |---|---|
//! | `submit.rs` | a request finds its server, its core and its datagram |
//! | `transmit.rs` | datagrams leave as far as windows allow |
//! | `receive.rs` | replies end requests |
//! | `timers.rs` | resending, deadlines, servers that do not reply |
//! | `again.rs` | requests of a datagram that have to be sent otherwise than they were |
//! | `introduction.rs` | a server gets to know this client |
//! | `directory.rs` | fetching directories |
//! | `slots.rs`, `wheel.rs` | the datagrams and their timers |
//! | `server.rs`, `map.rs` | what is known of a server: cores, owners |
//! | `window.rs`, `rtt.rs`, `batch.rs`, `ids.rs` | pace, waits, gathering, requests that must happen once |

mod again;
mod batch;
mod directory;
mod ids;
mod introduction;
mod map;
pub(crate) mod random;
mod receive;
mod rtt;
mod server;
mod slots;
mod submit;
#[cfg(test)]
pub(crate) mod tests;
mod timers;
mod transmit;
mod wheel;
mod window;

use crate::counters::Counters;
use crate::ketama::Continuum;
use crate::options::{Options, ServerAddress};
use batch::Gathering;
use micanite_wire::native::{Directory, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN};
use random::Random;
use server::{Health, Server};
use slots::{Entry, List, Slots};
use std::collections::VecDeque;
use std::net::SocketAddr;
use wheel::Wheel;

pub use submit::SubmitError;

/// The token of requests that the driver makes for itself.
const OWN_TOKEN: u64 = u64::MAX;

/// Where datagrams wait: a server and one of its cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    server: u16,
    core: u16,
}

/// A client of a list of servers, sans I/O: one thread owns it and passes in the time.
///
/// Its caller, in turn, [submits](Driver::submit) operations, lets it [transmit](Driver::transmit),
/// [shows](Driver::on_datagram) it what arrives, and calls [`Driver::on_time`] when the time that
/// [`Driver::next_time`] says has come. Operations in the air at the same time may take effect in
/// any order. Nothing is allocated while requests flow.
#[derive(Debug)]
pub struct Driver {
    options: Options,
    client: u32,
    random: Random,
    servers: Vec<Server>,
    continuum: Continuum,
    slots: Slots,
    wheel: Wheel,
    gathering: Gathering,
    /// Lanes that may have something to send.
    ready: VecDeque<Place>,
    /// Datagrams that take requests.
    filling: List,
    /// When the first of them has waited enough; or sooner.
    filling_due_at: u64,
    /// Datagrams whose deadline was over before they could leave.
    expired: List,
    /// When the next directory is to be asked for, or dead server to be asked again; or sooner.
    directories_due_at: u64,
    /// Datagrams leave when they are full, and not before [`Driver::flush`].
    corked: bool,
    /// Datagrams that one lane may hold.
    lane_datagrams_max: u32,
    /// For taking a datagram apart.
    scratch_bytes: Vec<u8>,
    scratch_entries: Vec<Entry>,
    counters: Counters,
}

impl Driver {
    /// A client of these servers, of which there is one at least. `seed` makes its numbers hard to
    /// guess, so it should be.
    ///
    /// # Panics
    /// When there are no servers, or more than 65,535.
    pub fn new(mut options: Options, servers: &[ServerAddress], seed: u64) -> Self {
        assert!(!servers.is_empty() && servers.len() <= usize::from(u16::MAX));
        let payload_bytes = options
            .payload_bytes
            .clamp(PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX);
        options.payload_bytes = payload_bytes;
        let mut random = Random::new(seed);
        let slots = Slots::new(options.datagrams, payload_bytes);
        let weights = servers
            .iter()
            .map(|server| (server.name.as_str(), server.weight));
        let mut driver = Self {
            client: (random.next() as u32).max(1),
            continuum: Continuum::new(weights),
            servers: servers
                .iter()
                .map(|server| Server::new(server.address))
                .collect(),
            wheel: Wheel::new(),
            gathering: Gathering::new(options.batch, options.linger_ns_max),
            ready: VecDeque::with_capacity(servers.len()),
            filling: List::EMPTY,
            filling_due_at: u64::MAX,
            expired: List::EMPTY,
            directories_due_at: 0,
            corked: false,
            lane_datagrams_max: slots.len() as u32,
            scratch_bytes: Vec::with_capacity(payload_bytes),
            scratch_entries: Vec::with_capacity(slots.len()),
            counters: Counters::default(),
            slots,
            options,
            random,
        };
        for server in 0..servers.len() as u16 {
            driver.fetch_directory(server, 0);
        }
        driver
    }

    /// What has been counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Whether a server's directory is known and the server replies.
    pub fn is_alive(&self, server: usize) -> bool {
        self.servers[server].health == Health::Alive
    }

    /// Whether a server has been given up for now, without or after having replied.
    pub fn is_dead(&self, server: usize) -> bool {
        self.servers[server].health == Health::Dead
    }

    /// The version that a server speaks, if it has refused ours.
    pub fn other_version(&self, server: usize) -> Option<u8> {
        self.servers[server].version
    }

    /// The address of a server's base port.
    pub fn address(&self, server: usize) -> SocketAddr {
        self.servers[server].base
    }

    /// The directory of a server, if it is known.
    pub fn directory(&self, server: usize) -> Option<&Directory> {
        self.servers[server].map.as_ref().map(|map| &map.facts)
    }

    /// The server of a key.
    pub fn server_of(&self, key: &[u8]) -> usize {
        self.continuum.find(key)
    }

    /// Operations that have neither ended nor been refused.
    pub fn pending(&self) -> u64 {
        self.counters.submitted - self.counters.completed
    }

    /// How long the smoothed round trip to a server core takes; zero if nothing was measured.
    pub fn rtt_ns(&self, server: usize, core: usize) -> u64 {
        let lane = self.servers[server].lanes.get(core);
        lane.map_or(0, |lane| lane.rtt.smoothed_ns())
    }

    /// A lane may have something to send.
    fn wake(&mut self, place: Place) {
        let lane = &mut self.servers[usize::from(place.server)].lanes[usize::from(place.core)];
        if !lane.ready {
            lane.ready = true;
            self.ready.push_back(place);
        }
    }

    /// The longest datagram, the lanes, and what each may hold, after a directory has been read.
    fn share_datagrams(&mut self) {
        let lanes: usize = self.servers.iter().map(|server| server.lanes.len()).sum();
        self.ready.reserve(lanes.saturating_sub(self.ready.len()));
        self.lane_datagrams_max = (self.slots.len() / lanes.max(1)).max(2) as u32;
    }
}
