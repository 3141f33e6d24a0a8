//! A worker's port of a fabric.
//!
//! ```text
//!  events -> hello: login, a buffer, a session                               (hello.rs)
//!         -> requests: a round of the engine -> replies, from the same memory
//!         -> history: what the client has read by itself
//!         -> sent: the buffer is back
//!  every 10 ms: pushes, clients that are silent, buffers whose frozen time is over
//! ```

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;
use micanite_engine::{ChunkEntry, KeyHash};
use micanite_fabric::{Area, Buffer, Endpoint, EndpointOptions, Error, Peer};
use micanite_wire::native::{self, Header, History, Kind};

use super::answering::Answering;
use super::buffers::BufferArea;
use super::client::{Arrival, Buffers, Client, ENTRIES_MAX, LIST_BYTES, RING_ENTRIES_MAX};
use super::counters::FabricCounters;
use super::endpoint::{Event, Link};
use super::hello::Greeted;
use super::outbox::FabricOutbox;
use super::shared::{FabricShared, identity};
use super::token::{Part, Token, is_of_lists};
use crate::configuration::FabricSettings;
use crate::limits::{FABRIC_HELLO_BYTES, FABRIC_HELLOS, FABRIC_STRANGERS_MAX};
use crate::native::{Cookies, Round, Source};
use crate::session::Context;
use crate::shared::clock::{Clock, seconds};

/// Clients whose requests one round executes.
const ROUND_CLIENTS_MAX: usize = 16;
/// Accesses that are noted at once.
const ACCESSES_MAX: usize = 64;
/// Transfers of a client: a receive for requests and one for histories, a reply, a push.
const TRANSFERS_OF_CLIENT: u32 = 4;
/// Events that one round takes.
const ROUND_EVENTS_MAX: usize = 64;
/// The coarse clock is behind by at most this.
const CLOCK_STEP_MS: u64 = 10;

/// A worker's link to its endpoint, and its clients.
#[derive(Debug)]
pub struct FabricPort {
    /// The first that is dropped: no transfer has the memory afterwards.
    pub(super) link: Link,
    pub(super) worker: usize,
    /// The cache area as it is registered in this endpoint.
    pub(super) area: Option<Area>,
    pub(super) clients: Box<[Client]>,
    /// The requests of clients, by place.
    pub(super) requests: Box<[Option<Buffer>]>,
    /// Free places.
    pub(super) free: Vec<u32>,
    /// Clients with requests that are not executed.
    pub(super) arrived: VecDeque<Arrival>,
    /// Clients with a history that is not noted.
    pub(super) reported: VecDeque<Arrival>,
    pub(super) buffers: BufferArea<Buffers>,
    /// Hellos that wait until memory is registered for their clients.
    pub(super) waiting: VecDeque<Greeted>,
    /// Memory that was registered for the hello that is looked at.
    pub(super) fresh: Option<Result<Buffers, Error>>,
    /// Buffers for hellos that are in no transfer.
    pub(super) spare: ArrayVec<Buffer, FABRIC_HELLOS>,
    /// Answers to hellos that are being sent.
    pub(super) answering: Answering,
    /// Buffers for hellos that were given up, and are not replaced yet.
    pub(super) hellos_missing: usize,
    /// Peers that have greeted and are no clients yet, or no longer.
    pub(super) strangers: VecDeque<Peer>,
    cookies: Cookies,
    pub(super) message_bytes: usize,
    pub(super) frozen_ms: u64,
    pub(super) push_ms: u64,
    pub(super) pushed_ms: u64,
    pub(super) maintained_ms: u64,
}

/// Transfers of an endpoint.
const fn transfers_max(clients_max: usize) -> u32 {
    FABRIC_HELLOS as u32 + TRANSFERS_OF_CLIENT * clients_max as u32
}

impl FabricPort {
    /// Opens a worker's endpoint at its address, and starts its thread. `spins`: there are CPUs enough for a
    /// thread that looks at full speed for a moment.
    ///
    /// # Errors
    /// The provider refuses, or the kernel refuses a thread.
    pub fn open(
        worker: usize,
        settings: &FabricSettings,
        shared: &FabricShared,
        spins: bool,
    ) -> Result<Self, Error> {
        let places = settings.clients_max;
        let transfers_max = transfers_max(places);
        let options = EndpointOptions { transfers_max, ..EndpointOptions::default() };
        let endpoint = Endpoint::listen(&settings.address_of(worker), &options)?;
        let region = shared.area.as_ref().map(|of| of.area.region().clone());
        let area = region.map(|region| endpoint.area(region)).transpose()?;
        let spare = (0..FABRIC_HELLOS).map(|_| endpoint.buffer(FABRIC_HELLO_BYTES));
        let spare = spare.collect::<Result<ArrayVec<_, FABRIC_HELLOS>, _>>()?;
        let mut port = Self {
            link: Link::start(worker, endpoint, transfers_max, spins)?,
            worker,
            area,
            clients: (0..places).map(|_| Client::new()).collect(),
            requests: (0..places).map(|_| None).collect(),
            free: (0..places as u32).rev().collect(),
            // A place may stand there once more for a client that went.
            arrived: VecDeque::with_capacity(2 * places),
            reported: VecDeque::with_capacity(2 * places),
            buffers: BufferArea::new(u64::from(settings.frozen_s) * 1000),
            waiting: VecDeque::with_capacity(FABRIC_HELLOS),
            fresh: None,
            spare,
            answering: Answering::default(),
            hellos_missing: 0,
            strangers: VecDeque::with_capacity(FABRIC_STRANGERS_MAX),
            cookies: Cookies::new(shared.native.cookie_key),
            message_bytes: settings.message_bytes,
            frozen_ms: u64::from(settings.frozen_s) * 1000,
            push_ms: u64::from(settings.push_ms),
            pushed_ms: 0,
            maintained_ms: 0,
        };
        port.post_spare();
        port.link.flush();
        Ok(port)
    }

    /// Memory of one client's buffers.
    pub const fn client_bytes(message_bytes: usize) -> usize {
        2 * message_bytes + 2 * LIST_BYTES
    }

    /// Memory of a worker's port beside them.
    pub const fn bytes(clients_max: usize) -> usize {
        let list_bytes = RING_ENTRIES_MAX * size_of::<native::ChunkEntry>();
        let rings_bytes = Link::bytes(transfers_max(clients_max));
        let clients_bytes = clients_max * (size_of::<Client>() + list_bytes);
        FABRIC_HELLOS * FABRIC_HELLO_BYTES + rings_bytes + clients_bytes
    }

    /// Returns the descriptor that becomes readable when something has happened, after
    /// [`FabricPort::falls_asleep`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.link.descriptor()
    }

    /// Returns whether nothing has happened, so that the worker may sleep on the descriptor.
    pub fn falls_asleep(&mut self) -> bool {
        self.arrived.is_empty() && self.link.falls_asleep()
    }

    /// Clears the descriptor, which has woken the worker.
    pub fn clear(&self) {
        self.link.clear();
    }

    /// Returns whether there are clients.
    pub fn has_clients(&self) -> bool {
        self.free.len() < self.clients.len()
    }

    /// Takes what has come, and executes it. Returns the number of events, without transfers of lists.
    pub fn round(&mut self, context: &mut Context<'_>, clock: Clock) -> usize {
        let server = context.server;
        let Some(shared) = &server.shared.fabric else {
            return 0;
        };
        self.link.wake_up();
        // A client takes the second of the reply for one after its request.
        let now_ms = clock.now_ms();
        context.now_s = seconds(now_ms);
        let mut count = 0;
        for _ in 0..ROUND_EVENTS_MAX {
            let Some(event) = self.link.take() else {
                break;
            };
            let is_of_lists = matches!(&event, Event::Ended(ended, _) if is_of_lists(ended.token));
            count += usize::from(!is_of_lists);
            self.take_event(event, context, shared, now_ms);
        }
        context.worker.begin_turn();
        self.execute(context, shared, now_ms);
        self.note_histories(context, shared);
        self.link.flush();
        count
    }

    pub(super) fn counters<'s>(&self, shared: &'s FabricShared) -> &'s FabricCounters {
        &shared.counters[self.worker]
    }

    /// Executes requests that have come, those of several clients in one batch.
    fn execute(&mut self, context: &mut Context<'_>, shared: &FabricShared, now_ms: u64) {
        let mut due = ArrayVec::<(u32, usize, u64), ROUND_CLIENTS_MAX>::new();
        while !due.is_full()
            && let Some(arrival) = self.arrived.pop_front()
        {
            let client = &self.clients[arrival.place as usize];
            let is_there_twice = due.iter().any(|(place, ..)| *place == arrival.place);
            if arrival.is_of(client) && client.has_request() && !is_there_twice {
                due.push((arrival.place, client.request_bytes, client.nonce));
            }
        }
        if due.is_empty() {
            return;
        }
        let mut outbox = FabricOutbox {
            clients: &mut self.clients,
            counters: &shared.counters[self.worker],
            second: second(now_ms),
            place: 0,
        };
        let mut round = Round::new(context.lend(), &shared.native, &mut self.cookies, &mut outbox, 0);
        let mut taken = 0;
        while let Some((place, bytes, nonce)) = due.get(taken).filter(|_| !round.is_over()) {
            taken += 1;
            if let Some(request) = self.requests[*place as usize].as_deref() {
                let source = Source { peer: identity(*nonce), number: *place };
                round.take(&request[..*bytes], source, true);
            }
        }
        round.finish();
        // The other requests wait for the next round.
        for (place, ..) in due.drain(taken..).rev() {
            let generation = self.clients[place as usize].generation;
            self.arrived.push_front(Arrival { place, generation });
        }
        for (place, ..) in due {
            self.clients[place as usize].request_bytes = 0;
            self.settle(place, shared);
            self.push_to(place, shared, ENTRIES_MAX);
        }
    }

    /// Notes histories that have come, with what requests have left of the turn.
    fn note_histories(&mut self, context: &mut Context<'_>, shared: &FabricShared) {
        while let Some(arrival) = self.reported.pop_front() {
            let client = &mut self.clients[arrival.place as usize];
            if !arrival.is_of(client) {
                continue;
            }
            let bytes = std::mem::take(&mut client.history_bytes);
            if let Some(buffer) = client.history.take_if(|_| bytes > 0) {
                note_accesses(client, &buffer[..bytes], context, &shared.counters[self.worker]);
                client.history = Some(buffer);
            }
            self.settle(arrival.place, shared);
        }
    }

    /// Posts buffers for hellos.
    pub(super) fn post_spare(&mut self) {
        while let Some(buffer) = self.spare.pop() {
            self.link.receive(buffer, Token::of(Part::Hello).encode());
        }
    }

    /// Returns whether a call of the provider stands, which nobody can interrupt.
    pub fn stands(&mut self, now_ms: u64) -> bool {
        self.link.stands(now_ms)
    }

    /// Gives the endpoint up, with its clients; returns their number. Their buffers count until the end of
    /// the server, because the provider may use them.
    pub fn abandon(mut self, shared: &FabricShared) -> u64 {
        self.link.abandon();
        let counters = self.counters(shared);
        let clients = counters.clients.get();
        counters.endpoints_given_up.add(1);
        counters.clients_gone.add(clients);
        counters.clients.set(0);
        counters.buffers_frozen.set(0);
        clients
    }
}

/// Notes what a client has read by itself. Entries of what is loaded for it go to its next push.
fn note_accesses(client: &mut Client, message: &[u8], context: &mut Context<'_>, counters: &FabricCounters) {
    let header = Header::read(message).ok().filter(|header| header.kind == Kind::History);
    let history = header.map(|header| History::check(message, header.count));
    let Some(Ok(history)) = history else {
        return;
    };
    counters.histories.add(1);
    let mut accesses = ArrayVec::<(KeyHash, u32), ACCESSES_MAX>::new();
    let mut history = history.peekable();
    while let Some(access) = history.next() {
        accesses.push((KeyHash(access.hash), access.count));
        if accesses.is_full() || history.peek().is_none() {
            counters.accesses.add(accesses.len() as u64);
            context.worker.note_accesses(&accesses, context.now_s, |KeyHash(hash), entry| {
                let ChunkEntry { offset, version, bytes } = entry;
                if client.note_entry(native::ChunkEntry { hash, offset, version, bytes }) {
                    counters.entries_dropped.add(1);
                }
            });
            accesses.clear();
        }
    }
}

/// Returns the second at its latest.
pub(super) fn second(now_ms: u64) -> u64 {
    u64::from(seconds(now_ms + CLOCK_STEP_MS))
}
