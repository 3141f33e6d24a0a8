//! Engine operations of binary requests.

use micanite_engine::{Expiry, MetaArithmetic, MetaDelete, MetaGet, MetaStore, Operation, StoreMode};
use micanite_wire::memcache::binary::{Arithmetic, Store};
use micanite_wire::memcache::text::{self as wire, StoreVerb};

use super::super::{Kind, text};

/// Converts an expiry, which has no sign here: the largest is a time far away.
fn expiry(exptime: u32, now_s: u32) -> u32 {
    if exptime == u32::MAX { exptime } else { wire::expiry(exptime.into(), now_s) }
}

#[inline]
pub(super) fn get<'a>(exptime: Option<u32>, now_s: u32) -> (Operation<'a>, Kind) {
    match exptime {
        None => (Operation::Get { cas: true }, Kind::Get),
        Some(exptime) => {
            let expiry = Expiry(expiry(exptime, now_s));
            (Operation::GetAndTouch { expiry, cas: true }, Kind::GetAndTouch)
        }
    }
}

/// Returns a touch that describes the item for its reply.
pub(super) fn touch<'a>(exptime: u32, now_s: u32) -> Operation<'a> {
    Operation::MetaGet(MetaGet {
        cas: true,
        touch: Some(Expiry(expiry(exptime, now_s))),
        ..MetaGet::default()
    })
}

pub(super) fn delete<'a>(cas: u64) -> Operation<'a> {
    if cas == 0 {
        return Operation::Delete;
    }
    Operation::MetaDelete(MetaDelete { compare: Some(cas), ..MetaDelete::default() })
}

/// Returns the engine's operation for a store. A loud one describes the new CAS value.
#[inline]
pub(super) fn store_operation<'a>(store: &Store<'_>, value: &'a [u8], now_s: u32) -> Operation<'a> {
    let expiry = Expiry(expiry(store.exptime, now_s));
    if store.quiet && store.cas == 0 {
        return text::store_operation(store.verb, value, store.flags, expiry);
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

/// Returns the engine's operation for an increment or decrement.
#[inline]
pub(super) fn arithmetic<'a>(by: &Arithmetic<'_>, now_s: u32) -> (Operation<'a>, Kind) {
    let kind = if by.decrement { Kind::Decrement } else { Kind::Increment };
    let at = |exptime: u32| Expiry(expiry(exptime, now_s));
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
