//! The client without sockets and clocks: requests go in and datagrams come out, and vice versa.
//!
//! | file | contents |
//! |---|---|
//! | `submit.rs` | selects server, core and datagram of a request |
//! | `transmit.rs` | sends datagrams as far as windows allow |
//! | `receive.rs` | ends requests by their replies |
//! | `timers.rs` | resending, deadlines, silent servers |
//! | `retry.rs` | requests that have to be sent in another way |
//! | `introduction.rs` | introduces the client to a server |
//! | `directory/` | fetches directories: owners; paths to the interfaces of a server |
//! | `slots.rs`, `wheel.rs` | the datagrams and their timers |
//! | `server.rs` | state of a server: cores |
//! | `pace/` | windows, round trips, gathering |
//! | `ids.rs` | requests that must happen once |

mod directory;
mod ids;
mod introduction;
mod pace;
mod receive;
mod retry;
mod server;
mod slots;
mod submit;
#[cfg(test)]
pub(crate) mod tests;
mod timers;
mod transmit;
mod wheel;

use crate::counters::Counters;
use crate::ketama::Continuum;
use crate::options::{DEAD_FOR_NS_MIN, Options, ServerAddress};
use crate::random::Random;
use micanite_wire::native::Directory;
use pace::Gathering;
use server::{Health, Server};
use slots::{Entry, List, Slots};
use std::collections::VecDeque;
use std::net::SocketAddr;
use wheel::Wheel;

pub(crate) use ids::Ids;
pub use pace::{batch_that_pays, delay_of_batch_ns};
pub use submit::SubmitError;
pub(crate) use submit::{Route, request};

/// Token of the driver's own requests.
const OWN_TOKEN: u64 = u64::MAX;

/// A server and one of its cores, where datagrams wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    server: u16,
    core: u16,
}

/// A client of a list of servers, sans I/O: one thread owns it and passes in the time.
///
/// The caller [submits](Driver::submit) operations, lets it [transmit](Driver::transmit), passes
/// [received datagrams](Driver::on_datagram), and calls [`Driver::on_time`] at the time of
/// [`Driver::next_time`]. Operations in flight at the same time may take effect in any order. Nothing is
/// allocated while requests flow.
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
    /// Datagrams that accept requests.
    filling: List,
    /// Earliest time at which one of them has waited enough, or sooner.
    filling_due_at: u64,
    /// Datagrams whose deadline was over before they could leave.
    expired: List,
    /// Time of the next directory request, or of the next request to a dead server, or sooner.
    directories_due_at: u64,
    /// Set while datagrams leave only when they are full, until [`Driver::flush`].
    corked: bool,
    /// Maximum number of datagrams per lane.
    lane_datagrams_max: u32,
    /// Buffers for splitting a datagram.
    scratch_bytes: Vec<u8>,
    scratch_entries: Vec<Entry>,
    counters: Counters,
}

impl Driver {
    /// Creates a client of these servers. `seed` makes its nonces hard to guess, so it has to be
    /// random itself.
    ///
    /// # Panics
    /// If there are no servers, or more than 65,535.
    pub fn new(mut options: Options, servers: &[ServerAddress], seed: u64) -> Self {
        assert!(!servers.is_empty() && servers.len() <= usize::from(u16::MAX));
        let payload_bytes = options.bounded_payload_bytes();
        options.payload_bytes = payload_bytes;
        options.deadline_ns = options.bounded_deadline_ns();
        options.dead_for_ns = options.dead_for_ns.max(DEAD_FOR_NS_MIN);
        let mut random = Random::new(seed);
        let slots = Slots::new(options.datagrams, payload_bytes);
        let weights = servers.iter().map(|server| (server.name.as_str(), server.weight));
        let mut driver = Self {
            client: (random.next() as u32).max(1),
            continuum: Continuum::new(weights),
            servers: servers.iter().map(|server| Server::new(server.address)).collect(),
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

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the number of servers.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Returns whether a server's directory is known and the server replies.
    pub fn is_alive(&self, server: usize) -> bool {
        self.servers[server].health == Health::Alive
    }

    /// Returns whether a server counts as dead, whether or not it ever replied.
    pub fn is_dead(&self, server: usize) -> bool {
        self.servers[server].health == Health::Dead
    }

    /// Returns whether a dead server is to be asked for its directory now, or was asked so lately that the
    /// reply may be on its way.
    pub(crate) fn is_tried_again(&self, now_ns: u64, server: usize) -> bool {
        let state = &self.servers[server];
        let fetch = state.fetch.as_ref().filter(|_| state.health == Health::Dead);
        let patience_ns = self.options.resend_ns_first;
        fetch.is_some_and(|fetch| {
            let is_asked = fetch.attempts > 0 && state.version.is_none();
            fetch.due_at <= now_ns || is_asked && now_ns < fetch.sent_at.saturating_add(patience_ns)
        })
    }

    /// Returns the settings.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the version of a server that has refused this client's.
    pub fn other_version(&self, server: usize) -> Option<u8> {
        self.servers[server].version
    }

    /// Returns the address of a server's base port.
    pub fn address(&self, server: usize) -> SocketAddr {
        self.servers[server].base
    }

    /// Returns the directory of a server, if it is known.
    pub fn directory(&self, server: usize) -> Option<&Directory> {
        self.servers[server].map.as_ref().map(|map| &map.facts)
    }

    /// Returns the places of the servers among the keys.
    #[cfg(feature = "async")]
    pub(crate) fn continuum(&self) -> &Continuum {
        &self.continuum
    }

    /// Returns the server of a key; the first one for no key, which is that of a no-op.
    pub fn server_of(&self, key: &[u8]) -> usize {
        if key.is_empty() || self.servers.len() == 1 { 0 } else { self.continuum.find(key) }
    }

    /// Returns the number of operations that have not ended.
    pub fn pending(&self) -> u64 {
        self.counters.submitted - self.counters.completed
    }

    /// Returns the smoothed round trip to a server core; 0 before the first measurement.
    pub fn rtt_ns(&self, server: usize, core: usize) -> u64 {
        let lane = self.servers[server].lanes.get(core);
        lane.map_or(0, |lane| lane.rtt.smoothed_ns())
    }

    /// Returns where requests for a server core go now, if the directory is known.
    pub fn core_address(&self, server: usize, core: usize) -> Option<SocketAddr> {
        self.servers[server].lanes.get(core).map(|lane| lane.address)
    }

    /// Returns the number of server cores that the client had requests for of late.
    pub fn destinations(&self) -> u32 {
        self.gathering.destinations_lately()
    }

    /// Marks a lane that may have something to send.
    fn wake(&mut self, place: Place) {
        let lane = &mut self.servers[usize::from(place.server)].lanes[usize::from(place.core)];
        if !lane.ready {
            lane.ready = true;
            self.ready.push_back(place);
        }
    }

    /// Distributes the datagrams over the lanes after a directory was read.
    fn share_datagrams(&mut self) {
        let lanes: usize = self.servers.iter().map(|server| server.lanes.len()).sum();
        self.ready.reserve(lanes.saturating_sub(self.ready.len()));
        self.lane_datagrams_max = (self.slots.len() / lanes.max(1)).max(2) as u32;
    }
}
