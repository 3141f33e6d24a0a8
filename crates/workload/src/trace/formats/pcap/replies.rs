//! Messages of servers, in memcached's text, meta and binary protocols.

use memchr::memchr;
use micanite_wire::memcache::binary;
use xxhash_rust::xxh3::xxh3_64;

use super::expected::{Answer, Change, Expectations, Expected, Meta};
use super::framing::Taken;
use super::queue::{Queue, Waiting};
use crate::trace::Outcome;
use crate::trace::formats::lines::number_u32;

/// A longer line is no reply.
const LINE_BYTES_MAX: usize = 2048;
/// A longer body is no reply.
const BODY_BYTES_MAX: u32 = 1 << 30;

/// The queue that learns how requests ended.
pub(super) struct Replies<'a> {
    pub queue: &'a mut Queue,
    pub expected: &'a mut Expectations,
}

impl Replies<'_> {
    /// Takes the reply at the start of the bytes. If it `is_lost` where replies begin, only what is
    /// certainly one is taken.
    pub fn take(&mut self, bytes: &[u8], is_lost: bool) -> Taken {
        if bytes.first() == Some(&binary::REPLY_MAGIC) {
            return self.take_binary(bytes);
        }
        let Some(end) = memchr(b'\n', &bytes[..bytes.len().min(LINE_BYTES_MAX)]) else {
            if bytes.len() < LINE_BYTES_MAX {
                return Taken::Incomplete;
            }
            self.expected.get_adrift();
            return Taken::Nonsense;
        };
        let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        let mut words = line.split(|byte| *byte == b' ');
        let first = words.next().unwrap_or_default();
        let skip = match first {
            b"VALUE" => self.value(words),
            b"VA" => words.next().and_then(number_u32).map(|bytes| {
                self.meta(first, words, Some(bytes));
                u64::from(bytes) + 2
            }),
            b"HD" | b"EN" | b"NF" | b"NS" | b"EX" | b"MN" | b"ME" => {
                self.meta(first, words, None);
                Some(0)
            }
            _ if is_lost && !is_status(first) => None,
            _ => {
                self.status(first);
                Some(0)
            }
        };
        match skip {
            Some(skip) => Taken::Message { bytes: end + 1, skip },
            None => {
                self.expected.get_adrift();
                Taken::Nonsense
            }
        }
    }

    /// `VALUE key flags bytes [cas]`: what is to be skipped behind the line.
    fn value<'w>(&mut self, mut words: impl Iterator<Item = &'w [u8]>) -> Option<u64> {
        let (key, _flags) = (words.next()?, words.next()?);
        let value_bytes = number_u32(words.next()?)?;
        if !self.expected.value(self.queue, key, value_bytes) {
            self.expected.get_adrift();
        }
        Some(u64::from(value_bytes) + 2)
    }

    fn meta<'w>(&mut self, code: &[u8], flags: impl Iterator<Item = &'w [u8]>, value_bytes: Option<u32>) {
        let (mut told_opaque, mut told_key, mut is_won, mut size) = (None, None, false, value_bytes);
        for flag in flags {
            match flag.first() {
                Some(b'O') => told_opaque = Some(xxh3_64(flag)),
                Some(b'k') => told_key = Some(xxh3_64(&flag[1..])),
                Some(b's') => size = size.or_else(|| number_u32(&flag[1..])),
                Some(b'W') => is_won = true,
                _ => {}
            }
        }
        // An empty value that the client is to fill was not there.
        let is_made = is_won && size == Some(0);
        let outcome = match code {
            b"VA" | b"HD" if !is_made => Outcome::Hit,
            b"VA" | b"HD" | b"EN" | b"NF" | b"NS" | b"EX" => Outcome::Miss,
            _ => Outcome::Unknown,
        };
        let size = size.filter(|_| outcome == Outcome::Hit);
        let is_it = |one: &Expected, _: &Queue| match &one.answer {
            Answer::Meta { verb, opaque, key, is_quiet } => {
                answers(code, *verb, *is_quiet)
                    && opaque.is_none_or(|opaque| told_opaque == Some(opaque))
                    && key.is_none_or(|key| told_key == Some(key) || code == b"EN" || code == b"NF")
            }
            _ => false,
        };
        // A reply that names its request is certain, even after losses.
        let is_named = told_opaque.is_some() || told_key.is_some();
        if self.expected.is_adrift() && !is_named {
            return;
        }
        if !self.expected.answer(self.queue, is_named, is_it, outcome, size) {
            self.expected.get_adrift();
        }
    }

    /// A line that is neither a value nor a meta reply.
    fn status(&mut self, first: &[u8]) {
        if self.expected.is_adrift() {
            return;
        }
        let Some(head) = self.expected.head(self.queue) else {
            return;
        };
        if matches!(first, b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR") {
            return self.expected.answered(self.queue, Outcome::Unknown);
        }
        let outcome = match (head.answer, first) {
            (Answer::Values { .. }, b"END") => Some(Outcome::Miss),
            (Answer::Line(change), _) => outcome(change, first),
            (Answer::OtherLine, _) => Some(Outcome::Unknown),
            (Answer::Statistics, b"END" | b"RESET" | b"OK") => Some(Outcome::Unknown),
            // They look like anything.
            (Answer::Statistics, _) => return,
            _ => None,
        };
        match outcome {
            Some(outcome) => self.expected.answered(self.queue, outcome),
            None => self.expected.get_adrift(),
        }
    }

    fn take_binary(&mut self, bytes: &[u8]) -> Taken {
        let Some(header) = bytes.first_chunk::<{ binary::HEADER_BYTES }>() else {
            return Taken::Incomplete;
        };
        let [_, opcode, k0, k1, extras, data_type, s0, s1, b0, b1, b2, b3, o0, o1, o2, o3, ..] = *header;
        let body = u32::from_be_bytes([b0, b1, b2, b3]);
        let before_value = u32::from(u16::from_be_bytes([k0, k1])) + u32::from(extras);
        if data_type != 0 || body > BODY_BYTES_MAX || before_value > body {
            return Taken::Nonsense;
        }
        let length = binary::HEADER_BYTES + before_value as usize;
        let Some(key) = bytes.get(binary::HEADER_BYTES + usize::from(extras)..length) else {
            return Taken::Incomplete;
        };
        let told = [o0, o1, o2, o3];
        let outcome = match u16::from_be_bytes([s0, s1]) {
            0 => Outcome::Hit,
            // Not found, exists, not stored.
            1 | 2 | 5 => Outcome::Miss,
            _ => Outcome::Unknown,
        };
        let is_it = |one: &Expected, queue: &Queue| match one.answer {
            Answer::Binary { opcode: asked, opaque, .. } => {
                let request = queue.get(one.first);
                let is_named = |request: &Waiting| key.is_empty() || request.key() == key;
                asked == opcode && opaque == told && request.is_none_or(is_named)
            }
            _ => false,
        };
        let value_bytes = (outcome == Outcome::Hit).then_some(body - before_value);
        // Opcode, opaque value and key name the request; other commands have answers, too.
        self.expected.answer(self.queue, true, is_it, outcome, value_bytes);
        Taken::Message { bytes: length, skip: u64::from(body - before_value) }
    }
}

/// Returns whether a word begins a line that servers send.
fn is_status(word: &[u8]) -> bool {
    matches!(
        word,
        b"END"
            | b"STORED"
            | b"NOT_STORED"
            | b"EXISTS"
            | b"NOT_FOUND"
            | b"DELETED"
            | b"TOUCHED"
            | b"OK"
            | b"ERROR"
            | b"CLIENT_ERROR"
            | b"SERVER_ERROR"
    )
}

/// Returns how a command ended that is answered so; none if it is not an answer.
fn outcome(change: Change, answer: &[u8]) -> Option<Outcome> {
    match (change, answer) {
        (Change::Store, b"STORED") | (Change::Delete, b"DELETED") | (Change::Touch, b"TOUCHED") => {
            Some(Outcome::Hit)
        }
        (Change::Store, b"NOT_STORED" | b"EXISTS") | (_, b"NOT_FOUND") => Some(Outcome::Miss),
        (Change::Arithmetic, digits) if digits.first().is_some_and(u8::is_ascii_digit) => Some(Outcome::Hit),
        _ => None,
    }
}

/// Returns whether a meta command may be answered by this; quiet ones are not told what is usual.
fn answers(code: &[u8], verb: Meta, is_quiet: bool) -> bool {
    match code {
        b"VA" => matches!(verb, Meta::Get | Meta::Arithmetic),
        b"HD" if is_quiet => verb == Meta::Get,
        b"HD" => !matches!(verb, Meta::Noop | Meta::Debug),
        b"EN" => matches!(verb, Meta::Get | Meta::Debug) && !is_quiet,
        b"NF" if is_quiet => verb == Meta::Store,
        b"NF" => matches!(verb, Meta::Delete | Meta::Arithmetic | Meta::Store),
        b"NS" => matches!(verb, Meta::Store | Meta::Arithmetic),
        b"EX" => matches!(verb, Meta::Store | Meta::Delete | Meta::Arithmetic),
        b"MN" => verb == Meta::Noop,
        _ => verb == Meta::Debug,
    }
}
