//! From input bytes to a batch of engine requests.

use arrayvec::ArrayVec;
use micanite_engine::{
    BATCH_REQUESTS_MAX, Expiry, MetaArithmetic, MetaDelete, MetaGet, MetaStore, Operation, Request, StoreMode,
};
use micanite_wire::memcache::binary::{Arithmetic, Command, Head, Step, Store, step};
use micanite_wire::memcache::text::{StoreVerb, expiry};

use super::super::gather::{Kind, kind, operation};
use super::Context;
use super::answer::Aside;
use crate::limits::INPUT_BYTES;

/// What the sink has to know of a request beside the request itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Where its command begins in the input.
    pub at: usize,
    /// How it is counted.
    pub kind: Kind,
    /// What the reply repeats.
    pub head: Head,
    /// A miss, or a success without a value, gets no reply.
    pub quiet: bool,
    /// What it is.
    pub role: Role,
}

/// What a request of a batch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A get.
    Get { with_key: bool },
    /// A touch, whose reply has the item's flags.
    Touch,
    /// A delete, or a write; the verb is that of a store.
    Write(Option<StoreVerb>),
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
    /// Something that is not for a batch, once the batch has run; it takes `bytes` of the input.
    Aside { aside: Aside<'i>, bytes: usize },
}

/// Requests gathered from an input.
#[derive(Debug)]
pub(super) struct Gather<'i> {
    input: &'i [u8],
    /// What is before this is gathered, and done with once the batch has run.
    pub at: usize,
    pub requests: ArrayVec<Request<'i>, BATCH_REQUESTS_MAX>,
    pub pending: ArrayVec<Pending, BATCH_REQUESTS_MAX>,
}

/// A request on its way into the batch.
struct New<'i> {
    key: &'i [u8],
    operation: Operation<'i>,
    kind: Kind,
    head: Head,
    quiet: bool,
    role: Role,
}

impl<'i> Gather<'i> {
    pub fn new(input: &'i [u8], at: usize) -> Self {
        Self { input, at, requests: ArrayVec::new(), pending: ArrayVec::new() }
    }

    /// Forgets the batch, after it has run.
    #[inline]
    pub fn clear(&mut self) {
        self.requests.clear();
        self.pending.clear();
    }

    /// Fills the batch.
    #[inline]
    pub fn fill(&mut self, requests_left: &mut u32, context: &Context<'_>) -> Stop<'i> {
        loop {
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
            let stop = match step(rest) {
                Step::Incomplete => return Stop::Incomplete,
                Step::BadMagic => Some(Stop::Aside { aside: Aside::BadMagic, bytes: 0 }),
                Step::Refused { status, head, swallow_bytes, close } => Some(Stop::Aside {
                    aside: Aside::Refused { status, head, swallow_bytes, close },
                    bytes: micanite_wire::memcache::binary::HEADER_BYTES,
                }),
                Step::Command { command, head, bytes } => self.take(command, head, bytes, context),
            };
            if !matches!(stop, Some(Stop::Incomplete | Stop::BodyIncomplete | Stop::Body { .. })) {
                *requests_left -= 1;
            }
            if let Some(stop) = stop {
                return stop;
            }
        }
    }

    #[inline]
    fn take(
        &mut self,
        command: Command<'i>,
        head: Head,
        bytes: usize,
        context: &Context<'_>,
    ) -> Option<Stop<'i>> {
        let new = match command {
            Command::Get { key, exptime, with_key, quiet } => {
                let (operation, kind) = get(exptime, context.now_s);
                New { key, operation, kind, head, quiet, role: Role::Get { with_key } }
            }
            Command::Store(store) => return self.store(store, head, bytes, context),
            Command::Delete { key, cas, quiet } => {
                New { key, operation: delete(cas), kind: Kind::Delete, head, quiet, role: Role::Write(None) }
            }
            Command::Arithmetic(by) => {
                let (operation, kind) = count_by(&by, context.now_s);
                New { key: by.key, operation, kind, head, quiet: by.quiet, role: Role::Write(None) }
            }
            Command::Touch { key, exptime } => New {
                key,
                operation: touch(exptime, context.now_s),
                kind: Kind::Touch,
                head,
                quiet: false,
                role: Role::Touch,
            },
            other => {
                let aside = Aside::Command { command: other, head };
                return Some(Stop::Aside { aside, bytes });
            }
        };
        self.push(new, bytes, context);
        None
    }

    /// Adds a request that takes `bytes` of the input.
    #[inline]
    fn push(&mut self, new: New<'i>, bytes: usize, context: &Context<'_>) {
        self.requests.push(Request { hash: context.hash(new.key), key: new.key, operation: new.operation });
        self.pending.push(Pending {
            at: self.at,
            kind: new.kind,
            head: new.head,
            quiet: new.quiet,
            role: new.role,
        });
        self.at += bytes;
    }

    /// Adds a store whose value has come, if it has.
    #[inline]
    fn store(
        &mut self,
        store: Store<'i>,
        head: Head,
        bytes: usize,
        context: &Context<'_>,
    ) -> Option<Stop<'i>> {
        if store.value_bytes > context.worker.cache().value_bytes_max() {
            let aside = Aside::TooLarge { store, head };
            return Some(Stop::Aside { aside, bytes });
        }
        let all = bytes + store.value_bytes;
        let Some(value) = self.input.get(self.at + bytes..self.at + all) else {
            return Some(if all > INPUT_BYTES {
                Stop::Body { bytes: all }
            } else {
                Stop::BodyIncomplete
            });
        };
        let new = New {
            key: store.key,
            operation: store_operation(&store, value, context.now_s),
            kind: kind(store.verb),
            head,
            quiet: store.quiet,
            role: Role::Write(Some(store.verb)),
        };
        self.push(new, all, context);
        None
    }
}

#[inline]
fn get<'a>(exptime: Option<u32>, now_s: u32) -> (Operation<'a>, Kind) {
    match exptime {
        None => (Operation::Get { cas: true }, Kind::Get),
        Some(exptime) => {
            let expiry = Expiry(expiry(exptime.into(), now_s));
            (Operation::GetAndTouch { expiry, cas: true }, Kind::GetAndTouch)
        }
    }
}

/// A touch, and what its reply tells.
fn touch<'a>(exptime: u32, now_s: u32) -> Operation<'a> {
    Operation::MetaGet(MetaGet {
        cas: true,
        touch: Some(Expiry(expiry(exptime.into(), now_s))),
        ..MetaGet::default()
    })
}

fn delete<'a>(cas: u64) -> Operation<'a> {
    if cas == 0 {
        return Operation::Delete;
    }
    Operation::MetaDelete(MetaDelete { compare: Some(cas), ..MetaDelete::default() })
}

/// The engine's operation for a store; its reply tells the new CAS value, if it gets one.
#[inline]
pub(super) fn store_operation<'a>(store: &Store<'_>, value: &'a [u8], now_s: u32) -> Operation<'a> {
    let expiry = Expiry(expiry(store.exptime.into(), now_s));
    if store.quiet && store.cas == 0 {
        return operation(store.verb, value, store.flags, expiry);
    }
    let given = (store.cas != 0).then_some(store.cas);
    let (mode, compare) = match store.verb {
        StoreVerb::Set => (StoreMode::Set, None),
        StoreVerb::Add => (StoreMode::Add, None),
        StoreVerb::Replace => (StoreMode::Replace, None),
        StoreVerb::Cas(cas) => (StoreMode::Set, Some(cas)),
        StoreVerb::Append => (StoreMode::Append, given),
        StoreVerb::Prepend => (StoreMode::Prepend, given),
    };
    Operation::MetaStore(MetaStore {
        value,
        flags: store.flags,
        expiry,
        mode,
        cas: !store.quiet,
        compare,
        ..MetaStore::default()
    })
}

/// The engine's operation for an increment or decrement.
#[inline]
fn count_by<'a>(by: &Arithmetic<'_>, now_s: u32) -> (Operation<'a>, Kind) {
    let kind = if by.decrement { Kind::Decrement } else { Kind::Increment };
    let at = |exptime: u32| Expiry(expiry(exptime.into(), now_s));
    let operation = MetaArithmetic {
        delta: by.delta,
        decrement: by.decrement,
        cas: !by.quiet,
        compare: by.cas,
        vivify: by.initial.map(|(_, exptime)| at(exptime)),
        initial: by.initial.map_or(0, |(initial, _)| initial),
        ..MetaArithmetic::default()
    };
    (Operation::MetaArithmetic(operation), kind)
}
