//! Requests on their way from the trace to a connection.

use micanite_workload::KEY_BYTES_MAX;
use micanite_workload::trace::{Key, Operation, Outcome, Request};

use super::native::fits;

/// Characters of a key that stands for a number: so many hold 64 bits.
pub(super) const NUMBER_CHARACTERS: usize = 11;
/// Larger values are not sent: a server that takes them is not a cache of them.
pub(super) const VALUE_BYTES_MAX: u32 = 64 << 20;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A request as it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Time since the start of the replay; 0 if it is due as soon as possible.
    pub due_ns: u64,
    /// Hash of the trace's key.
    pub key_hash: u64,
    /// Place of its key in the batch.
    pub key_start: u32,
    pub key_bytes: u8,
    pub operation: Operation,
    /// Length of the value that is stored; none if the trace does not say.
    pub value_bytes: Option<u32>,
    /// Seconds from when it is sent; 0 is never.
    pub expiry_s: u32,
    /// True if it is stored if it is not found.
    pub fill: Fill,
}

/// Decision to store what a read misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    No,
    Yes,
    /// Stored if it were not too large.
    TooLarge,
}

/// Steps for one worker, in the order of the trace, with their keys.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub steps: Vec<Step>,
    pub keys: Vec<u8>,
}

impl Batch {
    pub fn key(&self, step: &Step) -> &[u8] {
        let start = step.key_start as usize;
        &self.keys[start..start + usize::from(step.key_bytes)]
    }

    /// Adds a step of this batch or of another one, whose key is `key`.
    pub fn push(&mut self, step: Step, key: &[u8]) {
        let key_start = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        self.steps.push(Step { key_start, ..step });
    }
}

/// Reason not to send a request of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// A write, where only reads are wanted.
    Write,
    /// A store whose size the trace does not tell.
    UnknownSize,
    /// A store of more than [`VALUE_BYTES_MAX`], or than fits a datagram.
    TooLarge,
}

/// Makes steps of requests.
#[derive(Debug)]
pub(super) struct Translator {
    pub key_prefix: Vec<u8>,
    pub is_read_only: bool,
    /// Divisor of the trace's times; none means as fast as possible.
    pub speed: Option<f64>,
    /// The longest datagram, where requests are sent in such.
    pub datagram_bytes: Option<usize>,
    /// Keys of the trace that a server would not take.
    pub keys_replaced: u64,
    pub key: Vec<u8>,
}

impl Translator {
    /// The step for a request; its key is in [`Self::key`].
    pub fn step(&mut self, request: &Request<'_>) -> Result<Step, Skip> {
        let (is_read, stores) = (request.operation.reads(), request.operation.stores());
        if self.is_read_only && !is_read {
            return Err(Skip::Write);
        }
        self.write_key(request);
        let key_bytes = self.key.len() as u32 - self.key_prefix.len() as u32;
        // If the trace gives only the length of key and value together, ours add up to it.
        let value_bytes = match request.key_bytes {
            0 => request.value_bytes.map(|both| both.saturating_sub(key_bytes)),
            _ => request.value_bytes,
        };
        if stores && value_bytes.is_none() {
            return Err(Skip::UnknownSize);
        }
        let is_too_large = (is_read || stores)
            && value_bytes.is_some_and(|bytes| self.is_too_large(request.operation, bytes));
        if is_too_large && !is_read {
            return Err(Skip::TooLarge);
        }
        // After a miss that the trace knows of, it tells what the client did.
        let is_filled =
            is_read && !self.is_read_only && value_bytes.is_some() && request.outcome != Outcome::Miss;
        Ok(Step {
            due_ns: 0,
            key_hash: request.key.hash(),
            key_start: 0,
            key_bytes: self.key.len() as u8,
            operation: request.operation,
            value_bytes,
            expiry_s: self.expiry_s(request.expiry_s.unwrap_or(0)),
            fill: match is_filled {
                true if is_too_large => Fill::TooLarge,
                true => Fill::Yes,
                false => Fill::No,
            },
        })
    }

    /// Returns whether a value cannot be stored under the key that was written last.
    fn is_too_large(&self, operation: Operation, value_bytes: u32) -> bool {
        let fits = |datagram_bytes| fits(datagram_bytes, operation, self.key.len(), value_bytes);
        value_bytes > VALUE_BYTES_MAX || !self.datagram_bytes.is_none_or(fits)
    }

    /// The trace's key if a server takes it, filled up to the length that the trace says it has;
    /// else eleven characters that stand for its number.
    fn write_key(&mut self, request: &Request<'_>) {
        self.key.clear();
        self.key.extend_from_slice(&self.key_prefix);
        let room = KEY_BYTES_MAX - self.key_prefix.len();
        match request.key {
            Key::Text(text) if is_key(text) && text.len() <= room => {
                self.key.extend_from_slice(text);
            }
            Key::Text(_) => {
                self.keys_replaced += 1;
                push_number(&mut self.key, request.key.hash());
            }
            Key::Number(number) => push_number(&mut self.key, number),
        }
        let whole = self.key_prefix.len() + (request.key_bytes as usize).min(room);
        if self.key.len() < whole {
            self.key.resize(whole, b'.');
        }
    }

    fn expiry_s(&self, seconds: u32) -> u32 {
        if seconds == 0 {
            return 0;
        }
        let scaled = f64::from(seconds) / self.speed.unwrap_or(1.0);
        scaled.ceil().max(1.0) as u32
    }
}

/// Returns whether a server takes it as a key.
fn is_key(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

fn push_number(to: &mut Vec<u8>, number: u64) {
    let digits = (0..NUMBER_CHARACTERS).map(|at| DIGITS[(number >> (6 * at)) as usize & 63]);
    to.extend(digits);
}

/// A step on a connection. Values are zeros, so that they can be counted up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Command<'a> {
    /// `Get`, `Gets`, `GetAndTouch` read; `Cas` is the second half, with the value's number.
    pub operation: Operation,
    pub key: &'a [u8],
    pub value_bytes: u32,
    pub expiry_s: u32,
    pub cas: u64,
}
