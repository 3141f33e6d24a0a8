//! A round: the datagrams of a burst, gathered into batches of the engine, answered in order.
//!
//! ```text
//!  datagram -> header -> address proved? -> ours? -> requests -> batch of up to 64 -> engine -> sink
//!                 |                           '- no: to the owner, by a ring
//!                 '- directory, refusals: answered at once
//! ```

mod answers;
mod operation;
pub mod outbox;
mod sink;

use arrayvec::ArrayVec;
use micanite_engine::{Access, BATCH_REQUESTS_MAX, KeyHash, Request};
use micanite_wire::native::{self as wire, Header, HeaderError, Kind, Opcode, Requests, Status};

use crate::limits::{FABRIC_REQUESTS_MAX, REQUESTS_BEHIND_DENIED, ROUND_REQUESTS_MAX};
use crate::native::NativeShared;
use crate::native::cookie::{Cookies, Proof};
use crate::native::counters::NativeCounters;
use crate::native::ids::Begin;
use crate::session::Context;
use operation::operation;
use outbox::{Outbox, Part, Source};
use sink::{Head, Open, Plan, Sink};

/// Result of taking a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is answered, or will be by the end of the round, or needs no answer.
    Done,
    /// It is for another worker.
    Elsewhere {
        /// The worker that has to execute it.
        owner: usize,
    },
}

/// A round of one worker. `'d` is the lifetime of the datagrams.
pub struct Round<'a, 'd, O> {
    context: Context<'a>,
    native: &'a NativeShared,
    counters: &'a NativeCounters,
    cookies: &'a mut Cookies,
    out: &'a mut O,
    /// Generation of the routes.
    generation: u32,
    /// Share of lost datagrams that replies report.
    pressure: u16,
    serial: u64,
    open: Option<Open>,
    requests: ArrayVec<Request<'d>, BATCH_REQUESTS_MAX>,
    plans: ArrayVec<Plan, BATCH_REQUESTS_MAX>,
    heads: ArrayVec<Head, BATCH_REQUESTS_MAX>,
    /// Requests that came, and datagrams without one.
    taken: usize,
}

impl<'a, 'd, O: Outbox + Send> Round<'a, 'd, O> {
    /// An empty round.
    #[inline]
    pub fn new(
        context: Context<'a>,
        native: &'a NativeShared,
        cookies: &'a mut Cookies,
        out: &'a mut O,
        pressure: u16,
    ) -> Self {
        context.worker.begin_turn();
        Self {
            counters: &native.counters[context.worker.number()],
            generation: native.generation(context.worker.cache()),
            context,
            native,
            cookies,
            out,
            pressure,
            serial: 0,
            open: None,
            requests: ArrayVec::new(),
            plans: ArrayVec::new(),
            heads: ArrayVec::new(),
            taken: 0,
        }
    }

    /// Returns whether the round has taken enough. Further datagrams wait for the next one, if they can.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.taken >= ROUND_REQUESTS_MAX || self.context.worker.is_spent()
    }

    /// Takes a datagram. `stays`: nobody else is to take it, for another worker has forwarded it or
    /// cannot answer; what only its owner may do is asked of the owner then.
    #[inline]
    pub fn take(&mut self, datagram: &'d [u8], source: Source, stays: bool) -> Taken {
        self.taken += 1;
        if datagram.len() > self.native.payload_bytes {
            // GRO lets it through. Neither its replies nor a ring might have room.
            self.counters.bad_datagrams.add(1);
            return Taken::Done;
        }
        if source.peer.port() == 0 {
            // No reply reaches port 0.
            self.counters.not_ours.add(1);
            return Taken::Done;
        }
        let header = match Header::read(datagram) {
            Ok(header) => header,
            Err(HeaderError::NotOurs) => {
                self.counters.not_ours.add(1);
                return Taken::Done;
            }
            Err(HeaderError::Refused { status, header }) => {
                self.refuse(&header, source, status);
                return Taken::Done;
            }
        };
        match header.kind {
            Kind::Requests => self.take_requests(header, datagram, source, stays),
            Kind::DirectoryRequest => {
                self.answer_directory(header, datagram, source);
                Taken::Done
            }
            // Servers send this kind, or it is for fabrics only.
            _ => {
                self.counters.not_ours.add(1);
                Taken::Done
            }
        }
    }

    #[inline]
    fn take_requests(&mut self, header: Header, datagram: &'d [u8], source: Source, stays: bool) -> Taken {
        let checked = match O::IS_FABRIC {
            true if header.count > FABRIC_REQUESTS_MAX => Err(wire::BadRequest),
            true => Requests::check_with_entries(datagram, header.count),
            false => Requests::check(datagram, header.count),
        };
        let Ok(requests) = checked else {
            self.refuse(&header, source, Status::BadRequest);
            return Taken::Done;
        };
        let is_stale = header.generation != self.generation;
        if !stays {
            if is_stale {
                self.counters.stale.add(1);
            }
            if let Some(owner) = self.elsewhere(&header, is_stale, &requests) {
                return Taken::Elsewhere { owner };
            }
        }
        self.counters.requests.add(u64::from(header.count));
        self.taken += usize::from(header.count).saturating_sub(1);
        let head = self.head(&header, datagram, source);
        for request in requests {
            self.add(&head, header.resent, is_stale, request);
        }
        Taken::Done
    }

    /// Returns the worker that has to execute a datagram instead of this one.
    #[inline]
    fn elsewhere(&self, header: &Header, is_stale: bool, requests: &Requests<'d>) -> Option<usize> {
        if self.context.shared.wakers.len() == 1 {
            return None;
        }
        let cache = self.context.worker.cache();
        let partition = match requests.clone().next() {
            Some(first) if is_stale => cache.partition_of(cache.hash(first.key)),
            _ => usize::from(header.partition),
        };
        let route = cache.route(partition)?;
        let is_here = match route.access {
            Access::Erew => false,
            Access::Crew => !header.writes,
            Access::Crcw => true,
        };
        (!is_here && route.owner != self.context.worker.number()).then_some(route.owner)
    }

    /// Answers a datagram that could not be handed to its owner.
    #[cold]
    pub fn turn_away(&mut self, datagram: &'d [u8], source: Source) {
        let Ok(header) = Header::read(datagram) else {
            return;
        };
        let Ok(requests) = Requests::check(datagram, header.count) else {
            return;
        };
        let knows = header.generation == self.generation;
        let status = if knows { Status::SlowDown } else { Status::Moved };
        let head = self.head(&header, datagram, source);
        for request in requests {
            self.answer(&head, (request.opcode, status), request.hash, 0);
        }
    }

    /// Builds the header of the replies to a datagram.
    #[inline]
    fn head(&mut self, header: &Header, datagram: &[u8], source: Source) -> Head {
        let proof = self.prove(header, source);
        let limit = match proof.proven {
            true => self.out.limit(source, self.native.payload_bytes),
            false => datagram.len().min(self.native.payload_bytes),
        };
        self.serial += 1;
        Head {
            serial: self.serial,
            header: Header {
                generation: self.generation,
                pressure: self.pressure,
                slow_down: self.pressure != 0,
                cookie: proof.renewal,
                ..header.reply(Kind::Replies)
            },
            source,
            requests: header.count,
            limit,
            proven: proof.proven,
        }
    }

    /// Checks what a datagram proves of its source; returns what the reply says of it.
    #[inline]
    fn prove(&mut self, header: &Header, source: Source) -> Proof {
        match O::IS_FABRIC {
            true => Proof { proven: true, renewal: self.out.second() },
            false => self.cookies.check(source.peer, header.cookie, self.context.now_s),
        }
    }

    /// Adds a request to the batch, or answers it.
    #[inline]
    fn add(&mut self, head: &Head, resent: bool, is_stale: bool, request: wire::Request<'d>) {
        let opcode = request.opcode;
        let mut hash = KeyHash(request.hash);
        // The entry of an item is found by its hash, which clients must not choose.
        if opcode.writes() || is_stale || (O::IS_FABRIC && request.wants_entry) {
            if opcode == Opcode::Noop {
                self.answer(head, (opcode, Status::Ok), request.hash, 0);
                return;
            }
            if opcode.writes() && !head.proven {
                self.counters.unproven.add(1);
                self.answer(head, (opcode, Status::Unproven), request.hash, 0);
                return;
            }
            if self.context.worker.is_spent() {
                self.counters.turned_away.add(1);
                self.answer(head, (opcode, Status::SlowDown), request.hash, 0);
                return;
            }
            hash = self.context.worker.cache().hash(request.key);
            if hash.0 != request.hash && !is_stale {
                self.counters.bad_requests.add(1);
                self.answer(head, (opcode, Status::BadRequest), request.hash, 0);
                return;
            }
            if opcode.has_id() && !self.begin(head, resent, &request) {
                return;
            }
        }
        let Some(operation) = operation::<O>(&request, self.context.now_s) else {
            self.answer(head, (opcode, Status::Ok), request.hash, 0);
            return;
        };
        if self.requests.is_full() {
            self.flush();
        }
        if self.heads.last().is_none_or(|last| last.serial != head.serial) {
            self.heads.push(*head);
        }
        self.plans.push(Plan {
            head: (self.heads.len() - 1) as u8,
            opcode,
            wants_cas: request.wants_cas,
            hash: request.hash,
            id: request.id,
        });
        self.requests.push(Request { hash, key: request.key, operation });
    }

    /// Looks whether a numbered request was executed already; if so, answers it.
    fn begin(&mut self, head: &Head, resent: bool, request: &wire::Request<'_>) -> bool {
        let ids = &self.native.ids;
        let (id, now_s) = ((request.id, resent), self.context.now_s);
        let client = head.client();
        let mut begin = ids.begin(client, id, now_s);
        if begin == Begin::Busy {
            // Perhaps it waits in this very batch.
            self.flush();
            begin = ids.begin(client, id, now_s);
        }
        let (status, number) = match begin {
            Begin::Execute => return true,
            Begin::Answer { status, number } => {
                self.counters.answered_again.add(1);
                (status, number)
            }
            Begin::Busy => (Status::SlowDown, 0),
            Begin::Forgotten => {
                self.counters.forgotten.add(1);
                (Status::Forgotten, 0)
            }
        };
        self.answer(head, (request.opcode, status), request.hash, number);
        false
    }

    /// Answers a request that does not reach the engine, after those before it.
    #[cold]
    fn answer(&mut self, head: &Head, what: (Opcode, Status), hash: u64, word: u64) {
        self.flush();
        self.out.begin(Part::Replies);
        Open::switch(&mut self.open, head, self.out);
        if let Some(open) = &mut self.open {
            open.push(self.out, what, hash, word);
        }
        self.out.begin(Part::Requests);
    }

    /// Executes the batch.
    #[inline]
    fn flush(&mut self) {
        self.out.begin(Part::Engine);
        let mut sink = Sink {
            plans: &self.plans,
            heads: &self.heads,
            open: &mut self.open,
            out: &mut *self.out,
            native: self.native,
            counters: self.context.counters,
            native_counters: self.counters,
            value_bytes_max: self.context.worker.cache().value_bytes_max() as u64,
            denied: Status::NoRoom,
            value_bytes: 0,
            entry: None,
        };
        let mut requests = self.requests.as_slice();
        let mut batch_requests = BATCH_REQUESTS_MAX;
        while !requests.is_empty() {
            if self.context.worker.is_spent() {
                (0..requests.len()).for_each(|index| sink.refuse(index));
                break;
            }
            let batch = &requests[..requests.len().min(batch_requests)];
            let done = self.context.execute(batch, &mut sink);
            requests = &requests[done..];
            sink.skip(done);
            if done == batch.len() || self.context.worker.is_spent() {
                continue;
            }
            // Each value that has no room causes the requests behind it to be looked up again, so the next
            // batches are short.
            batch_requests = REQUESTS_BEHIND_DENIED;
            if let Some((_, rest)) = requests.split_first() {
                sink.deny(0);
                requests = rest;
                sink.skip(1);
            }
        }
        self.requests.clear();
        self.plans.clear();
        self.heads.clear();
        self.out.begin(Part::Requests);
    }

    /// Executes what is left, and completes the last reply.
    #[inline]
    pub fn finish(mut self) {
        self.flush();
        self.out.begin(Part::Replies);
        Open::close(&mut self.open, self.out);
    }
}
