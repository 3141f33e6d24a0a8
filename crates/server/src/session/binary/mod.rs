//! The binary protocol: its requests become requests of a batch.
//!
//! Replies to stores carry the new CAS value, which the engine describes only for its `Meta`
//! operations.

mod operation;
mod reply;
#[cfg(test)]
mod tests;
mod unbatched;

use micanite_engine::{BATCH_REQUESTS_MAX, Operation, Outcome, Request, ValueMeta};
use micanite_wire::memcache::binary::reply::SHORT_BYTES_MAX;
use micanite_wire::memcache::binary::{Command, HEADER_BYTES, Head, Step, Store, step};
use micanite_wire::memcache::text::StoreVerb;

use super::batch::{self, Codec, Sink};
use super::text::store_kind;
use super::{Context, Kind};
use crate::limits::{INPUT_BYTES, OUTPUT_BYTES, STATS_PARTITIONS_MAX, STATS_REPLY_BYTES_MAX};
use operation::{arithmetic, delete, get, store_operation, touch};
use unbatched::Unbatched;

/// Longest reply without a value, except statistics.
const SHORT_REPLY_BYTES_MAX: usize = 280;
/// Room for statistics, whose lines need a header each.
const STATS_ROOM_BYTES: usize = STATS_REPLY_BYTES_MAX + 24 * (3 * STATS_PARTITIONS_MAX + 200);

const _: () = assert!(SHORT_BYTES_MAX <= SHORT_REPLY_BYTES_MAX);
const _: () = assert!(STATS_ROOM_BYTES <= OUTPUT_BYTES);
// An empty output has room for a value that fits the input, and for all replies of its batch.
const _: () = assert!(INPUT_BYTES + BATCH_REQUESTS_MAX * SHORT_REPLY_BYTES_MAX <= OUTPUT_BYTES);

type Batch<'i> = batch::Batch<'i, Binary>;
type Stop<'i> = batch::Stop<Unbatched<'i>>;

/// Form of a reply in the binary protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Head of the request, which the reply repeats.
    head: Head,
    /// A miss, or a success without a value, gets no reply.
    quiet: bool,
    role: Role,
}

/// Roles of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Get {
        with_key: bool,
    },
    /// A touch, whose reply carries the item's flags.
    Touch,
    /// A delete or another write, with the verb of a store.
    Write(Option<StoreVerb>),
}

/// The codec of the binary protocol.
#[derive(Debug)]
pub(super) struct Binary;

impl<'i> Codec<'i> for Binary {
    type Form = Form;
    type Unbatched = Unbatched<'i>;
    const SHORT_REPLY_BYTES_MAX: usize = SHORT_REPLY_BYTES_MAX;

    #[inline]
    fn parse(&mut self, batch: &mut Batch<'i>, context: &Context<'_>) -> Option<Stop<'i>> {
        let (request, bytes) = match step(&batch.input[batch.at..]) {
            Step::Incomplete => return Some(Stop::Incomplete),
            Step::Command { command, head, bytes } => return add(command, head, bytes, batch, context),
            Step::BadMagic => (Unbatched::BadMagic, 0),
            Step::Refused { status, head, swallow_bytes, close } => {
                (Unbatched::Refused { status, head, swallow_bytes, close }, HEADER_BYTES)
            }
        };
        Some(Stop::Unbatched { request, bytes })
    }

    #[inline]
    fn begin_value(sink: &mut Sink<'_, 'i, '_, Self>, index: usize, form: &Form, meta: ValueMeta) -> bool {
        sink.begin_binary_value(index, form, meta)
    }

    #[inline]
    fn finish(sink: &mut Sink<'_, 'i, '_, Self>, index: usize, form: &Form, outcome: Outcome) {
        sink.finish_binary(index, form, outcome);
    }
}

/// Adds a command. Its header, extras and key take `bytes`.
#[inline]
fn add<'i>(
    command: Command<'i>,
    head: Head,
    bytes: usize,
    batch: &mut Batch<'i>,
    context: &Context<'_>,
) -> Option<Stop<'i>> {
    let now_s = context.now_s;
    let (key, operation, quiet, role) = match command {
        Command::Get { key, exptime, with_key, quiet } => {
            (key, get(exptime, now_s), quiet, Role::Get { with_key })
        }
        Command::Store(store) => return add_store(store, head, bytes, batch, context),
        Command::Delete { key, cas, quiet } => (key, (delete(cas), Kind::Delete), quiet, Role::Write(None)),
        Command::Arithmetic(by) => (by.key, arithmetic(&by, now_s), by.quiet, Role::Write(None)),
        Command::Touch { key, exptime } => (key, (touch(exptime, now_s), Kind::Touch), false, Role::Touch),
        other => {
            return Some(Stop::Unbatched { request: Unbatched::Command { command: other, head }, bytes });
        }
    };
    push(key, operation, Form { head, quiet, role }, bytes, batch, context);
    None
}

/// Adds a request that takes `bytes` of the input.
#[inline]
fn push<'i>(
    key: &'i [u8],
    (operation, kind): (Operation<'i>, Kind),
    form: Form,
    bytes: usize,
    batch: &mut Batch<'i>,
    context: &Context<'_>,
) {
    let request = Request { hash: context.hash(key), key, operation };
    batch.push(request, 0, kind, form);
    batch.at += bytes;
}

/// Adds a store, if its value has come.
#[inline]
fn add_store<'i>(
    store: Store<'i>,
    head: Head,
    bytes: usize,
    batch: &mut Batch<'i>,
    context: &Context<'_>,
) -> Option<Stop<'i>> {
    if store.value_bytes > context.worker.cache().value_bytes_max() {
        return Some(Stop::Unbatched { request: Unbatched::TooLarge { store, head }, bytes });
    }
    let all = bytes + store.value_bytes;
    let Some(value) = batch.input.get(batch.at + bytes..batch.at + all) else {
        return Some(if all > INPUT_BYTES { Stop::Long { bytes: all } } else { Stop::BodyIncomplete });
    };
    let operation = store_operation(&store, value, context.now_s);
    let form = Form { head, quiet: store.quiet, role: Role::Write(Some(store.verb)) };
    push(store.key, (operation, store_kind(store.verb)), form, all, batch, context);
    None
}
