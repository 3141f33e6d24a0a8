//! From input bytes to a batch of engine requests.

use arrayvec::ArrayVec;
use micanite_engine::{BATCH_REQUESTS_MAX, Expiry, Operation, Request};
use micanite_wire::memcache::binary::{Arithmetic, Command, Head, Step, Store, step};
use micanite_wire::memcache::text::{StoreVerb, expiry};

use super::super::gather::{Kind, kind, operation};
use super::Context;
use super::answer::Aside;
use crate::limits::INPUT_BYTES;

/// What the sink has to know of a request beside the request itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending<'i> {
    /// Where its command begins in the input.
    pub at: usize,
    /// 1 for a read-back, else 0.
    pub step: u32,
    /// How it is counted.
    pub kind: Kind,
    /// What the reply repeats.
    pub head: Head,
    /// A miss, or a success without a value, gets no reply.
    pub quiet: bool,
    /// What it is.
    pub role: Role<'i>,
}

/// What a request of a batch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role<'i> {
    /// A get.
    Get { with_key: bool },
    /// A delete, or a write without a read-back.
    Whole(Option<StoreVerb>),
    /// A write whose success is answered by the read-back behind it.
    ReadBackFollows(Option<StoreVerb>),
    /// Reads the CAS value of what was written: this value, or the number that was answered.
    ReadBack { stored: Option<&'i [u8]> },
}

/// Why no more was gathered.
#[derive(Debug)]
pub(super) enum Stop<'i> {
    /// The batch is full.
    Full,
    /// The input has no further complete request.
    Incomplete,
    /// The turn's requests are used up.
    TurnOver,
    /// A store whose body needs a buffer of so many bytes.
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
    steps_done: u32,
    pub requests: ArrayVec<Request<'i>, BATCH_REQUESTS_MAX>,
    pub pending: ArrayVec<Pending<'i>, BATCH_REQUESTS_MAX>,
}

/// A request on its way into the batch.
struct New<'i> {
    key: &'i [u8],
    operation: Operation<'i>,
    kind: Kind,
    head: Head,
    quiet: bool,
    role: Role<'i>,
}

impl<'i> Gather<'i> {
    pub fn new(input: &'i [u8], at: usize, steps_done: u32) -> Self {
        Self {
            input,
            at,
            steps_done,
            requests: ArrayVec::new(),
            pending: ArrayVec::new(),
        }
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
            // A write and its read-back.
            if self.requests.remaining_capacity() < 2 {
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
                Step::BadMagic => Some(Stop::Aside {
                    aside: Aside::BadMagic,
                    bytes: 0,
                }),
                Step::Refused {
                    status,
                    head,
                    swallow_bytes,
                    close,
                } => Some(Stop::Aside {
                    aside: Aside::Refused {
                        status,
                        head,
                        swallow_bytes,
                        close,
                    },
                    bytes: micanite_wire::memcache::binary::HEADER_BYTES,
                }),
                Step::Command {
                    command,
                    head,
                    bytes,
                } => self.take(command, head, bytes, context),
            };
            if !matches!(stop, Some(Stop::Incomplete | Stop::Body { .. })) {
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
            Command::Get {
                key,
                exptime,
                with_key,
                quiet,
            } => {
                let (operation, kind) = get(exptime, context.now_s);
                New {
                    key,
                    operation,
                    kind,
                    head,
                    quiet,
                    role: Role::Get { with_key },
                }
            }
            Command::Store(store) => return self.store(store, head, bytes, context),
            Command::Delete { key, cas: 0, quiet } => New {
                key,
                operation: Operation::Delete,
                kind: Kind::Delete,
                head,
                quiet,
                role: Role::Whole(None),
            },
            Command::Arithmetic(
                arithmetic @ Arithmetic {
                    initial: None,
                    cas: 0,
                    ..
                },
            ) => self.arithmetic(&arithmetic, head),
            other => {
                let aside = Aside::Command {
                    command: other,
                    head,
                    value: &[],
                };
                return Some(Stop::Aside { aside, bytes });
            }
        };
        self.push(new, bytes, context);
        None
    }

    #[inline]
    fn arithmetic(&self, arithmetic: &Arithmetic<'i>, head: Head) -> New<'i> {
        let (operation, kind) = count_by(arithmetic);
        let role = if arithmetic.quiet {
            Role::Whole(None)
        } else {
            Role::ReadBackFollows(None)
        };
        New {
            key: arithmetic.key,
            operation,
            kind,
            head,
            quiet: arithmetic.quiet,
            role,
        }
    }

    /// Adds a request that takes `bytes` of the input, and its read-back.
    #[inline]
    fn push(&mut self, new: New<'i>, bytes: usize, context: &Context<'_>) {
        let hash = context.hash(new.key);
        let pending = Pending {
            at: self.at,
            step: 0,
            kind: new.kind,
            head: new.head,
            quiet: new.quiet,
            role: new.role,
        };
        let written_before = self.at == 0 && std::mem::take(&mut self.steps_done) > 0;
        if !written_before {
            self.requests.push(Request {
                hash,
                key: new.key,
                operation: new.operation,
            });
            self.pending.push(pending);
        }
        if let Role::ReadBackFollows(_) = new.role {
            let stored = match new.operation {
                Operation::Store { value, .. } => Some(value),
                _ => None,
            };
            self.requests.push(Request {
                hash,
                key: new.key,
                operation: Operation::Get { cas: true },
            });
            self.pending.push(Pending {
                step: 1,
                role: Role::ReadBack { stored },
                ..pending
            });
        }
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
                Stop::Body {
                    bytes: store.key.len() + store.value_bytes,
                }
            } else {
                Stop::Incomplete
            });
        };
        let joins = matches!(store.verb, StoreVerb::Append | StoreVerb::Prepend);
        if joins && !(store.quiet && store.cas == 0) {
            let aside = Aside::Command {
                command: Command::Store(store),
                head,
                value,
            };
            return Some(Stop::Aside { aside, bytes: all });
        }
        let expiry = Expiry(expiry(store.exptime.into(), context.now_s));
        let role = if store.quiet {
            Role::Whole(Some(store.verb))
        } else {
            Role::ReadBackFollows(Some(store.verb))
        };
        let new = New {
            key: store.key,
            operation: operation(store.verb, value, store.flags, expiry),
            kind: kind(store.verb),
            head,
            quiet: store.quiet,
            role,
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
            (
                Operation::GetAndTouch { expiry, cas: true },
                Kind::GetAndTouch,
            )
        }
    }
}

/// The engine's operation for an increment or decrement.
#[inline]
pub(super) fn count_by<'a>(arithmetic: &Arithmetic<'_>) -> (Operation<'a>, Kind) {
    let delta = arithmetic.delta;
    if arithmetic.decrement {
        (Operation::Decrement { delta }, Kind::Decrement)
    } else {
        (Operation::Increment { delta }, Kind::Increment)
    }
}
