//! Replies of a batch, straight from the engine into the output.

use micanite_engine::{Outcome, ReplySink, Request, ValueMeta};
use micanite_wire::memcache::binary::Head;
use micanite_wire::memcache::binary::reply::{self, Status, VALUE_HEADER_BYTES_MAX};
use micanite_wire::memcache::text::StoreVerb;

use super::super::sink::count;
use super::gather::{Pending, Role};
use super::{BATCH_REPLY_BYTES, Output, REPLACED, SHORT_REPLY_BYTES_MAX};
use crate::stats::Counters;

/// Longest value that is a number, padding included.
const NUMBER_BYTES_MAX: usize = 64;

// A number is read back into the room that is kept for its reply.
const _: () = assert!(NUMBER_BYTES_MAX <= SHORT_REPLY_BYTES_MAX);

/// How the write before a read-back ended.
#[derive(Clone, Copy, Debug)]
enum Written {
    /// It stored its value.
    Value,
    /// It made this number.
    Number(u64),
    /// It failed, and that has been answered.
    Nothing,
}

/// Takes the replies of one batch.
#[derive(Debug)]
pub(super) struct Sink<'s, 'i, 'o> {
    requests: &'s [Request<'i>],
    pending: &'s [Pending<'i>],
    output: &'s mut Output<'o>,
    counters: &'s Counters,
    /// Where the reply that is being written begins.
    start: usize,
    bytes_needed: usize,
    written: Written,
    /// The CAS value of what is being read back.
    cas: u64,
    skips: bool,
}

impl<'s, 'i, 'o> Sink<'s, 'i, 'o> {
    /// The output must have room for a short reply to each request.
    #[inline]
    pub fn new(
        requests: &'s [Request<'i>],
        pending: &'s [Pending<'i>],
        output: &'s mut Output<'o>,
        counters: &'s Counters,
    ) -> Self {
        Self {
            requests,
            pending,
            output,
            counters,
            start: 0,
            bytes_needed: 0,
            // A batch that begins with a read-back goes on behind a store that has succeeded.
            written: Written::Value,
            cas: 0,
            skips: false,
        }
    }

    /// How large an empty output has to be for the reply that had no room.
    pub fn bytes_needed(&self) -> usize {
        self.bytes_needed
    }

    /// Whether the request that ended the batch is answered, and no room is missing.
    pub fn skips(&self) -> bool {
        self.skips
    }

    /// Room for `value_bytes` behind `header_bytes` more, with short replies to all that is left.
    #[inline]
    fn has_room(&mut self, index: usize, bytes: usize) -> bool {
        let kept_bytes = (self.requests.len() - index) * SHORT_REPLY_BYTES_MAX;
        self.bytes_needed = bytes + BATCH_REPLY_BYTES;
        self.output.room() >= bytes + kept_bytes
    }

    /// Decides whether the value has to be looked at to know that it is what was written.
    #[inline]
    fn reserve_read_back(
        &mut self,
        index: usize,
        meta: ValueMeta,
        stored: Option<&[u8]>,
    ) -> Option<&mut [u8]> {
        let may_be_it = match (self.written, stored) {
            (Written::Nothing, _) => {
                self.skips = true;
                return None;
            }
            (_, Some(stored)) => meta.value_bytes == stored.len(),
            (_, None) => meta.value_bytes <= NUMBER_BYTES_MAX,
        };
        if !may_be_it {
            self.write_written(&self.pending[index], REPLACED);
            self.skips = true;
            return None;
        }
        if stored.is_some() && !self.has_room(index, meta.value_bytes) {
            return None;
        }
        self.start = self.output.filled();
        self.cas = meta.cas;
        Some(self.output.give(meta.value_bytes))
    }

    /// Answers a write that was read back.
    fn finish_read_back(&mut self, index: usize, outcome: Outcome, stored: Option<&[u8]>) {
        let mut cas = REPLACED;
        if outcome == Outcome::Hit {
            let value = self.output.since(self.start);
            let is_it = match (self.written, stored) {
                (Written::Number(number), _) => reads(value, number),
                (_, stored) => stored == Some(value),
            };
            if is_it {
                cas = self.cas;
            }
            self.output.truncate(self.start);
        }
        self.write_written(&self.pending[index], cas);
    }

    fn write_written(&mut self, pending: &Pending<'_>, cas: u64) {
        match self.written {
            Written::Nothing => {}
            Written::Value => self
                .output
                .push_with(|out| reply::done(out, pending.head, cas)),
            Written::Number(number) => self
                .output
                .push_with(|out| reply::number(out, pending.head, number, cas)),
        }
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

    /// Answers a write: if it succeeded, only if no read-back does.
    #[inline]
    fn finish_write(
        &mut self,
        index: usize,
        outcome: Outcome,
        verb: Option<StoreVerb>,
        read_back: bool,
    ) {
        let pending = &self.pending[index];
        self.written = match outcome {
            Outcome::Stored => Written::Value,
            Outcome::Number(number) => Written::Number(number),
            _ => Written::Nothing,
        };
        let status = status(verb, outcome);
        if status != Status::Ok {
            fail(self.output, pending.head, status);
        } else if !read_back && !pending.quiet {
            self.output
                .push_with(|out| reply::done(out, pending.head, 0));
        }
    }
}

impl ReplySink for Sink<'_, '_, '_> {
    #[inline]
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        let pending = self.pending[index];
        let with_key = match pending.role {
            Role::ReadBack { stored } => return self.reserve_read_back(index, meta, stored),
            Role::Get { with_key } => with_key,
            Role::Whole(_) | Role::ReadBackFollows(_) => false,
        };
        if !self.has_room(index, VALUE_HEADER_BYTES_MAX + meta.value_bytes) {
            return None;
        }
        self.start = self.output.filled();
        let key = if with_key {
            self.requests[index].key
        } else {
            &[]
        };
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
    fn finish(&mut self, index: usize, outcome: Outcome) {
        let pending = self.pending[index];
        match pending.role {
            Role::ReadBack { stored } => return self.finish_read_back(index, outcome, stored),
            Role::Get { with_key } => self.finish_get(index, outcome, with_key),
            Role::Whole(verb) => self.finish_write(index, outcome, verb, false),
            Role::ReadBackFollows(verb) => self.finish_write(index, outcome, verb, true),
        }
        count(self.counters, pending.kind, outcome);
    }
}

/// Whether a stored value reads as this number.
pub(super) fn reads(value: &[u8], number: u64) -> bool {
    let text = std::str::from_utf8(value).unwrap_or_default();
    text.trim_end_matches(' ').parse() == Ok(number)
}

/// What the client is told of an outcome; `verb` is that of a store.
#[inline]
pub(super) fn status(verb: Option<StoreVerb>, outcome: Outcome) -> Status {
    let joins = matches!(verb, Some(StoreVerb::Append | StoreVerb::Prepend));
    match outcome {
        Outcome::Hit
        | Outcome::Stored
        | Outcome::Deleted
        | Outcome::Touched
        | Outcome::Number(_) => Status::Ok,
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
