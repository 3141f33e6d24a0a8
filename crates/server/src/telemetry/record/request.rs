//! Requests as recordings have them.

use micanite_engine as engine;
use micanite_engine::{Condition, Expiry, ItemMeta, Request, StoreMode};
use micanite_workload::recording::{Operation, Outcome};

/// The name of an operation in recordings; none for a look that is no request for an item (`me`).
#[inline]
pub(super) fn operation(of: &engine::Operation<'_>) -> Option<Operation> {
    Some(match of {
        engine::Operation::Get { cas: false } | engine::Operation::GetEntry => Operation::Get,
        engine::Operation::Get { cas: true } => Operation::Gets,
        engine::Operation::GetAndTouch { .. } => Operation::GetAndTouch,
        engine::Operation::Store { condition, .. } | engine::Operation::StoreEntry { condition, .. } => {
            match condition {
                Condition::Always => Operation::Set,
                Condition::Absent => Operation::Add,
                Condition::Present => Operation::Replace,
                Condition::Unchanged(_) => Operation::Cas,
            }
        }
        engine::Operation::Append { .. } => Operation::Append,
        engine::Operation::Prepend { .. } => Operation::Prepend,
        engine::Operation::Increment { .. } => Operation::Increment,
        engine::Operation::Decrement { .. } => Operation::Decrement,
        engine::Operation::Touch { .. } => Operation::Touch,
        engine::Operation::Delete | engine::Operation::MetaDelete(_) => Operation::Delete,
        engine::Operation::MetaGet(get) => match (get.touch, get.value) {
            _ if get.leaves_token => return None,
            (Some(_), true) => Operation::GetAndTouch,
            (Some(_), false) => Operation::Touch,
            (None, _) if get.cas => Operation::Gets,
            (None, _) => Operation::Get,
        },
        engine::Operation::MetaStore(store) => match store.mode {
            StoreMode::Append | StoreMode::AppendOrSet => Operation::Append,
            StoreMode::Prepend | StoreMode::PrependOrSet => Operation::Prepend,
            StoreMode::Add => Operation::Add,
            StoreMode::Set | StoreMode::Replace if store.compare.is_some() => Operation::Cas,
            StoreMode::Set => Operation::Set,
            StoreMode::Replace => Operation::Replace,
        },
        engine::Operation::MetaArithmetic(by) if by.decrement => Operation::Decrement,
        engine::Operation::MetaArithmetic(_) => Operation::Increment,
    })
}

/// Translates the outcome.
#[inline]
pub(super) fn outcome(operation: Operation, of: engine::Outcome) -> Outcome {
    match of {
        engine::Outcome::Hit
        | engine::Outcome::Deleted
        | engine::Outcome::Touched
        | engine::Outcome::Number(_) => Outcome::Hit,
        engine::Outcome::Stored if operation.stores() => Outcome::Hit,
        // An empty item was stored, for there was none.
        engine::Outcome::Stored => Outcome::Miss,
        engine::Outcome::NotStored
        | engine::Outcome::Exists
        | engine::Outcome::NotFound
        | engine::Outcome::NotANumber
        | engine::Outcome::TooLarge
        | engine::Outcome::OutOfMemory
        | engine::Outcome::NotOwner
        | engine::Outcome::Busy => Outcome::Miss,
    }
}

/// Facts about the item that the engine reports while it executes a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ItemFacts {
    /// Length of the value that a reply has room for.
    pub value_bytes: Option<usize>,
    /// The item's state, for meta commands.
    pub item: Option<ItemMeta>,
}

impl ItemFacts {
    /// Length of its value.
    pub fn bytes(&self) -> Option<usize> {
        self.value_bytes.or(self.item.map(|item| item.value_bytes))
    }
}

/// Length of the value that was sent to be stored, or that was found, or that is there now.
pub(super) fn value_bytes(request: &Request<'_>, ended: engine::Outcome, facts: &ItemFacts) -> Option<usize> {
    match &request.operation {
        engine::Operation::Store { value, .. } | engine::Operation::StoreEntry { value, .. } => {
            Some(value.len())
        }
        engine::Operation::MetaStore(store) => match store.mode {
            StoreMode::Set | StoreMode::Add | StoreMode::Replace => Some(store.value.len()),
            // Length of the whole value, if it is known.
            _ if ended == engine::Outcome::Stored => facts.item.map(|item| item.value_bytes),
            _ => None,
        },
        engine::Operation::Append { .. }
        | engine::Operation::Prepend { .. }
        | engine::Operation::Delete
        | engine::Operation::MetaDelete(_) => None,
        _ => match ended {
            engine::Outcome::Hit | engine::Outcome::Touched => facts.bytes(),
            engine::Outcome::Number(number) => {
                Some(facts.bytes().unwrap_or(1 + number.checked_ilog10().unwrap_or(0) as usize))
            }
            _ => None,
        },
    }
}

/// Seconds until what was stored or touched expires, 0 for never; none if nothing was said.
pub(super) fn expiry_s(request: &Request<'_>, facts: &ItemFacts, now_s: u32) -> Option<u32> {
    let expiry = match &request.operation {
        engine::Operation::Store { expiry, .. }
        | engine::Operation::StoreEntry { expiry, .. }
        | engine::Operation::GetAndTouch { expiry, .. }
        | engine::Operation::Touch { expiry } => Some(*expiry),
        engine::Operation::MetaStore(store) => match store.mode {
            StoreMode::Set | StoreMode::Add | StoreMode::Replace => Some(store.expiry),
            _ => None,
        },
        engine::Operation::MetaGet(get) => get.touch,
        engine::Operation::MetaArithmetic(by) => match facts.item {
            Some(item) if item.created => by.vivify,
            _ => by.touch,
        },
        _ => None,
    };
    expiry.map(|expiry| match expiry {
        Expiry::NEVER => 0,
        // An item that has expired already counts as one second, because 0 means never.
        Expiry(at_s) => at_s.saturating_sub(now_s).max(1),
    })
}
