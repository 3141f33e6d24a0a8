//! Replies to classic commands.

use micanite_engine::{Operation, Outcome, ValueMeta};
use micanite_wire::memcache::text::reply::{self, VALUE_HEADER_BYTES_MAX};

use super::super::batch::Sink;
use super::{Form, Text};
use crate::limits::SHORT_REPLY_BYTES_MAX;
use crate::output::Output;

// Every reply without a value fits the room that is kept for it.
const _: () = assert!(reply::NOT_A_NUMBER.len() <= SHORT_REPLY_BYTES_MAX);
const _: () = assert!(reply::OUT_OF_MEMORY.len() <= SHORT_REPLY_BYTES_MAX);
const _: () = assert!(reply::NUMBER_BYTES_MAX <= SHORT_REPLY_BYTES_MAX);

impl<'i> Sink<'_, 'i, '_, Text<'i>> {
    #[inline]
    pub(super) fn begin_value(&mut self, index: usize, form: &Form, meta: ValueMeta) -> bool {
        if let Form::Meta { number } = form {
            return self.begin_meta_value(index, usize::from(*number), meta.value_bytes);
        }
        if !self.has_room(index, VALUE_HEADER_BYTES_MAX + meta.value_bytes + 2) {
            return false;
        }
        let request = &self.requests[index];
        let cas = match request.operation {
            Operation::Get { cas } | Operation::GetAndTouch { cas, .. } => cas,
            _ => false,
        };
        self.output.push_with(|out| {
            let cas = cas.then_some(meta.cas);
            reply::value_header(out, request.key, meta.flags, meta.value_bytes, cas)
        });
        true
    }

    #[inline]
    pub(super) fn finish_text(&mut self, index: usize, form: &Form, outcome: Outcome) {
        match form {
            Form::Get { is_last } => {
                if outcome == Outcome::Hit {
                    self.output.push(b"\r\n");
                }
                if *is_last {
                    self.output.push(reply::END);
                }
            }
            Form::Line { noreply: true } => {}
            Form::Line { noreply: false } => write(self.output, outcome),
            Form::Meta { number } => self.finish_meta(index, usize::from(*number), outcome),
        }
    }
}

/// Writes the reply to a request for no value.
#[inline]
pub(super) fn write(output: &mut Output<'_>, outcome: Outcome) {
    output.push(match outcome {
        Outcome::Stored => reply::STORED,
        Outcome::NotStored => reply::NOT_STORED,
        Outcome::Exists => reply::EXISTS,
        Outcome::NotFound => reply::NOT_FOUND,
        Outcome::Deleted => reply::DELETED,
        Outcome::Touched => reply::TOUCHED,
        Outcome::NotANumber => reply::NOT_A_NUMBER,
        Outcome::TooLarge => reply::TOO_LARGE,
        // The cache has a waker, so it delegates requests to owners; the engine waits by itself.
        Outcome::OutOfMemory | Outcome::NotOwner | Outcome::Busy => reply::OUT_OF_MEMORY,
        Outcome::Number(number) => {
            output.push_with(|out| reply::number(out, number));
            return;
        }
        // The reply to a request for a value.
        Outcome::Hit => return,
    });
}
