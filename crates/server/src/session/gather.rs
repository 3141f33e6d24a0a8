//! From input bytes to a batch of engine requests.

use arrayvec::ArrayVec;
use micanite_engine::{BATCH_REQUESTS_MAX, Condition, Expiry, Operation, Request};
use micanite_wire::memcache::text::{Command, Keys, Parser, Step, StoreVerb, expiry};

use super::Context;
use super::answer::Aside;
use crate::limits::INPUT_BYTES;

/// What the sink has to know of a request beside the request itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Where its command begins in the input.
    pub at: usize,
    /// Which of the command's keys it is.
    pub key_index: u32,
    /// How it is counted.
    pub kind: Kind,
    /// It gets no reply.
    pub noreply: bool,
    /// It is the last key of a get: `END` follows.
    pub ends_get: bool,
    /// It is a meta command's.
    pub meta: bool,
}

/// Requests as the statistics tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    GetAndTouch,
    Store,
    Cas,
    Delete,
    Increment,
    Decrement,
    Touch,
}

/// Why no more was gathered.
#[derive(Debug)]
pub(super) enum Stop<'i> {
    /// The batch is full.
    Full,
    /// The input has no further complete request.
    Incomplete,
    /// The same; and what is there of the next one lacks nothing but the rest of its body.
    BodyIncomplete,
    /// The turn's requests are used up.
    TurnOver,
    /// A store that needs a buffer of so many bytes.
    Body { bytes: usize },
    /// Something that is not for the engine, once the batch has run; it takes `bytes` of the
    /// input. Should it have to wait, the parser has to be put back.
    Aside { aside: Aside<'i>, bytes: usize, parser_before: Parser },
}

/// A get line whose keys are being gathered.
#[derive(Debug)]
struct GetLine<'i> {
    keys: Keys<'i>,
    next: Option<&'i [u8]>,
    index: u32,
    operation: Operation<'i>,
    kind: Kind,
    bytes: usize,
}

/// Requests gathered from an input.
#[derive(Debug)]
pub(super) struct Gather<'i> {
    pub input: &'i [u8],
    full: bool,
    /// What is before this is gathered, and done with once the batch has run.
    pub at: usize,
    keys_done: u32,
    get: Option<GetLine<'i>>,
    pub requests: ArrayVec<Request<'i>, BATCH_REQUESTS_MAX>,
    pub pending: ArrayVec<Pending, BATCH_REQUESTS_MAX>,
    /// There are meta commands among them, whose replies need more room.
    pub has_meta: bool,
}

impl<'i> Gather<'i> {
    pub fn new(input: &'i [u8], full: bool, at: usize, keys_done: u32) -> Self {
        Self {
            input,
            full,
            at,
            keys_done,
            get: None,
            requests: ArrayVec::new(),
            pending: ArrayVec::new(),
            has_meta: false,
        }
    }

    /// Forgets the batch, after it has run.
    #[inline]
    pub fn clear(&mut self) {
        self.requests.clear();
        self.pending.clear();
        self.has_meta = false;
    }

    /// Fills the batch.
    #[inline]
    pub fn fill(&mut self, parser: &mut Parser, requests_left: &mut u32, context: &Context<'_>) -> Stop<'i> {
        loop {
            if self.get.is_some() {
                self.push_keys(context);
            }
            if self.requests.is_full() {
                return Stop::Full;
            }
            let rest = &self.input[self.at..];
            if rest.is_empty() {
                return Stop::Incomplete;
            }
            if *requests_left == 0 {
                return Stop::TurnOver;
            }
            let before = *parser;
            let full = self.full && self.at == 0;
            let (command, bytes) = match parser.step(rest, full) {
                Step::Incomplete => return Stop::Incomplete,
                Step::Command { command, line_bytes } => (command, line_bytes),
                Step::Refused { reply, line_bytes, swallow_bytes, close } => {
                    *requests_left -= 1;
                    let aside = Aside::Refused { reply, swallow_bytes, close };
                    return Stop::Aside { aside, bytes: line_bytes, parser_before: before };
                }
            };
            *requests_left -= 1;
            if let Some(stop) = self.take(command, bytes, before, context) {
                return stop;
            }
        }
    }

    #[inline]
    fn take(
        &mut self,
        command: Command<'i>,
        bytes: usize,
        parser_before: Parser,
        context: &Context<'_>,
    ) -> Option<Stop<'i>> {
        let aside = match command {
            Command::Get { keys, cas } => self.begin_get(keys, Operation::Get { cas }, Kind::Get, bytes)?,
            Command::GetAndTouch { exptime, keys, cas } => {
                let expiry = Expiry(expiry(exptime, context.now_s));
                let operation = Operation::GetAndTouch { expiry, cas };
                self.begin_get(keys, operation, Kind::GetAndTouch, bytes)?
            }
            Command::Store { .. } => return self.store(command, bytes, parser_before, context),
            Command::Delete { key, noreply } => {
                return self.push(key, Operation::Delete, (Kind::Delete, noreply), bytes, context);
            }
            Command::Arithmetic { key, delta, decrement, noreply } => {
                let (operation, kind) = if decrement {
                    (Operation::Decrement { delta }, Kind::Decrement)
                } else {
                    (Operation::Increment { delta }, Kind::Increment)
                };
                return self.push(key, operation, (kind, noreply), bytes, context);
            }
            Command::Touch { key, exptime, noreply } => {
                let expiry = Expiry(expiry(exptime, context.now_s));
                let operation = Operation::Touch { expiry };
                return self.push(key, operation, (Kind::Touch, noreply), bytes, context);
            }
            Command::Meta(line) => return self.meta(line, bytes, parser_before, context),
            other => Aside::Command(other),
        };
        Some(Stop::Aside { aside, bytes, parser_before })
    }

    /// Adds the one request of a command that takes `bytes` of the input.
    #[inline]
    pub(super) fn push(
        &mut self,
        key: &'i [u8],
        operation: Operation<'i>,
        (kind, noreply): (Kind, bool),
        bytes: usize,
        context: &Context<'_>,
    ) -> Option<Stop<'i>> {
        let hash = context.hash(key);
        self.requests.push(Request { hash, key, operation });
        self.pending.push(Pending { at: self.at, key_index: 0, kind, noreply, ends_get: false, meta: false });
        self.at += bytes;
        None
    }

    /// Begins a get line; what it returns instead is the end of a line without further keys.
    #[inline]
    fn begin_get(
        &mut self,
        mut keys: Keys<'i>,
        operation: Operation<'i>,
        kind: Kind,
        bytes: usize,
    ) -> Option<Aside<'i>> {
        let done = if self.at == 0 { self.keys_done } else { 0 };
        match keys.nth(done as usize) {
            Some(key) => {
                let next = Some(key);
                self.get = Some(GetLine { keys, next, index: done, operation, kind, bytes });
                None
            }
            None if keys.is_last() => Some(Aside::EndOfGet),
            None => {
                self.at += bytes;
                None
            }
        }
    }

    /// Adds keys of the current get line, until it ends or the batch is full.
    #[inline]
    fn push_keys(&mut self, context: &Context<'_>) {
        let Some(get) = &mut self.get else { return };
        while let Some(key) = get.next {
            if self.requests.is_full() {
                return;
            }
            get.next = get.keys.next();
            let hash = context.hash(key);
            self.requests.push(Request { hash, key, operation: get.operation });
            self.pending.push(Pending {
                at: self.at,
                key_index: get.index,
                kind: get.kind,
                noreply: false,
                ends_get: get.next.is_none() && get.keys.is_last(),
                meta: false,
            });
            get.index += 1;
        }
        self.at += get.bytes;
        self.get = None;
    }

    /// Adds a store whose body has come, if it has.
    #[inline]
    fn store(
        &mut self,
        command: Command<'i>,
        line_bytes: usize,
        parser_before: Parser,
        context: &Context<'_>,
    ) -> Option<Stop<'i>> {
        let Command::Store { verb, key, flags, exptime, value_bytes, noreply } = command else {
            return None;
        };
        let aside = |aside, bytes| Some(Stop::Aside { aside, bytes, parser_before });
        if value_bytes > context.worker.cache().value_bytes_max() {
            let too_large = Aside::TooLarge { verb, key, value_bytes, noreply };
            return aside(too_large, line_bytes);
        }
        let bytes = line_bytes + value_bytes + 2;
        let Some(body) = self.input.get(self.at + line_bytes..self.at + bytes) else {
            return Some(if bytes > INPUT_BYTES {
                Stop::Body { bytes }
            } else {
                Stop::BodyIncomplete
            });
        };
        let (value, line_end) = body.split_at(value_bytes);
        if line_end != b"\r\n" {
            return aside(Aside::BadChunk { noreply }, bytes);
        }
        let expiry = Expiry(expiry(exptime, context.now_s));
        let operation = operation(verb, value, flags, expiry);
        self.push(key, operation, (kind(verb), noreply), bytes, context)
    }
}

/// The engine's operation for a storage command.
#[inline]
pub(super) fn operation(verb: StoreVerb, value: &[u8], flags: u32, expiry: Expiry) -> Operation<'_> {
    let condition = match verb {
        StoreVerb::Set => Condition::Always,
        StoreVerb::Add => Condition::Absent,
        StoreVerb::Replace => Condition::Present,
        StoreVerb::Cas(cas) => Condition::Unchanged(cas),
        StoreVerb::Append => return Operation::Append { value },
        StoreVerb::Prepend => return Operation::Prepend { value },
    };
    Operation::Store { condition, value, flags, expiry }
}

#[inline]
pub(super) const fn kind(verb: StoreVerb) -> Kind {
    match verb {
        StoreVerb::Cas(_) => Kind::Cas,
        _ => Kind::Store,
    }
}
