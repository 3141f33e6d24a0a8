//! Requests of the wire as those of the engine.

use micanite_engine::{Condition, Expiry, Operation};
use micanite_wire::native::{Opcode, Request};

use super::outbox::Outbox;

/// Translates a request; none for a no-op.
#[inline]
pub(super) fn operation<'d, O: Outbox>(request: &Request<'d>, now_s: u32) -> Option<Operation<'d>> {
    let expiry = match request.expiry_s {
        0 => Expiry::NEVER,
        after_s => Expiry(now_s.saturating_add(after_s)),
    };
    let (value, flags) = (request.value, request.flags);
    let store = |condition| match O::IS_FABRIC {
        true => Operation::StoreEntry { condition, value, flags, expiry },
        false => Operation::Store { condition, value, flags, expiry },
    };
    Some(match request.opcode {
        Opcode::Noop => return None,
        Opcode::Get if O::IS_FABRIC && request.wants_entry && !request.wants_cas => Operation::GetEntry,
        Opcode::Get => Operation::Get { cas: request.wants_cas },
        Opcode::GetAndTouch => Operation::GetAndTouch { expiry, cas: request.wants_cas },
        Opcode::Set => store(Condition::Always),
        Opcode::Add => store(Condition::Absent),
        Opcode::Replace => store(Condition::Present),
        Opcode::Cas => store(Condition::Unchanged(request.argument)),
        Opcode::Delete => Operation::Delete,
        Opcode::Touch => Operation::Touch { expiry },
        Opcode::Increment => Operation::Increment { delta: request.argument },
        Opcode::Decrement => Operation::Decrement { delta: request.argument },
        Opcode::Append => Operation::Append { value: request.value },
        Opcode::Prepend => Operation::Prepend { value: request.value },
    })
}
