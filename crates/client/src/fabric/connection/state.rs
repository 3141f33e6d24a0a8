//! State that a connection keeps when its session ends.

use std::collections::VecDeque;

use micanite_chunks::{Entry, Geometry};
use micanite_fabric::RemoteArea;
use micanite_wire::hash::KeyHash;
use micanite_wire::native::{Header, HelloReply, Opcode, Request, request_bytes};

use super::{Context, MS};
use crate::driver::{Ids, SubmitError, request};
use crate::fabric::batch::{OWN_TOKEN, Record, Waiting};
use crate::fabric::keys::{Entries, History, Writes};
use crate::fabric::options::{FabricOptions, Reads};
use crate::operation::{Completion, Operation, Outcome};
use crate::random::Random;

/// Requests that wait for a session, those of the last one among them.
const WAITING_MAX: usize = 512;
/// A server that takes clients for gone sooner hears of them often enough not to.
const FROZEN_NS_MIN: u64 = 100 * MS;
/// Time between two looks at deadlines.
const EXPIRE_NS: u64 = 5 * MS;

/// Facts of a session, from the reply to its hello.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) hello: HelloReply,
    pub(super) area: Option<Area>,
    pub(super) message_bytes: usize,
    pub(super) value_bytes_max: u32,
}

/// A server's cache area.
#[derive(Clone, Debug)]
pub(super) struct Area {
    pub(super) remote: RemoteArea,
    pub(super) geometry: Geometry,
}

impl Facts {
    pub(super) fn new(hello: &HelloReply, reads: Reads) -> Self {
        let (key, base, bytes) = (hello.area_key, hello.area_base, hello.area_bytes);
        let bits = u32::from(hello.partition_bits);
        let (page_bytes, pages) = (hello.page_bytes as usize, hello.pages as usize);
        let geometry = Geometry::of_pages(bits, page_bytes, pages);
        let fits = |geometry: &Geometry| geometry.bytes() as u64 <= bytes && reads != Reads::TwoSided;
        let remote = RemoteArea { key, base, bytes };
        let frozen_ns = hello.frozen_ns.max(FROZEN_NS_MIN);
        Self {
            hello: HelloReply { frozen_ns, ..*hello },
            area: geometry.filter(fits).map(|geometry| Area { remote, geometry }),
            message_bytes: hello.message_bytes_max as usize,
            value_bytes_max: hello.value_bytes_max,
        }
    }
}

/// Entries, ids and unanswered requests of a server.
#[derive(Debug)]
pub(super) struct State {
    /// Number of the client, which the server remembers ids by.
    pub(super) nonce: u64,
    pub(super) client: u32,
    pub(super) random: Random,
    pub(super) ids: Ids,
    pub(super) entries: Entries,
    pub(super) history: History,
    pub(super) writes: Writes,
    /// Requests that a message will carry again, or at last.
    pub(super) waiting: VecDeque<Waiting>,
    /// Facts of the last session.
    pub(super) facts: Option<Facts>,
    /// Expected length of a value.
    pub(super) value_bytes: f32,
    pub(super) sequence: u32,
    expire_at: u64,
}

impl State {
    pub(super) fn new(options: &FabricOptions, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let nonce = random.next();
        Self {
            nonce,
            client: (nonce as u32).max(1),
            random,
            ids: Ids::new(),
            entries: Entries::new(options.entries_max),
            history: History::new(),
            writes: Writes::new(),
            waiting: VecDeque::new(),
            facts: None,
            value_bytes: 64.0,
            sequence: 0,
            expire_at: 0,
        }
    }

    /// Takes over the facts of a new session.
    pub(super) fn begin(&mut self, facts: &Facts) {
        let hello = &facts.hello;
        self.ids.set_window(hello.ids_window);
        let before = self.facts.replace(facts.clone());
        let before = before.map(|facts| (facts.hello.incarnation, facts.hello.hash_seed));
        if before != Some((hello.incarnation, hello.hash_seed)) {
            self.entries.clear();
            self.history.clear();
            self.writes.settle_all();
            self.hash_anew(hello.hash_seed);
        }
    }

    /// Ends requests whose deadlines have passed at the next call of [`Self::expire`].
    pub(super) fn expire_soon(&mut self) {
        self.expire_at = 0;
    }

    /// Hashes the keys of waiting requests with another seed.
    fn hash_anew(&mut self, seed: u64) {
        for waiting in &mut self.waiting {
            let Some((mut request, _)) = Request::read(&waiting.bytes) else {
                continue; // it only waits for its end
            };
            let hash = match request.opcode {
                Opcode::Noop => 0,
                _ => KeyHash::of(request.key, seed).0,
            };
            if waiting.record.opcode.writes() {
                self.writes.end(waiting.record.hash);
                self.writes.begin(hash);
            }
            request.hash = hash;
            waiting.record.hash = hash;
            let mut bytes = vec![0; waiting.bytes.len()];
            if request.write(&mut bytes).is_ok() {
                waiting.bytes = bytes.into();
            }
        }
    }

    /// Builds the request of an operation, and notes what is open until its reply.
    pub(super) fn begin_request<'a>(
        &mut self,
        operation: &Operation<'a>,
        (hash, message_bytes): (u64, usize),
        (token, deadline_at): (u64, u64),
        wants_entry: bool,
    ) -> Result<(Record, Request<'a>), SubmitError> {
        let opcode = operation.opcode;
        let value_bytes = if opcode.has_value() { operation.value.len() } else { 0 };
        if Header::BYTES + request_bytes(opcode, operation.key.len(), value_bytes) > message_bytes {
            return Err(SubmitError::TooLong);
        }
        let id = match opcode.has_id() {
            true => self.ids.take_last().ok_or(SubmitError::Full)?,
            false => 0,
        };
        let mut request = request(operation, hash, id);
        request.wants_entry = wants_entry && opcode == Opcode::Get;
        if opcode.writes() {
            self.writes.begin(hash);
        }
        Ok((Record::new(token, &request, deadline_at), request))
    }

    /// Takes back a request that found no room.
    pub(super) fn cancel_request(&mut self, record: &Record) {
        self.ids.untake(record.id);
        if record.opcode.writes() {
            self.writes.end(record.hash);
        }
    }

    /// Accepts an operation while there is no session, if there was one: it waits for the next.
    pub(super) fn submit_waiting(
        &mut self,
        operation: &Operation<'_>,
        token: u64,
        now_ns: u64,
        context: &Context,
    ) -> Result<(), SubmitError> {
        let Some(facts) = &self.facts else {
            return Err(SubmitError::ServerDown { server: 0 });
        };
        let (message_bytes, wants_entry) = (facts.message_bytes, facts.area.is_some());
        let hash = match operation.opcode {
            Opcode::Noop => 0,
            _ => KeyHash::of(operation.key, facts.hello.hash_seed).0,
        };
        let mut waits_bytes = 0;
        self.waiting.iter().for_each(|waiting| waits_bytes += waiting.bytes.len());
        if self.waiting.len() >= WAITING_MAX || waits_bytes > message_bytes {
            return Err(SubmitError::Full);
        }
        let deadline_at = now_ns.saturating_add(context.options.deadline_ns);
        let sizes = (hash, message_bytes);
        let begun = self.begin_request(operation, sizes, (token, deadline_at), wants_entry);
        let (record, request) = begun?;
        if record.opcode.writes() {
            self.entries.forget(hash);
        }
        self.wait(record, &request, now_ns);
        Ok(())
    }

    /// Keeps a request for a later message.
    pub(super) fn wait(&mut self, record: Record, request: &Request<'_>, due_at: u64) {
        let length = request_bytes(request.opcode, request.key.len(), request.value.len());
        let mut bytes = vec![0; length];
        if request.write(&mut bytes).is_ok() {
            self.waiting.push_back(Waiting { record, bytes: bytes.into(), due_at });
        }
    }

    /// Ends a request; `is_lost`: there was no reply, and it may have been executed.
    pub(super) fn end_request(&mut self, record: &Record, is_lost: bool) {
        self.ids.end(record.id);
        if record.opcode.writes() {
            self.writes.end(record.hash);
            if is_lost {
                self.writes.lose(record.hash);
            }
        }
    }

    /// Ends a request without a reply.
    pub(super) fn end_without_reply(
        &mut self,
        record: &Record,
        (outcome, was_sent): (Outcome, bool),
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        self.end_request(record, was_sent);
        context.counters.timed_out += u64::from(outcome == Outcome::TimedOut && record.token != OWN_TOKEN);
        let mut completion = Completion::without_reply(record.token, record.opcode, outcome);
        completion.resent = record.resent;
        end(completion, context, sink);
    }

    /// Ends waiting requests whose deadline is over.
    #[inline]
    pub(super) fn expire(
        &mut self,
        now_ns: u64,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        if now_ns >= self.expire_at {
            self.expire_at = now_ns + EXPIRE_NS;
            self.end_waiting_if(|record| now_ns >= record.deadline_at, Outcome::TimedOut, context, sink);
        }
    }

    /// Ends all waiting requests. Those that may have been executed time out.
    pub(super) fn end_waiting(
        &mut self,
        outcome: Outcome,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        self.end_waiting_if(|_| true, outcome, context, sink);
    }

    fn end_waiting_if(
        &mut self,
        ends: impl Fn(&Record) -> bool,
        outcome: Outcome,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        let mut number = 0;
        while let Some(waiting) = self.waiting.get(number) {
            if !ends(&waiting.record) {
                number += 1;
                continue;
            }
            let Some(Waiting { record, .. }) = self.waiting.remove(number) else {
                return;
            };
            let outcome = if record.resent { Outcome::TimedOut } else { outcome };
            self.end_without_reply(&record, (outcome, record.resent), context, sink);
        }
    }

    /// Keeps an entry that the server told, if it leads into the cache area; returns whether it does.
    pub(super) fn learn(&mut self, hash: u64, entry: Entry, area: &Area) -> bool {
        let is_valid = entry.version != 0 && area.geometry.contains(entry);
        if is_valid {
            self.entries.insert(hash, entry);
        }
        is_valid
    }

    /// Updates the expected length of values.
    pub(super) fn learn_value_bytes(&mut self, mean: f32) {
        let share = if mean > self.value_bytes { 4.0 } else { 16.0 };
        self.value_bytes += (mean - self.value_bytes) / share;
    }
}

/// Passes a completion to the caller, unless the operation was the connection's own.
#[inline]
pub(super) fn end(completion: Completion<'_>, context: &mut Context, sink: &mut impl FnMut(Completion<'_>)) {
    if completion.token != OWN_TOKEN {
        context.counters.completed += 1;
        sink(completion);
    }
}
