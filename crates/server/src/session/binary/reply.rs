//! Replies in the binary protocol.

use micanite_engine::{Outcome, ValueMeta};
use micanite_wire::memcache::binary::Head;
use micanite_wire::memcache::binary::reply::{self, Status, VALUE_HEADER_BYTES_MAX};
use micanite_wire::memcache::text::StoreVerb;

use super::super::batch::Sink;
use super::{Binary, Form, Role};
use crate::output::Output;

impl Sink<'_, '_, '_, Binary> {
    #[inline]
    pub(super) fn begin_binary_value(&mut self, index: usize, form: &Form, meta: ValueMeta) -> bool {
        if !self.has_room(index, VALUE_HEADER_BYTES_MAX + meta.value_bytes) {
            return false;
        }
        let head = form.head;
        let with_key = form.role == Role::Get { with_key: true };
        let key = if with_key { self.requests[index].key } else { &[] };
        self.output.push_with(|out| {
            let words = (meta.flags, meta.cas);
            reply::value_header(out, head, words, key, meta.value_bytes)
        });
        true
    }

    #[inline]
    pub(super) fn finish_binary(&mut self, index: usize, form: &Form, outcome: Outcome) {
        match form.role {
            Role::Get { with_key } => self.finish_get(index, *form, outcome, with_key),
            Role::Touch => self.finish_touch(form.head, outcome),
            Role::Write(verb) => self.finish_write(*form, outcome, verb),
        }
    }

    #[inline]
    fn finish_get(&mut self, index: usize, form: Form, outcome: Outcome, with_key: bool) {
        // The reply to a hit is complete with its value.
        if outcome == Outcome::Hit || outcome == Outcome::NotFound && form.quiet {
            return;
        }
        let key = self.requests[index].key;
        self.output.push_with(|out| match outcome {
            Outcome::NotFound if with_key => reply::miss_with_key(out, form.head, key),
            other => reply::error(out, form.head, status(None, other)),
        });
    }

    /// Answers a write.
    #[inline]
    fn finish_write(&mut self, form: Form, outcome: Outcome, verb: Option<StoreVerb>) {
        let status = status(verb, outcome);
        if status != Status::Ok {
            return fail(self.output, form.head, status);
        }
        if form.quiet {
            return;
        }
        let cas = self.item.cas;
        self.output.push_with(|out| match outcome {
            Outcome::Number(number) => reply::number(out, form.head, number, cas),
            Outcome::Stored => reply::done(out, form.head, cas),
            _ => reply::done(out, form.head, 0),
        });
    }

    fn finish_touch(&mut self, head: Head, outcome: Outcome) {
        match status(None, outcome) {
            Status::Ok => {
                let words = (self.item.flags, self.item.cas);
                self.output.push_with(|out| reply::value_header(out, head, words, &[], 0));
            }
            status => fail(self.output, head, status),
        }
    }
}

/// Returns the status of an outcome. `verb` is that of a store.
#[inline]
fn status(verb: Option<StoreVerb>, outcome: Outcome) -> Status {
    let joins = matches!(verb, Some(StoreVerb::Append | StoreVerb::Prepend));
    match outcome {
        Outcome::Hit | Outcome::Stored | Outcome::Deleted | Outcome::Touched | Outcome::Number(_) => {
            Status::Ok
        }
        Outcome::NotFound => Status::NotFound,
        Outcome::Exists => Status::Exists,
        Outcome::NotStored => match verb {
            Some(StoreVerb::Add) => Status::Exists,
            Some(StoreVerb::Replace) => Status::NotFound,
            _ => Status::NotStored,
        },
        Outcome::TooLarge if joins => Status::NotStored,
        Outcome::TooLarge => Status::TooLarge,
        Outcome::NotANumber => Status::NotANumber,
        // As in the text protocol.
        Outcome::OutOfMemory | Outcome::NotOwner | Outcome::Busy => Status::OutOfMemory,
    }
}

/// Writes an error.
pub(super) fn fail(output: &mut Output<'_>, head: Head, status: Status) {
    output.push_with(|out| reply::error(out, head, status));
}
