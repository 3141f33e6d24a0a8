//! Requests that take several steps, each of them a batch of its own: comparing the CAS value
//! where the engine does not, and storing what an increment has not found.
//!
//! The steps of an append, prepend, increment or decrement with a CAS value are a look and a
//! write. Another worker's write between the two goes unnoticed.

use std::io::Write;

use micanite_engine::{Condition, Expiry, Operation, Outcome, ReplySink, Request, ValueMeta};
use micanite_wire::memcache::binary::reply::{self, Status};
use micanite_wire::memcache::binary::{Arithmetic, Head, Store};
use micanite_wire::memcache::text::{StoreVerb, expiry};

use super::super::gather::{Kind, kind, operation};
use super::super::sink::count;
use super::gather::count_by;
use super::sink::{fail, reads, status};
use super::{Context, Output, REPLACED};

/// An increment and its initial number are tried so often, while others delete and add the item.
const TRIES: usize = 8;
/// Longest value that is looked at.
const LOOK_BYTES_MAX: usize = 64;

/// A store with its value, of any length.
pub(super) fn store(
    store: &Store<'_>,
    head: Head,
    value: &[u8],
    output: &mut Output<'_>,
    context: &mut Context<'_>,
) {
    let joins = matches!(store.verb, StoreVerb::Append | StoreVerb::Prepend);
    let refused = if joins && store.cas != 0 {
        match look(store.key, context) {
            None => Some(Outcome::NotStored),
            Some(seen) if seen.meta.cas != store.cas => Some(Outcome::Exists),
            Some(_) => None,
        }
    } else {
        None
    };
    let expiry = Expiry(expiry(store.exptime.into(), context.now_s));
    let operation = operation(store.verb, value, store.flags, expiry);
    let outcome = refused.unwrap_or_else(|| execute(store.key, operation, context));
    count(context.counters, kind(store.verb), outcome);
    match status(Some(store.verb), outcome) {
        Status::Ok if store.quiet => {}
        Status::Ok => {
            let is_it = |seen: &Seen| {
                joins || (seen.meta.value_bytes, seen.meta.flags) == (value.len(), store.flags)
            };
            let cas = look(store.key, context).filter(is_it);
            let cas = cas.map_or(REPLACED, |seen| seen.meta.cas);
            output.push_with(|out| reply::done(out, head, cas));
        }
        status => fail(output, head, status),
    }
}

/// A delete of an item with this CAS value: the item is replaced by one that has expired.
pub(super) fn delete(
    (key, cas, quiet): (&[u8], u64, bool),
    head: Head,
    output: &mut Output<'_>,
    context: &mut Context<'_>,
) {
    let operation = Operation::Store {
        condition: Condition::Unchanged(cas),
        value: &[],
        flags: 0,
        expiry: Expiry::PAST,
    };
    let outcome = execute(key, operation, context);
    if matches!(outcome, Outcome::Stored | Outcome::NotFound) {
        count(context.counters, Kind::Delete, outcome);
    }
    match status(None, outcome) {
        Status::Ok if quiet => {}
        Status::Ok => output.push_with(|out| reply::done(out, head, 0)),
        status => fail(output, head, status),
    }
}

/// A touch, whose reply has the item's flags and CAS value.
pub(super) fn touch(
    (key, exptime): (&[u8], u32),
    head: Head,
    output: &mut Output<'_>,
    context: &mut Context<'_>,
) {
    let expiry = Expiry(expiry(exptime.into(), context.now_s));
    let seen = look(key, context);
    let outcome = match seen {
        None => Outcome::NotFound,
        Some(_) => execute(key, Operation::Touch { expiry }, context),
    };
    count(context.counters, Kind::Touch, outcome);
    match (status(None, outcome), seen) {
        (Status::Ok, Some(Seen { meta, .. })) => {
            output.push_with(|out| reply::value_header(out, head, (meta.flags, meta.cas), &[], 0))
        }
        (status, _) => fail(output, head, status),
    }
}

/// An increment or decrement with a CAS value or an initial number.
pub(super) fn arithmetic(
    arithmetic: &Arithmetic<'_>,
    head: Head,
    output: &mut Output<'_>,
    context: &mut Context<'_>,
) {
    match change(arithmetic, context) {
        Ok(_) if arithmetic.quiet => {}
        Ok(number) => {
            let is_it = |seen: &Seen| reads(seen.value(), number);
            let cas = look(arithmetic.key, context).filter(is_it);
            let cas = cas.map_or(REPLACED, |seen| seen.meta.cas);
            output.push_with(|out| reply::number(out, head, number, cas));
        }
        Err(status) => fail(output, head, status),
    }
}

/// The new number, or what to say instead.
fn change(arithmetic: &Arithmetic<'_>, context: &mut Context<'_>) -> Result<u64, Status> {
    let key = arithmetic.key;
    if arithmetic.cas != 0
        && let Some(seen) = look(key, context)
        && seen.meta.cas != arithmetic.cas
    {
        // An empty value is no number, whatever its CAS value.
        return Err(if seen.meta.value_bytes == 0 {
            Status::NotANumber
        } else {
            Status::Exists
        });
    }
    let (operation, kind) = count_by(arithmetic);
    for _ in 0..TRIES {
        let outcome = execute(key, operation, context);
        if outcome != Outcome::NotFound || arithmetic.initial.is_none() {
            count(context.counters, kind, outcome);
        }
        match (outcome, arithmetic.initial) {
            (Outcome::Number(number), _) => return Ok(number),
            (Outcome::NotFound, Some((initial, exptime))) => {
                match begin(key, initial, exptime, context) {
                    Outcome::Stored => return Ok(initial),
                    // Somebody else has begun it.
                    Outcome::NotStored => {}
                    refused => return Err(status(None, refused)),
                }
            }
            (refused, _) => return Err(status(None, refused)),
        }
    }
    Err(Status::NotStored)
}

/// Stores the initial number if there is none.
fn begin(key: &[u8], initial: u64, exptime: u32, context: &mut Context<'_>) -> Outcome {
    let mut digits = [0; 20];
    let mut rest = digits.as_mut_slice();
    write!(rest, "{initial}").expect("20 digits hold every number");
    let left = rest.len();
    let operation = Operation::Store {
        condition: Condition::Absent,
        value: &digits[..20 - left],
        flags: 0,
        expiry: Expiry(expiry(exptime.into(), context.now_s)),
    };
    execute(key, operation, context)
}

/// What is known of an item.
#[derive(Clone, Copy)]
struct Seen {
    meta: ValueMeta,
    /// Its value, if it is this short.
    bytes: [u8; LOOK_BYTES_MAX],
}

impl Seen {
    fn value(&self) -> &[u8] {
        self.bytes.get(..self.meta.value_bytes).unwrap_or_default()
    }
}

/// Looks at an item, without its value if that is long.
fn look(key: &[u8], context: &mut Context<'_>) -> Option<Seen> {
    let mut sink = Look(None);
    run(key, Operation::Get { cas: true }, &mut sink, context);
    sink.0
}

struct Look(Option<Seen>);

impl ReplySink for Look {
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        let bytes = [0; LOOK_BYTES_MAX];
        let seen = self.0.insert(Seen { meta, bytes });
        seen.bytes.get_mut(..meta.value_bytes)
    }
    fn rollback(&mut self, _: usize) {
        self.0 = None;
    }
    fn finish(&mut self, _: usize, _: Outcome) {}
}

fn execute(key: &[u8], operation: Operation<'_>, context: &mut Context<'_>) -> Outcome {
    let mut sink = OneOutcome(Outcome::OutOfMemory);
    run(key, operation, &mut sink, context);
    sink.0
}

fn run<S: ReplySink + Send>(
    key: &[u8],
    operation: Operation<'_>,
    sink: &mut S,
    context: &mut Context<'_>,
) {
    let hash = context.hash(key);
    let request = Request {
        hash,
        key,
        operation,
    };
    context.execute(&[request], sink);
}

/// Keeps how the one request of a batch ended.
struct OneOutcome(Outcome);

impl ReplySink for OneOutcome {
    fn reserve(&mut self, _: usize, _: ValueMeta) -> Option<&mut [u8]> {
        None
    }
    fn rollback(&mut self, _: usize) {}
    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.0 = outcome;
    }
}
