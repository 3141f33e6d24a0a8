//! Requests and outcomes as lines and counts tell them apart.

use micanite_engine::{Operation, Outcome};

/// Returns whether the item was there.
pub(crate) fn has_found(outcome: Outcome) -> bool {
    !matches!(
        outcome,
        Outcome::NotFound | Outcome::Stored | Outcome::OutOfMemory | Outcome::NotOwner | Outcome::Busy
    )
}

/// Returns the command of a removal.
pub(crate) fn deletes(operation: &Operation<'_>) -> Option<&'static str> {
    match operation {
        Operation::Delete => Some("delete"),
        Operation::MetaDelete(_) => Some("md"),
        _ => None,
    }
}
