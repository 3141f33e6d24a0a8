//! Stores whose body does not fit a block of input: it is read into a value buffer.
//!
//! The buffer holds the key, the value, and the line end, so that the connection need not keep
//! the command line.

use micanite_engine::{Expiry, Outcome, ReplySink, Request, ValueMeta};
use micanite_wire::memcache::text::{Command, Step, expiry};

use super::answer::bad_chunk;
use super::gather::{kind, operation};
use super::meta::{Alone, META_REPLY_BYTES_MAX};
use super::sink::{count, write};
use super::{Context, LongStore, Progress, Protocol, Session, Status};
use crate::output::Output;

/// What [`Session::begin_body`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// Bytes of the buffer that are filled. When all are: [`Session::end_body`].
    pub filled: usize,
}

impl Session {
    /// After [`Status::NeedBody`], with the rest of the same input and a buffer of the length
    /// that was asked for: moves what is there of the body into the buffer.
    ///
    /// # Panics
    /// With another input or another length.
    pub fn begin_body(&mut self, input: &[u8], buffer: &mut [u8]) -> Body {
        if self.protocol == Protocol::Binary {
            return self.begin_body_binary(input, buffer);
        }
        let step = self.parser.step(input, false);
        if let Step::Command { command: Command::Meta(_), line_bytes } = step {
            // The whole line goes first: its reply repeats words of it.
            let filled = input.len().min(buffer.len());
            buffer[..filled].copy_from_slice(&input[..filled]);
            self.meta_store = Some(line_bytes);
            return Body { consumed: filled, filled };
        }
        let Step::Command {
            command: Command::Store { verb, key, flags, exptime, value_bytes, noreply },
            line_bytes,
        } = step
        else {
            panic!("the input of NeedBody begins with a store");
        };
        assert_eq!(buffer.len(), key.len() + value_bytes + 2);
        let body = &input[line_bytes..];
        let there = body.len().min(value_bytes + 2);
        let filled = key.len() + there;
        buffer[..key.len()].copy_from_slice(key);
        buffer[key.len()..filled].copy_from_slice(&body[..there]);
        self.store = Some(LongStore { verb, key_bytes: key.len(), flags, exptime, noreply });
        Body { consumed: line_bytes + there, filled }
    }

    /// Executes the store whose body is complete. The output must have room for a short reply:
    /// [`Status::NeedOutput`] if it has not, and then nothing has happened.
    ///
    /// # Panics
    /// Without a store that was begun.
    pub fn end_body(
        &mut self,
        buffer: &[u8],
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Progress {
        if self.protocol == Protocol::Binary {
            return self.end_body_binary(buffer, output, context);
        }
        let bytes = if self.meta_store.is_some() {
            META_REPLY_BYTES_MAX
        } else {
            crate::limits::SHORT_REPLY_BYTES_MAX
        };
        if output.room() < bytes {
            return Progress { consumed: 0, status: Status::NeedOutput { bytes } };
        }
        if let Some(line_bytes) = self.meta_store.take() {
            let (line, body) = buffer.split_at(line_bytes);
            match body.strip_suffix(b"\r\n") {
                None => bad_chunk(false, output, context),
                // Its reply is short, and there is room for it.
                Some(value) => drop(Alone { line, value }.execute(output, context)),
            }
            return Progress { consumed: 0, status: Status::NeedInput };
        }
        let store = self.store.take().expect("a store was begun");
        let (key, body) = buffer.split_at(store.key_bytes);
        match body.strip_suffix(b"\r\n") {
            None => bad_chunk(store.noreply, output, context),
            Some(value) => {
                let outcome = execute(&store, key, value, context);
                count(context.counters, kind(store.verb), outcome);
                if !store.noreply {
                    write(output, outcome);
                }
            }
        }
        Progress { consumed: 0, status: Status::NeedInput }
    }
}

fn execute(store: &LongStore, key: &[u8], value: &[u8], context: &mut Context<'_>) -> Outcome {
    let expiry = Expiry(expiry(store.exptime, context.now_s));
    let request = Request {
        hash: context.hash(key),
        key,
        operation: operation(store.verb, value, store.flags, expiry),
    };
    let mut sink = OneOutcome(Outcome::OutOfMemory);
    context.execute(&[request], &mut sink);
    sink.0
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
