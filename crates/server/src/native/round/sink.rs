//! Replies of a batch, straight from the engine into the datagrams that will be sent.

use micanite_engine::{ChunkEntry, Outcome, ReplySink, ValueMeta};
use micanite_wire::native::{Header, Opcode, ReplyEntry, ReplyWriter, Status};

use super::outbox::{Outbox, Part, Source};
use crate::native::NativeShared;
use crate::native::counters::NativeCounters;
use crate::native::ids::ClientKey;
use crate::session::{Kind, count};
use crate::telemetry::table::Counters;

/// A datagram that is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Number of the datagram in the round.
    pub serial: u64,
    /// Header of the reply.
    pub header: Header,
    /// Source of the request's datagram.
    pub source: Source,
    /// Requests in it.
    pub requests: u16,
    /// The longest reply.
    pub limit: usize,
    /// The address is proved.
    pub proven: bool,
}

impl Head {
    /// Returns the identity of the client. It is computed on demand, because few requests have a number.
    #[inline]
    pub fn client(&self) -> ClientKey {
        ClientKey::of(self.source.peer, self.header.client)
    }
}

/// Facts that the sink needs about a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Index of its datagram in the batch.
    pub head: u8,
    pub opcode: Opcode,
    pub wants_cas: bool,
    pub hash: u64,
    /// 0 for none.
    pub id: u64,
}

/// A reply that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    serial: u64,
    header: Header,
    writer: ReplyWriter,
}

impl Open {
    /// Begins the reply to a datagram, if it is not this one already.
    #[inline]
    pub fn switch<O: Outbox>(open: &mut Option<Self>, head: &Head, out: &mut O) {
        match open {
            Some(open) if open.serial == head.serial => {}
            _ => {
                Self::close(open, out);
                out.open(head.source);
                *open = Some(Self {
                    serial: head.serial,
                    header: head.header,
                    writer: ReplyWriter::new(head.limit),
                });
            }
        }
    }

    /// Completes the open reply, if there is one.
    #[inline]
    pub fn close<O: Outbox>(open: &mut Option<Self>, out: &mut O) {
        if let Some(open) = open.take() {
            let bytes = open.writer.finish(out.slot(), &open.header);
            out.commit(bytes);
        }
    }

    /// Adds a reply without a value.
    #[inline]
    pub fn push<O: Outbox>(&mut self, out: &mut O, (opcode, status): (Opcode, Status), hash: u64, word: u64) {
        let writer = &mut self.writer;
        // A request is at least as long as the shortest reply to it, so there is room for this.
        let fits = ReplyWriter::short_reply_bytes(opcode, status) <= writer.room();
        let status = if fits { status } else { Status::NoRoom };
        writer.push(out.slot(), (opcode, status), hash, word);
    }
}

/// Takes the replies of one batch.
pub(super) struct Sink<'s, O> {
    pub plans: &'s [Plan],
    pub heads: &'s [Head],
    pub open: &'s mut Option<Open>,
    pub out: &'s mut O,
    pub native: &'s NativeShared,
    pub counters: &'s Counters,
    pub native_counters: &'s NativeCounters,
    pub value_bytes_max: u64,
    /// Reason why there was no room.
    pub denied: Status,
    /// Length of the value that is being written.
    pub value_bytes: usize,
    /// Entry of the item that is found, for a client of a fabric.
    pub entry: Option<ReplyEntry>,
}

impl<O: Outbox> Sink<'_, O> {
    /// The batch goes on after so many requests, which count from there.
    pub fn skip(&mut self, requests: usize) {
        self.plans = &self.plans[requests..];
    }

    /// Writes the reply to a request that asked for a value which it does not get.
    pub fn deny(&mut self, index: usize) {
        let (plan, status) = (&self.plans[index], self.denied);
        let counter = match status {
            Status::Unproven => &self.native_counters.unproven,
            _ => &self.native_counters.no_room,
        };
        counter.add(1);
        self.push(plan, status, 0);
    }

    /// Answers a request that was not executed, for the turn is over: it may be sent again.
    #[cold]
    pub fn refuse(&mut self, index: usize) {
        let (plan, status) = (&self.plans[index], Status::SlowDown);
        self.native_counters.turned_away.add(1);
        if plan.id != 0 {
            let client = self.heads[usize::from(plan.head)].client();
            self.native.ids.finish(client, plan.id, status, 0);
        }
        self.push(plan, status, 0);
    }

    #[inline]
    fn push(&mut self, plan: &Plan, status: Status, word: u64) {
        Open::switch(self.open, &self.heads[usize::from(plan.head)], self.out);
        if let Some(open) = self.open {
            open.push(self.out, (plan.opcode, status), plan.hash, word);
        }
    }

    /// Completes the reply to a request.
    #[inline]
    fn complete(&mut self, index: usize, outcome: Outcome) {
        let plan = &self.plans[index];
        if let Some(kind) = kind(plan.opcode) {
            count(self.counters, kind, outcome);
        }
        let entry = self.entry.take().filter(|_| O::IS_FABRIC);
        if outcome == Outcome::Hit {
            if let Some(open) = self.open {
                match entry {
                    Some(_) => open.writer.end_value_with_entry(self.value_bytes, plan.wants_cas),
                    None => open.writer.end_value(self.value_bytes, plan.wants_cas),
                }
            }
            return;
        }
        let (status, word) = match outcome {
            Outcome::Hit | Outcome::Stored | Outcome::Deleted | Outcome::Touched => (Status::Ok, 0),
            Outcome::Number(number) => (Status::Ok, number),
            Outcome::NotStored => (Status::NotStored, 0),
            Outcome::Exists => (Status::Exists, 0),
            Outcome::NotFound => (Status::NotFound, 0),
            Outcome::NotANumber => (Status::NotANumber, 0),
            Outcome::TooLarge => (Status::TooLarge, self.value_bytes_max),
            // Owners are asked, and the engine waits by itself.
            Outcome::OutOfMemory | Outcome::NotOwner | Outcome::Busy => (Status::OutOfSpace, 0),
        };
        if plan.id != 0 {
            let client = self.heads[usize::from(plan.head)].client();
            self.native.ids.finish(client, plan.id, status, word);
        }
        self.push(plan, status, word);
    }
}

impl<O: Outbox> ReplySink for Sink<'_, O> {
    #[inline]
    fn entry(&mut self, index: usize, entry: ChunkEntry) {
        let plan = &self.plans[index];
        match plan.opcode {
            Opcode::Get => {
                let ChunkEntry { offset, version, bytes } = entry;
                self.entry = Some(ReplyEntry { offset, version, bytes });
            }
            _ => self.out.note_entry(self.heads[usize::from(plan.head)].source, plan.hash, entry),
        }
    }

    #[inline]
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        // The engine's copy of the value belongs to the reply: it ends with `Self::finish`.
        self.out.begin(Part::Replies);
        let plan = &self.plans[index];
        let head = &self.heads[usize::from(plan.head)];
        Open::switch(self.open, head, self.out);
        let open = self.open.as_mut()?;
        let entry = self.entry.filter(|_| O::IS_FABRIC);
        let entry_bytes = if entry.is_some() { ReplyWriter::ENTRY_BYTES } else { 0 };
        let bytes = ReplyWriter::value_reply_bytes(meta.value_bytes, plan.wants_cas) + entry_bytes;
        let after = usize::from(head.requests - open.writer.count()) - 1;
        let kept = after * ReplyWriter::SHORT_BYTES_MAX;
        if bytes + kept > open.writer.room() {
            self.denied = match head.proven {
                false => Status::Unproven,
                true if Header::BYTES + bytes > head.limit => Status::UseStream,
                true => Status::NoRoom,
            };
            self.entry = None;
            self.out.begin(Part::Engine);
            return None;
        }
        self.value_bytes = meta.value_bytes;
        let cas = plan.wants_cas.then_some(meta.cas);
        let what = (plan.opcode, meta.flags, plan.hash);
        let slot = self.out.slot();
        if let Some(entry) = &entry {
            let item = (meta.flags, plan.hash);
            return Some(open.writer.begin_value_with_entry(slot, item, (cas, entry), meta.value_bytes));
        }
        Some(open.writer.begin_value(slot, what, cas, meta.value_bytes))
    }

    #[inline]
    fn rollback(&mut self, _: usize) {
        // Nothing counts before the value is complete.
    }

    #[inline]
    fn finish(&mut self, index: usize, outcome: Outcome) {
        self.out.begin(Part::Replies);
        self.complete(index, outcome);
        self.out.begin(Part::Engine);
    }
}

/// Returns the kind by which the general statistics count a request.
#[inline]
fn kind(opcode: Opcode) -> Option<Kind> {
    Some(match opcode {
        Opcode::Noop => return None,
        Opcode::Get => Kind::Get,
        Opcode::GetAndTouch => Kind::GetAndTouch,
        Opcode::Set | Opcode::Add | Opcode::Replace | Opcode::Append | Opcode::Prepend => Kind::Store,
        Opcode::Cas => Kind::Cas,
        Opcode::Delete => Kind::Delete,
        Opcode::Touch => Kind::Touch,
        Opcode::Increment => Kind::Increment,
        Opcode::Decrement => Kind::Decrement,
    })
}
