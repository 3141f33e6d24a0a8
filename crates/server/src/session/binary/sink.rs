//! Replies of a batch, straight from the engine into the output.

use micanite_engine::{ItemMeta, Outcome, ReplySink, Request, ValueMeta};
use micanite_wire::memcache::binary::Head;
use micanite_wire::memcache::binary::reply::{self, Status, VALUE_HEADER_BYTES_MAX};
use micanite_wire::memcache::text::StoreVerb;

use super::super::sink::count;
use super::gather::{Pending, Role};
use super::{BATCH_REPLY_BYTES, SHORT_REPLY_BYTES_MAX};
use crate::output::Output;
use crate::telemetry::stats::Counters;

/// Takes the replies of one batch.
#[derive(Debug)]
pub(super) struct Sink<'s, 'i, 'o> {
    requests: &'s [Request<'i>],
    pending: &'s [Pending],
    output: &'s mut Output<'o>,
    counters: &'s Counters,
    /// Where the reply that is being written begins.
    start: usize,
    bytes_needed: usize,
    /// What is known of the item of a write.
    item: ItemMeta,
}

impl<'s, 'i, 'o> Sink<'s, 'i, 'o> {
    /// The output must have room for a short reply to each request.
    #[inline]
    pub fn new(
        requests: &'s [Request<'i>],
        pending: &'s [Pending],
        output: &'s mut Output<'o>,
        counters: &'s Counters,
    ) -> Self {
        Self { requests, pending, output, counters, start: 0, bytes_needed: 0, item: ItemMeta::default() }
    }

    /// How large an empty output has to be for the reply that had no room.
    pub fn bytes_needed(&self) -> usize {
        self.bytes_needed
    }

    /// Room for `value_bytes` behind `header_bytes` more, with short replies to all that is left.
    #[inline]
    fn has_room(&mut self, index: usize, bytes: usize) -> bool {
        let kept_bytes = (self.requests.len() - index) * SHORT_REPLY_BYTES_MAX;
        self.bytes_needed = bytes + BATCH_REPLY_BYTES;
        self.output.room() >= bytes + kept_bytes
    }

    #[inline]
    fn finish_get(&mut self, index: usize, outcome: Outcome, with_key: bool) {
        let pending = &self.pending[index];
        // The reply to a hit is complete with its value.
        if outcome == Outcome::Hit || outcome == Outcome::NotFound && pending.quiet {
            return;
        }
        let key = self.requests[index].key;
        self.output.push_with(|out| match outcome {
            Outcome::NotFound if with_key => reply::miss_with_key(out, pending.head, key),
            other => reply::error(out, pending.head, status(None, other)),
        });
    }

    /// Answers a write.
    #[inline]
    fn finish_write(&mut self, index: usize, outcome: Outcome, verb: Option<StoreVerb>) {
        let pending = &self.pending[index];
        let status = status(verb, outcome);
        if status != Status::Ok {
            return fail(self.output, pending.head, status);
        }
        if pending.quiet {
            return;
        }
        let cas = self.item.cas;
        self.output.push_with(|out| match outcome {
            Outcome::Number(number) => reply::number(out, pending.head, number, cas),
            Outcome::Stored => reply::done(out, pending.head, cas),
            _ => reply::done(out, pending.head, 0),
        });
    }

    fn finish_touch(&mut self, index: usize, outcome: Outcome) {
        let pending = &self.pending[index];
        match status(None, outcome) {
            Status::Ok => {
                let words = (self.item.flags, self.item.cas);
                self.output.push_with(|out| reply::value_header(out, pending.head, words, &[], 0));
            }
            status => fail(self.output, pending.head, status),
        }
    }
}

impl ReplySink for Sink<'_, '_, '_> {
    #[inline]
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        let pending = self.pending[index];
        let with_key = pending.role == Role::Get { with_key: true };
        if !self.has_room(index, VALUE_HEADER_BYTES_MAX + meta.value_bytes) {
            return None;
        }
        self.start = self.output.filled();
        let key = if with_key { self.requests[index].key } else { &[] };
        self.output.push_with(|out| {
            let words = (meta.flags, meta.cas);
            reply::value_header(out, pending.head, words, key, meta.value_bytes)
        });
        Some(self.output.give(meta.value_bytes))
    }

    fn rollback(&mut self, _: usize) {
        self.output.truncate(self.start);
    }

    #[inline]
    fn describe(&mut self, _: usize, item: ItemMeta) {
        self.item = item;
    }

    #[inline]
    fn finish(&mut self, index: usize, outcome: Outcome) {
        let pending = self.pending[index];
        match pending.role {
            Role::Get { with_key } => self.finish_get(index, outcome, with_key),
            Role::Touch => self.finish_touch(index, outcome),
            Role::Write(verb) => self.finish_write(index, outcome, verb),
        }
        // A number that the request has begun was neither there nor missed.
        let begun = matches!(outcome, Outcome::Number(_)) && self.item.created;
        if !begun {
            count(self.counters, pending.kind, outcome);
        }
    }
}

/// What the client is told of an outcome; `verb` is that of a store.
#[inline]
pub(super) fn status(verb: Option<StoreVerb>, outcome: Outcome) -> Status {
    let joins = matches!(verb, Some(StoreVerb::Append | StoreVerb::Prepend));
    match outcome {
        Outcome::Hit | Outcome::Stored | Outcome::Deleted | Outcome::Touched | Outcome::Number(_) => {
            Status::Ok
        }
        Outcome::NotFound => Status::NotFound,
        Outcome::Exists => Status::Exists,
        Outcome::NotStored => match verb {
            Some(StoreVerb::Add) => Status::Exists,
            Some(StoreVerb::Replace) => Status::NotFound,
            _ => Status::NotStored,
        },
        Outcome::TooLarge if joins => Status::NotStored,
        Outcome::TooLarge => Status::TooLarge,
        Outcome::NotANumber => Status::NotANumber,
        // As with text: owners are asked, and the engine waits by itself.
        Outcome::OutOfMemory | Outcome::NotOwner | Outcome::Busy => Status::OutOfMemory,
    }
}

/// Writes an error.
pub(super) fn fail(output: &mut Output<'_>, head: Head, status: Status) {
    output.push_with(|out| reply::error(out, head, status));
}
