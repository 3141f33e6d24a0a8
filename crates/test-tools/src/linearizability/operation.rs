//! Operations on a key, what a client was told of them, and what the model says of that.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a value. No two writes of a run have the same one.
pub(super) type ValueId = u64;

/// Request of a client, or an event that befalls all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Action {
    Get,
    Set(ValueId),
    Add(ValueId),
    /// Stores a value unless the item has changed since the client read `seen`.
    Cas {
        seen: ValueId,
        stored: ValueId,
    },
    Delete,
    Touch,
    /// Removes all items.
    FlushAll,
    /// The item may be lost once meanwhile: the server was killed.
    Loss,
    /// A copy of an earlier write, which may come late, or never.
    LateCopy(Option<ValueId>),
}

/// Reply to an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Found {
    /// A get found this value.
    Value(ValueId),
    /// A get found a value that its protocol cannot carry.
    Something,
    /// The write happened.
    Done,
    /// There is no such item.
    Missing,
    /// The item is there, and prevents an add; or it has changed, and prevents a cas.
    Refused,
    /// The item is gone afterwards, whoever removed it.
    Gone,
    /// No reply: it happened at any time after the call, or never.
    Unknown,
    /// It never happened.
    NotSent,
}

/// An operation with its times. All clocks are CLOCK_MONOTONIC of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Operation {
    pub client: u32,
    pub called_ns: u64,
    /// `u64::MAX` without a reply.
    pub returned_ns: u64,
    pub action: Action,
    pub found: Found,
}

/// State of a key: its value, or absent.
pub(super) type State = Option<ValueId>;

/// Condition for the reply of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requires {
    Nothing,
    Absent,
    Present,
    Value(ValueId),
    Another(ValueId),
}

/// State after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    Same,
    Absent,
    Value(ValueId),
}

/// An operation as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub requires: Requires,
    pub leaves: Leaves,
    /// It may also never happen.
    pub optional: bool,
}

impl Action {
    /// Returns what a copy of the request may do after its reply.
    pub fn late_copy(self) -> Option<Self> {
        match self {
            Self::Set(value) => Some(Self::LateCopy(Some(value))),
            Self::Delete => Some(Self::LateCopy(None)),
            _ => None,
        }
    }
}

impl Operation {
    /// Returns the model's step; none, if the reply says nothing.
    pub fn step(&self) -> Option<Step> {
        use Leaves as L;
        use Requires as R;
        let certain = |requires, leaves| Some(Step { requires, leaves, optional: false });
        let optional = |requires, leaves| Some(Step { requires, leaves, optional: true });
        match (self.action, self.found) {
            (_, Found::NotSent) => None,
            (Action::Loss, _) => optional(R::Present, L::Absent),
            (Action::LateCopy(None), _) => optional(R::Nothing, L::Absent),
            (Action::LateCopy(Some(value)), _) => optional(R::Nothing, L::Value(value)),
            (Action::Get, Found::Value(value)) => certain(R::Value(value), L::Same),
            (Action::Get | Action::Touch, Found::Missing) => certain(R::Absent, L::Same),
            (Action::Get, Found::Something) | (Action::Touch, Found::Done) => certain(R::Present, L::Same),
            (Action::Get | Action::Touch, _) => None,
            (Action::Set(value), Found::Unknown) => optional(R::Nothing, L::Value(value)),
            (Action::Set(value), _) => certain(R::Nothing, L::Value(value)),
            (Action::Add(value), Found::Unknown) => optional(R::Absent, L::Value(value)),
            (Action::Add(value), Found::Done) => certain(R::Absent, L::Value(value)),
            (Action::Add(_), _) => certain(R::Present, L::Same),
            (Action::Cas { seen, stored }, Found::Unknown) => optional(R::Value(seen), L::Value(stored)),
            (Action::Cas { seen, stored }, Found::Done) => certain(R::Value(seen), L::Value(stored)),
            (Action::Cas { .. }, Found::Missing) => certain(R::Absent, L::Same),
            (Action::Cas { seen, .. }, _) => certain(R::Another(seen), L::Same),
            (Action::Delete | Action::FlushAll, Found::Unknown) => optional(R::Nothing, L::Absent),
            (Action::Delete, Found::Done) => certain(R::Present, L::Absent),
            (Action::Delete, Found::Missing) => certain(R::Absent, L::Same),
            (Action::Delete | Action::FlushAll, _) => certain(R::Nothing, L::Absent),
        }
    }
}

impl Step {
    /// Returns the state after the step, or none where its reply would be another. `evicts`: the item may
    /// leave just before.
    pub fn apply(&self, state: State, evicts: bool) -> Option<State> {
        let mut before = state;
        let holds = match self.requires {
            Requires::Nothing => true,
            Requires::Absent => {
                before = if evicts { None } else { state };
                before.is_none()
            }
            Requires::Present => state.is_some(),
            Requires::Value(value) => state == Some(value),
            Requires::Another(value) => state.is_some_and(|found| found != value),
        };
        holds.then_some(match self.leaves {
            Leaves::Same => before,
            Leaves::Absent => None,
            Leaves::Value(value) => Some(value),
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action {
            Action::Get => write!(to, "get")?,
            Action::Set(value) => write!(to, "set {value:#x}")?,
            Action::Add(value) => write!(to, "add {value:#x}")?,
            Action::Cas { seen, stored } => write!(to, "cas {seen:#x} by {stored:#x}")?,
            Action::Delete => write!(to, "delete")?,
            Action::Touch => write!(to, "touch")?,
            Action::FlushAll => write!(to, "flush_all")?,
            Action::Loss => return write!(to, "the server was killed"),
            Action::LateCopy(Some(value)) => return write!(to, "late copy of set {value:#x}"),
            Action::LateCopy(None) => return write!(to, "late copy of delete"),
        }
        match self.found {
            Found::Value(value) => write!(to, " -> {value:#x}"),
            found => write!(to, " -> {}", format!("{found:?}").to_lowercase()),
        }
    }
}
