//! Engine operations of meta commands.

use micanite_engine::{
    Condition, Expiry, MetaArithmetic, MetaDelete, MetaGet, MetaStore, Operation, StoreMode,
};
use micanite_wire::memcache::text::expiry;
use micanite_wire::memcache::text::meta::{MetaFlags, MetaVerb};

use crate::session::Kind;

/// Returns the operation and its kind. `follows`: items record access times.
#[inline]
pub(super) fn operation<'a>(
    verb: MetaVerb,
    flags: &MetaFlags<'_>,
    value: &'a [u8],
    now_s: u32,
    follows: bool,
) -> (Operation<'a>, Kind) {
    let at = |exptime: Option<i64>| exptime.map(|exptime| Expiry(expiry(exptime, now_s)));
    match verb {
        MetaVerb::Get => get(flags, at),
        MetaVerb::Store { .. } => store(flags, value, follows, at),
        MetaVerb::Delete => (delete(flags, at), Kind::Delete),
        MetaVerb::Arithmetic => arithmetic(flags, at),
        MetaVerb::Debug => {
            let look = MetaGet { cas: true, uncounted: true, leaves_token: true, ..MetaGet::default() };
            (Operation::MetaGet(look), Kind::Get)
        }
    }
}

#[inline]
fn get<'a>(flags: &MetaFlags<'_>, at: impl Fn(Option<i64>) -> Option<Expiry>) -> (Operation<'a>, Kind) {
    let touch = at(flags.touch);
    let get = MetaGet {
        value: flags.value,
        unless_cas: flags.compare,
        cas: flags.cas,
        access: flags.access,
        uncounted: flags.unnoticed,
        touch,
        touch_first: flags.touch_before_recache,
        vivify: begin(flags, &at),
        recache: at(flags.recache),
        new_cas: flags.new_cas.unwrap_or(0),
        leaves_token: false,
    };
    let kind = if touch.is_some() { Kind::Touch } else { Kind::Get };
    (Operation::MetaGet(get), kind)
}

/// Returns the expiry of an item that the request may create: the last one in the line.
#[inline]
fn begin(flags: &MetaFlags<'_>, at: impl Fn(Option<i64>) -> Option<Expiry>) -> Option<Expiry> {
    match at(flags.touch) {
        Some(touch) if !flags.touch_before_vivify => at(flags.vivify).map(|_| touch),
        _ => at(flags.vivify),
    }
}

#[inline]
fn store<'a>(
    flags: &MetaFlags<'_>,
    value: &'a [u8],
    follows: bool,
    at: impl Fn(Option<i64>) -> Option<Expiry>,
) -> (Operation<'a>, Kind) {
    let vivify = at(flags.vivify);
    let (mode, condition) = match (flags.mode, vivify) {
        (b'E', _) => (StoreMode::Add, Some(Condition::Absent)),
        (b'R', _) => (StoreMode::Replace, Some(Condition::Present)),
        (b'A', None) => (StoreMode::Append, None),
        (b'A', Some(_)) => (StoreMode::AppendOrSet, None),
        (b'P', None) => (StoreMode::Prepend, None),
        (b'P', Some(_)) => (StoreMode::PrependOrSet, None),
        _ => (StoreMode::Set, Some(Condition::Always)),
    };
    let expiry = match (condition, vivify) {
        (None, Some(vivify)) => vivify,
        _ => at(flags.touch).unwrap_or(Expiry::NEVER),
    };
    let plain = flags.compare.is_none() && flags.new_cas.is_none() && !flags.cas && !follows;
    if let Some(condition) = condition.filter(|_| plain) {
        let operation = Operation::Store { condition, value, flags: flags.client_flags, expiry };
        return (operation, Kind::Store);
    }
    let store = MetaStore {
        value,
        flags: flags.client_flags,
        expiry,
        mode,
        cas: flags.cas,
        stale: flags.invalidate,
        compare: flags.compare,
        new_cas: flags.new_cas.unwrap_or(0),
    };
    let compares = matches!(mode, StoreMode::Set | StoreMode::Replace) && flags.compare.is_some();
    let kind = if compares { Kind::Cas } else { Kind::Store };
    (Operation::MetaStore(store), kind)
}

fn delete<'a>(flags: &MetaFlags<'_>, at: impl Fn(Option<i64>) -> Option<Expiry>) -> Operation<'a> {
    let stays = flags.invalidate || flags.empty;
    if flags.compare.is_none() && !stays {
        return Operation::Delete;
    }
    Operation::MetaDelete(MetaDelete {
        compare: flags.compare,
        new_cas: flags.new_cas.unwrap_or(0),
        invalidate: flags.invalidate,
        empty: flags.empty.then_some(flags.client_flags),
        expiry: at(flags.touch),
    })
}

fn arithmetic<'a>(
    flags: &MetaFlags<'_>,
    at: impl Fn(Option<i64>) -> Option<Expiry>,
) -> (Operation<'a>, Kind) {
    let decrement = matches!(flags.mode, b'D' | b'-');
    let by = MetaArithmetic {
        delta: flags.delta.unwrap_or(1),
        decrement,
        cas: flags.cas,
        compare: flags.compare.unwrap_or(0),
        new_cas: flags.new_cas.unwrap_or(0),
        vivify: begin(flags, &at),
        initial: flags.initial,
        touch: at(flags.touch),
    };
    let kind = if decrement { Kind::Decrement } else { Kind::Increment };
    (Operation::MetaArithmetic(by), kind)
}
