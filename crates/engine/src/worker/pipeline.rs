//! The batch pipeline (MICA 4.3.2, multi-stage prefetching): load the buckets of all requests,
//! then the items they point to, then execute in order.
//!
//! Loads of one stage overlap; a request pays for memory once per batch, not once per request.
//! The stages are hints: requests take effect in the third, one after the other, so a batch is
//! as ordered as the requests would be alone.

use std::ops::ControlFlow;

use micanite_memory::Patience;

use crate::cache::Cache;
use crate::limits::{BUSY_ROUNDS_MAX, KEY_BYTES_MAX, LONG_VALUE_BYTES};
use crate::log::item::Expiry;
use crate::operations::meta::{MetaArithmetic, MetaGet};
use crate::operations::request::{Condition, HashedRequest, Operation, Outcome, ReplySink, Request};
use crate::operations::{Described, Side, store_long};
use crate::partition::{Hint, Partition};
use crate::reader::{GetOptions, PlainGet, Read};
use crate::writer::Writer;

/// Access to a partition; the loop is compiled for each kind.
pub(crate) trait Mode {
    /// True if others write as well: reads are optimistic, and long values are copied into place
    /// without the lock.
    const SHARED: bool;

    /// Returns the writer of a partition.
    fn writer(partition: &Partition, now_s: u32) -> Writer<'_>;
}

/// The owner is the only writer (EREW, CREW).
pub(crate) enum Own {}

/// One of several writers: optimistic reads, writes under the partition's lock (CRCW).
pub(crate) enum Share {}

impl Mode for Own {
    const SHARED: bool = false;

    #[inline]
    fn writer(partition: &Partition, now_s: u32) -> Writer<'_> {
        #[expect(unsafe_code, reason = "the exclusive owner takes no lock")]
        // SAFETY: chosen only for a worker that has the permission `Own`, inside a batch: until
        // it ends the batch nobody else gets a permission to write (`access/mod.rs`).
        unsafe {
            partition.owner(now_s)
        }
    }
}

impl Mode for Share {
    const SHARED: bool = true;

    #[inline]
    fn writer(partition: &Partition, now_s: u32) -> Writer<'_> {
        partition.writer(now_s)
    }
}

/// Executes a get without CAS or touch. Returns whether the sink had room.
#[inline]
fn get<M: Mode, S: ReplySink>(
    request: (usize, &HashedRequest<'_>),
    hint: &Hint<'_>,
    now_s: u32,
    sink: &mut S,
) -> bool {
    if !M::SHARED {
        return M::writer(hint.partition, now_s).get_seen(request, hint, sink);
    }
    let read = read_shared(request, &PlainGet, hint, now_s, sink);
    read.unwrap_or_else(|| M::writer(hint.partition, now_s).get(request, false, sink))
}

/// Executes a meta get. Returns whether the sink had room.
#[inline]
fn meta_get<M: Mode, S: ReplySink>(
    request: (usize, &HashedRequest<'_>),
    get: &MetaGet,
    hint: &Hint<'_>,
    now_s: u32,
    sink: &mut S,
) -> bool {
    if M::SHARED
        && let Some(had_room) = read_shared(request, get, hint, now_s, sink)
    {
        return had_room;
    }
    let mut patience = Patience::of_yields();
    for _ in 0..BUSY_ROUNDS_MAX {
        match M::writer(hint.partition, now_s).meta_get(request, get, hint, sink) {
            ControlFlow::Break(had_room) => return had_room,
            ControlFlow::Continue(()) => patience.pause(),
        }
    }
    sink.finish(request.0, Outcome::OutOfMemory);
    true
}

/// Reads beside other writers. Returns whether the sink had room; `None` if the request needs a
/// writer.
#[inline]
fn read_shared<G: GetOptions, S: ReplySink>(
    (index, request): (usize, &HashedRequest<'_>),
    options: &G,
    hint: &Hint<'_>,
    now_s: u32,
    sink: &mut S,
) -> Option<bool> {
    let partition = hint.partition;
    match partition.read_prefetched((index, request), options, hint, now_s, sink) {
        Read::Done { count } => {
            if count {
                partition.note_read(true, (request.hash, request.key), now_s);
            }
            Some(true)
        }
        Read::NoRoom => Some(false),
        Read::Contended | Read::Changes => None,
    }
}

/// Executes a get, or a usual set, whose hint is a fact. Returns whether the sink had room;
/// `None` if the request needs a closer look.
#[inline(always)]
pub(super) fn execute_hinted<S: ReplySink>(
    cache: &Cache,
    (index, request): (usize, &Request<'_>),
    hint: &Hint<'_>,
    now_s: u32,
    sink: &mut S,
) -> Option<bool> {
    if !hint.is_fact() {
        return None;
    }
    // Only hints of the exclusive owner are facts, and only within their batch.
    match request.operation {
        Operation::Get { cas: false } => {
            Own::writer(hint.partition, now_s).get_hinted((index, request.key), hint, sink)
        }
        Operation::Store { condition: Condition::Always | Condition::Absent, value, flags, expiry }
            if hint.entry == 0 && value.len() <= cache.value_bytes_max() =>
        {
            let writer = Own::writer(hint.partition, now_s);
            let stored = writer.insert_hinted(request.key, hint, value, (flags, expiry));
            stored.then(|| {
                sink.finish(index, Outcome::Stored);
                true
            })
        }
        Operation::Store { condition: Condition::Always, value, flags, expiry }
            if value.len() <= cache.value_bytes_max() =>
        {
            let writer = Own::writer(hint.partition, now_s);
            let stored = writer.overwrite_hinted(request.key, hint, value, (flags, expiry));
            stored.then(|| {
                sink.finish(index, Outcome::Stored);
                true
            })
        }
        _ => None,
    }
}

/// Executes one request; returns whether the sink had room for its reply.
#[inline(always)]
pub(super) fn execute_one<M: Mode, S: ReplySink>(
    cache: &Cache,
    (index, request): (usize, &HashedRequest<'_>),
    hint: &Hint<'_>,
    now_s: u32,
    sink: &mut S,
) -> bool {
    match *request.operation {
        Operation::Get { cas: false } => get::<M, S>((index, request), hint, now_s, sink),
        Operation::Store { condition, value, flags, expiry } => {
            let what = (condition, value, (flags, expiry));
            sink.finish(index, store::<M>(cache, request, hint, what, now_s));
            true
        }
        Operation::MetaGet(ref options) => {
            if options.access && !hint.partition.follows_accesses() {
                cache.partitions.iter().for_each(Partition::follow_accesses);
            }
            meta_get::<M, S>((index, request), options, hint, now_s, sink)
        }
        _ => execute_other::<M, S>(cache, hint.partition, (index, request), now_s, sink),
    }
}

#[inline(never)]
fn store<M: Mode>(
    cache: &Cache,
    request: &HashedRequest<'_>,
    hint: &Hint<'_>,
    (condition, value, meta): (Condition, &[u8], (u32, Expiry)),
    now_s: u32,
) -> Outcome {
    let key_bytes = request.key.len();
    if key_bytes == 0 || key_bytes > KEY_BYTES_MAX || value.len() > cache.value_bytes_max() {
        return Outcome::TooLarge;
    }
    if M::SHARED
        && value.len() >= LONG_VALUE_BYTES
        && let Some(outcome) = store_long(hint.partition, request, condition, value, meta, now_s)
    {
        return outcome;
    }
    until_not_busy(|| {
        let writer = M::writer(hint.partition, now_s);
        writer.store(request, hint, condition, value, meta)
    })
}

#[inline(never)]
fn execute_other<M: Mode, S: ReplySink>(
    cache: &Cache,
    partition: &Partition,
    (index, request): (usize, &HashedRequest<'_>),
    now_s: u32,
    sink: &mut S,
) -> bool {
    let value_bytes_max = cache.value_bytes_max();
    let outcome = match *request.operation {
        Operation::Get { cas } => {
            let writer = M::writer(partition, now_s);
            return writer.get((index, request), cas, sink);
        }
        Operation::GetEntry => {
            let writer = M::writer(partition, now_s);
            return writer.get_entry((index, request), sink);
        }
        Operation::StoreEntry { condition, value, flags, expiry } => {
            if value.len() <= value_bytes_max
                && let Some(entry) =
                    M::writer(partition, now_s).store_back(request, condition, value, (flags, expiry))
            {
                sink.entry(index, entry);
                sink.finish(index, Outcome::Stored);
                return true;
            }
            let hint = Hint::nothing(partition, request.hash);
            let what = (condition, value, (flags, expiry));
            let outcome = store::<M>(cache, request, &hint, what, now_s);
            if outcome == Outcome::Stored
                && partition.chunks.get().is_some()
                && let Some(entry) = M::writer(partition, now_s).load(request.hash, request.key)
            {
                sink.entry(index, entry);
            }
            outcome
        }
        Operation::GetAndTouch { expiry, cas } if expiry.has_passed(now_s) => {
            // The value is still returned, for the last time.
            let writer = M::writer(partition, now_s);
            let had_room = writer.get((index, request), cas, sink);
            if had_room {
                writer.delete(request);
            }
            return had_room;
        }
        Operation::GetAndTouch { expiry, cas } => {
            let mut had_room = None;
            let touched = until_not_busy(|| {
                // No change of another writer comes between the two.
                let writer = M::writer(partition, now_s);
                let touched = writer.touch(request, expiry);
                if touched == Outcome::Touched {
                    had_room = Some(writer.get((index, request), cas, sink));
                }
                touched
            });
            match had_room {
                Some(had_room) => return had_room,
                None => touched,
            }
        }
        _ if request.key.is_empty() || request.key.len() > KEY_BYTES_MAX => Outcome::TooLarge,
        Operation::MetaStore(ref store) if store.value.len() > value_bytes_max => Outcome::TooLarge,
        operation => until_not_busy(|| {
            let writer = M::writer(partition, now_s);
            execute_rare(&writer, (index, request), operation, value_bytes_max, sink)
        }),
    };
    sink.finish(index, outcome);
    true
}

/// Repeats an operation that an item in the way stopped, because another thread is still writing
/// that item; that thread needs the lock to finish. Refuses the operation after a while.
#[inline]
fn until_not_busy(mut execute: impl FnMut() -> Outcome) -> Outcome {
    let mut patience = Patience::of_yields();
    for _ in 0..BUSY_ROUNDS_MAX {
        match execute() {
            Outcome::Busy => patience.pause(),
            outcome => return outcome,
        }
    }
    Outcome::OutOfMemory
}

#[inline(never)]
fn execute_rare<S: ReplySink>(
    writer: &Writer<'_>,
    (index, request): (usize, &HashedRequest<'_>),
    operation: Operation<'_>,
    value_bytes_max: usize,
    sink: &mut S,
) -> Outcome {
    let mut described = |(outcome, item): Described| {
        if let Some(item) = item {
            sink.describe(index, item);
        }
        outcome
    };
    match operation {
        Operation::Append { value } => writer.concatenate(request, Side::After, value, value_bytes_max),
        Operation::Prepend { value } => writer.concatenate(request, Side::Before, value, value_bytes_max),
        Operation::Increment { delta } => {
            let by = MetaArithmetic { delta, ..MetaArithmetic::default() };
            writer.meta_arithmetic(request, &by).0
        }
        Operation::Decrement { delta } => {
            let by = MetaArithmetic { delta, decrement: true, ..MetaArithmetic::default() };
            writer.meta_arithmetic(request, &by).0
        }
        Operation::Touch { expiry } => writer.touch_item(request, expiry),
        Operation::Delete => writer.delete(request),
        Operation::MetaStore(store) => described(writer.meta_store(request, &store, value_bytes_max)),
        Operation::MetaDelete(delete) => writer.meta_delete(request, &delete),
        Operation::MetaArithmetic(by) => described(writer.meta_arithmetic(request, &by)),
        Operation::Get { .. }
        | Operation::GetEntry
        | Operation::GetAndTouch { .. }
        | Operation::Store { .. }
        | Operation::StoreEntry { .. }
        | Operation::MetaGet(_) => unreachable!("executed by the caller"),
    }
}
