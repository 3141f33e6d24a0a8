//! A worker's endpoint of a fabric.
//!
//! ```text
//!  poll -> hello: login, a buffer, a session                               (hello.rs)
//!       -> requests: a round of the engine -> replies, from the same memory
//!       -> history: what the client has read by itself
//!       -> sent: the buffer is back
//!  every 10 ms: pushes, clients that are silent, buffers whose frozen time is over
//! ```

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;
use micanite_engine::{ChunkEntry, KeyHash};
use micanite_fabric::{
    Area, Buffer, Completion, Completions, Endpoint, EndpointOptions, Error, Operation, Peer, Unposted,
};
use micanite_wire::native::{self, Header, History, Kind};

use super::answering::Answering;
use super::buffers::BufferArea;
use super::client::{Arrival, Buffers, Client, ENTRIES_MAX, LIST_BYTES, RING_ENTRIES_MAX, State};
use super::counters::FabricCounters;
use super::outbox::FabricOutbox;
use super::shared::{FabricShared, identity};
use super::token::{Part, Token};
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
/// The coarse clock is behind by at most this.
const CLOCK_STEP_MS: u64 = 10;

/// A worker's endpoint, and its clients.
#[derive(Debug)]
pub struct FabricPort {
    pub(super) worker: usize,
    pub(super) endpoint: Endpoint,
    /// The cache area as it is registered in this endpoint.
    pub(super) area: Option<Area>,
    pub(super) clients: Box<[Client]>,
    /// The requests of clients, by place.
    pub(super) requests: Box<[Option<Buffer>]>,
    /// Free places.
    pub(super) free: Vec<u32>,
    /// Clients with requests that are not executed.
    arrived: VecDeque<Arrival>,
    /// Clients with a history that is not noted.
    reported: VecDeque<Arrival>,
    /// Places with a transfer that could not be started.
    pub(super) unfinished: VecDeque<u32>,
    pub(super) buffers: BufferArea<Buffers>,
    /// Buffers for hellos that are in no transfer.
    pub(super) spare: ArrayVec<Buffer, FABRIC_HELLOS>,
    /// Answers to hellos that could not be sent yet.
    pub(super) answers: VecDeque<(Peer, Buffer, usize)>,
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

/// Returns whether a transfer was that of a list, for which nobody waits: a worker that looked out for more
/// of them would use its CPU for reads that need none of it.
fn is_of_lists(completion: &Completion) -> bool {
    let token = Token::decode(completion.token);
    token.is_some_and(|token| matches!(token.part, Part::Push | Part::History))
}

impl FabricPort {
    /// Opens a worker's endpoint at its address.
    ///
    /// # Errors
    /// The provider refuses.
    pub fn open(worker: usize, settings: &FabricSettings, shared: &FabricShared) -> Result<Self, Error> {
        let places = settings.clients_max;
        let options = EndpointOptions {
            transfers_max: FABRIC_HELLOS as u32 + TRANSFERS_OF_CLIENT * places as u32,
            ..EndpointOptions::default()
        };
        let endpoint = Endpoint::listen(&settings.address_of(worker), &options)?;
        let region = shared.area.as_ref().map(|of| of.area.region().clone());
        let area = region.map(|region| endpoint.area(region)).transpose()?;
        let mut port = Self {
            worker,
            area,
            clients: (0..places).map(|_| Client::new()).collect(),
            requests: (0..places).map(|_| None).collect(),
            free: (0..places as u32).rev().collect(),
            // A place may stand there once more for a client that went.
            arrived: VecDeque::with_capacity(2 * places),
            reported: VecDeque::with_capacity(2 * places),
            unfinished: VecDeque::with_capacity(places),
            buffers: BufferArea::new(u64::from(settings.frozen_s) * 1000),
            spare: ArrayVec::new(),
            answers: VecDeque::with_capacity(FABRIC_HELLOS),
            answering: Answering::default(),
            hellos_missing: 0,
            strangers: VecDeque::with_capacity(FABRIC_STRANGERS_MAX),
            cookies: Cookies::new(shared.native.cookie_key),
            message_bytes: settings.message_bytes,
            frozen_ms: u64::from(settings.frozen_s) * 1000,
            push_ms: u64::from(settings.push_ms),
            pushed_ms: 0,
            maintained_ms: 0,
            endpoint,
        };
        for _ in 0..FABRIC_HELLOS {
            let buffer = port.endpoint.buffer(FABRIC_HELLO_BYTES)?;
            port.spare.push(buffer);
        }
        port.post_spare();
        Ok(port)
    }

    /// Memory of one client's buffers.
    pub const fn client_bytes(message_bytes: usize) -> usize {
        2 * message_bytes + 2 * LIST_BYTES
    }

    /// Memory of a worker's port beside them.
    pub const fn bytes(clients_max: usize) -> usize {
        let list_bytes = RING_ENTRIES_MAX * size_of::<native::ChunkEntry>();
        FABRIC_HELLOS * FABRIC_HELLO_BYTES + clients_max * (size_of::<Client>() + list_bytes)
    }

    /// Returns the descriptor that becomes readable when there may be messages, if there is one.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.endpoint.descriptor()
    }

    /// Returns whether the worker may sleep on the descriptor now.
    pub fn may_sleep(&mut self) -> bool {
        self.endpoint.may_sleep()
    }

    /// Returns whether there are clients.
    pub fn has_clients(&self) -> bool {
        self.free.len() < self.clients.len()
    }

    /// Returns whether requests wait for the next round.
    pub fn has_requests(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Returns whether something waits for the network or for the next push.
    pub fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty() || !self.answers.is_empty() || !self.spare.is_empty()
    }

    /// Takes what has come, and executes it. Returns the number of transfers that have ended, without those
    /// of lists.
    pub fn round(&mut self, context: &mut Context<'_>, clock: Clock) -> usize {
        let server = context.server;
        let Some(shared) = &server.shared.fabric else {
            return 0;
        };
        let mut completions = Completions::new();
        if self.endpoint.poll(&mut completions).is_err() {
            self.counters(shared).transfers_failed.add(1);
        }
        let count = completions.iter().filter(|completion| !is_of_lists(completion)).count();
        // A client takes the second of the reply for one after its request.
        let now_ms = clock.now_ms();
        context.now_s = seconds(now_ms);
        for completion in completions {
            self.take(completion, context, shared, now_ms);
        }
        context.worker.begin_turn();
        self.execute(context, shared, now_ms);
        self.note_histories(context, shared);
        self.retry(shared, now_ms);
        count
    }

    pub(super) fn counters<'s>(&self, shared: &'s FabricShared) -> &'s FabricCounters {
        &shared.counters[self.worker]
    }

    fn take(
        &mut self,
        completion: Completion,
        context: &mut Context<'_>,
        shared: &FabricShared,
        now_ms: u64,
    ) {
        let Completion { operation, token, peer, buffer, result } = completion;
        if result.is_err() && result != Err(Error::Cancelled) {
            self.counters(shared).transfers_failed.add(1);
        }
        let Some(token) = Token::decode(token) else {
            return;
        };
        match token.part {
            Part::Hello if operation == Operation::Greeting => {
                self.spare.push(buffer);
                if let Some(peer) = peer {
                    self.note_stranger(peer);
                }
            }
            Part::Hello => match (result, peer) {
                (Ok(bytes), Some(peer)) => self.hello((peer, buffer, bytes), context, shared, now_ms),
                _ => self.spare.push(buffer),
            },
            Part::HelloReply => {
                self.answering.end(token.generation);
                self.spare.push(buffer);
            }
            Part::Request | Part::Reply | Part::Push | Part::History => {
                self.take_part(token, (buffer, result), shared, now_ms);
            }
        }
        self.post_spare();
    }

    /// Takes back a client's buffer.
    fn take_part(
        &mut self,
        token: Token,
        (buffer, result): (Buffer, Result<usize, Error>),
        shared: &FabricShared,
        now_ms: u64,
    ) {
        let place = token.place as usize;
        let arrival = Arrival { place: token.place, generation: token.generation };
        // The buffer of a client that was given up is freed here.
        let Some(client) = self.clients.get_mut(place).filter(|client| client.generation == token.generation)
        else {
            return;
        };
        let counters = &shared.counters[self.worker];
        let is_live = client.state == State::Live;
        if result.is_ok() {
            client.used_ms = now_ms;
        }
        match (token.part, &result) {
            (Part::Request, result) => {
                self.requests[place] = Some(buffer);
                if let (Ok(bytes), true) = (result, is_live) {
                    counters.messages_received.add(1);
                    client.request_bytes = *bytes;
                    if client.reply.is_idle() {
                        self.arrived.push_back(arrival);
                    }
                }
            }
            (Part::Reply, _) => {
                client.reply.buffer = Some(buffer);
                // The client did not wait for its reply.
                if is_live && client.request_bytes > 0 {
                    self.arrived.push_back(arrival);
                }
            }
            (Part::Push, _) => client.push.buffer = Some(buffer),
            (_, result) => {
                if let (Ok(bytes), true) = (result, is_live) {
                    counters.messages_received.add(1);
                    client.history_bytes = *bytes;
                    self.reported.push_back(arrival);
                }
                client.history = Some(buffer);
            }
        }
        if result.is_err() && is_live {
            self.go(token.place, shared);
        }
        self.settle(token.place, shared);
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
            let token = Token::of(Part::Hello).encode();
            if let Err(Unposted { buffer, .. }) = self.endpoint.receive(buffer, token) {
                self.spare.push(buffer);
                return;
            }
        }
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
