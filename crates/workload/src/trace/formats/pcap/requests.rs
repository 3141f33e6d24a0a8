//! Messages of clients, in memcached's text, meta and binary protocols.

use micanite_wire::memcache::binary;
use micanite_wire::memcache::text::meta::{MetaFlags, MetaLine, MetaVerb, base64};
use micanite_wire::memcache::text::{Command, Parser, RELATIVE_EXPTIME_MAX_S, Step, StoreVerb};
use xxhash_rust::xxh3::xxh3_64;

use super::expected::{Answer, Change, Expectations, Expected, Meta};
use super::framing::Taken;
use super::queue::{KEY_BYTES_MAX, Queue, Waiting};
use crate::trace::{Operation, Outcome};

/// A line that is longer is looked at in pieces, if it is a get.
const LINE_BYTES_MAX: usize = 1 << 13;
/// The binary protocol's no-op, which clients send behind quiet commands.
const NOOP: u8 = 0x0a;

/// The queue that takes requests, and the answers that are expected.
pub(super) struct Requests<'a> {
    pub queue: &'a mut Queue,
    pub expected: &'a mut Expectations,
    pub refused_lines: &'a mut u64,
}

impl Requests<'_> {
    /// Takes the request at the start of the bytes. If it `is_lost` where requests begin, only what
    /// is certainly one is taken.
    pub fn take(&mut self, parser: &mut Parser, bytes: &[u8], is_lost: bool) -> Taken {
        if is_lost {
            *parser = Parser::default();
        }
        if bytes.first() == Some(&binary::REQUEST_MAGIC) {
            return self.take_binary(bytes, is_lost);
        }
        match parser.step(bytes, bytes.len() >= LINE_BYTES_MAX) {
            Step::Incomplete => Taken::Incomplete,
            Step::Command { command, .. } if is_lost && !is_data(&command) => Taken::Nonsense,
            Step::Command { command, line_bytes } => {
                let skip = self.text(&command);
                Taken::Message { bytes: line_bytes, skip }
            }
            Step::Refused { .. } if is_lost => Taken::Nonsense,
            Step::Refused { reply, line_bytes, swallow_bytes, close } => {
                *self.refused_lines += 1;
                if !reply.is_empty() {
                    self.expect(0, Answer::OtherLine);
                }
                if close {
                    return Taken::Nonsense;
                }
                Taken::Message { bytes: line_bytes, skip: swallow_bytes }
            }
        }
    }

    fn expect(&mut self, requests: u32, answer: Answer) {
        let first = self.queue.next_number() - u64::from(requests);
        self.expected.push(Expected { first, requests, answer });
    }

    fn waiting(&self, operation: Operation, key: &[u8]) -> Waiting {
        Waiting::new(self.queue.time_ms(), operation, key)
    }

    /// A request with one key; with nothing to expect, it does not wait.
    fn push(&mut self, request: Waiting, answer: Option<Answer>) {
        let number = self.queue.push(request);
        match answer {
            Some(answer) => self.expect(1, answer),
            None => {
                let value_bytes = request.value_bytes;
                self.queue.settle(number, Outcome::Unknown, value_bytes);
            }
        }
    }

    /// Seconds from now, of an expiry as it is on the wire; what has passed is one.
    fn expiry_s(&self, exptime: i64) -> u32 {
        let now_s = self.queue.time_ms() / 1000;
        match exptime {
            0 => 0,
            ..0 => 1,
            1..=RELATIVE_EXPTIME_MAX_S => exptime as u32,
            _ => u32::try_from((exptime as u64).saturating_sub(now_s).max(1)).unwrap_or(u32::MAX - 1),
        }
    }

    /// Bytes to be skipped behind the line.
    fn text(&mut self, command: &Command<'_>) -> u64 {
        let answer = |noreply: bool, answer: Answer| (!noreply).then_some(answer);
        match *command {
            Command::Get { keys, cas } => {
                let operation = if cas { Operation::Gets } else { Operation::Get };
                let is_open = !keys.is_last();
                self.gets(keys, operation, None, is_open);
            }
            Command::GetAndTouch { exptime, keys, .. } => {
                let expiry_s = Some(self.expiry_s(exptime));
                let is_open = !keys.is_last();
                self.gets(keys, Operation::GetAndTouch, expiry_s, is_open);
            }
            Command::Store { verb, key, exptime, value_bytes, noreply, .. } => {
                let request = Waiting {
                    value_bytes: u32::try_from(value_bytes).ok(),
                    expiry_s: Some(self.expiry_s(exptime)),
                    ..self.waiting(operation_of(verb), key)
                };
                self.push(request, answer(noreply, Answer::Line(Change::Store)));
                return value_bytes as u64 + 2;
            }
            Command::Delete { key, noreply } => {
                let request = self.waiting(Operation::Delete, key);
                self.push(request, answer(noreply, Answer::Line(Change::Delete)));
            }
            Command::Arithmetic { key, decrement, noreply, .. } => {
                let request = self.waiting(arithmetic(decrement), key);
                self.push(request, answer(noreply, Answer::Line(Change::Arithmetic)));
            }
            Command::Touch { key, exptime, noreply } => {
                let request =
                    Waiting { expiry_s: Some(self.expiry_s(exptime)), ..self.waiting(Operation::Touch, key) };
                self.push(request, answer(noreply, Answer::Line(Change::Touch)));
            }
            Command::Meta(line) => return self.meta(&line),
            Command::MetaNoop => self.expect(0, meta_answer(Meta::Noop, None, &MetaFlags::default())),
            Command::Stats { .. } => self.expect(0, Answer::Statistics),
            Command::FlushAll { noreply, .. }
            | Command::FlushNamespace { noreply, .. }
            | Command::Verbosity { noreply, .. }
            | Command::RefreshCerts { noreply }
                if noreply => {}
            Command::Quit | Command::Shutdown { .. } => {}
            _ => self.expect(0, Answer::OtherLine),
        }
        0
    }

    fn gets<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]>,
        operation: Operation,
        expiry_s: Option<u32>,
        is_open: bool,
    ) {
        let mut requests = 0;
        for key in keys {
            let request = Waiting { expiry_s, ..self.waiting(operation, key) };
            self.queue.push(request);
            requests += 1;
        }
        self.expect(requests, Answer::Values { is_open });
    }

    /// Bytes to be skipped behind the line.
    fn meta(&mut self, line: &MetaLine<'_>) -> u64 {
        let stored_bytes = match line.verb {
            MetaVerb::Store { value_bytes } => Some(value_bytes),
            _ => None,
        };
        let skip = stored_bytes.map_or(0, |bytes| bytes as u64 + 2);
        let flags = match line.flags() {
            Ok(flags) => flags,
            Err(misuse) => {
                *self.refused_lines += 1;
                self.expect(0, Answer::OtherLine);
                return if misuse.skips_value { skip } else { 0 };
            }
        };
        let mut decoded = [0; KEY_BYTES_MAX];
        let key = if flags.base64 { base64::decode(line.key, &mut decoded) } else { None };
        let key = key.unwrap_or(line.key);
        let mode = flags.mode.to_ascii_uppercase();
        let (verb, operation, exptime) = match line.verb {
            MetaVerb::Get if flags.touch.is_some() => (Meta::Get, Operation::GetAndTouch, flags.touch),
            MetaVerb::Get if flags.cas => (Meta::Get, Operation::Gets, None),
            MetaVerb::Get => (Meta::Get, Operation::Get, None),
            MetaVerb::Store { .. } => {
                let operation = match mode {
                    _ if flags.compare.is_some() => Operation::Cas,
                    b'E' => Operation::Add,
                    b'A' => Operation::Append,
                    b'P' => Operation::Prepend,
                    b'R' => Operation::Replace,
                    _ => Operation::Set,
                };
                (Meta::Store, operation, Some(flags.touch.unwrap_or(0)))
            }
            MetaVerb::Delete => (Meta::Delete, Operation::Delete, None),
            MetaVerb::Arithmetic => (Meta::Arithmetic, arithmetic(matches!(mode, b'D' | b'-')), None),
            MetaVerb::Debug => {
                self.expect(0, meta_answer(Meta::Debug, Some(line), &flags));
                return 0;
            }
        };
        let request = Waiting {
            value_bytes: stored_bytes.and_then(|bytes| u32::try_from(bytes).ok()),
            expiry_s: exptime.map(|exptime| self.expiry_s(exptime)),
            ..self.waiting(operation, key)
        };
        self.push(request, Some(meta_answer(verb, Some(line), &flags)));
        skip
    }

    fn take_binary(&mut self, bytes: &[u8], is_lost: bool) -> Taken {
        let (command, head, length) = match binary::step(bytes) {
            binary::Step::Incomplete => return Taken::Incomplete,
            binary::Step::Command { command, head, bytes } => (command, head, bytes),
            binary::Step::Refused { swallow_bytes, close: false, .. } if !is_lost => {
                return Taken::Message { bytes: binary::HEADER_BYTES, skip: swallow_bytes };
            }
            _ => return Taken::Nonsense,
        };
        let answer = |is_quiet: bool, reads: bool| {
            let (opcode, opaque) = (head.opcode, head.opaque);
            Some(Answer::Binary { opcode, opaque, is_quiet, reads })
        };
        let mut skip = 0;
        match command {
            binary::Command::Get { key, exptime, quiet, .. } => {
                let operation = exptime.map_or(Operation::Get, |_| Operation::GetAndTouch);
                let request = Waiting {
                    expiry_s: exptime.map(|exptime| self.expiry_s(exptime.into())),
                    ..self.waiting(operation, key)
                };
                self.push(request, answer(quiet, true));
            }
            binary::Command::Touch { key, exptime } => {
                let request = Waiting {
                    expiry_s: Some(self.expiry_s(exptime.into())),
                    ..self.waiting(Operation::Touch, key)
                };
                self.push(request, answer(false, false));
            }
            binary::Command::Store(store) => {
                let request = Waiting {
                    value_bytes: u32::try_from(store.value_bytes).ok(),
                    expiry_s: Some(self.expiry_s(store.exptime.into())),
                    ..self.waiting(operation_of(store.verb), store.key)
                };
                self.push(request, answer(store.quiet, false));
                skip = store.value_bytes as u64;
            }
            binary::Command::Delete { key, quiet, .. } => {
                let request = self.waiting(Operation::Delete, key);
                self.push(request, answer(quiet, false));
            }
            binary::Command::Arithmetic(arithmetic_command) => {
                let operation = arithmetic(arithmetic_command.decrement);
                let request = self.waiting(operation, arithmetic_command.key);
                self.push(request, answer(arithmetic_command.quiet, false));
            }
            _ if is_lost => return Taken::Nonsense,
            binary::Command::Noop => {
                let (opcode, opaque) = (NOOP, head.opaque);
                self.expect(0, Answer::Binary { opcode, opaque, is_quiet: false, reads: false });
            }
            _ => {}
        }
        Taken::Message { bytes: length, skip }
    }
}

/// Returns whether a command asks for items: hardly any value looks like one.
fn is_data(command: &Command<'_>) -> bool {
    matches!(
        command,
        Command::Get { .. }
            | Command::GetAndTouch { .. }
            | Command::Store { .. }
            | Command::Delete { .. }
            | Command::Arithmetic { .. }
            | Command::Touch { .. }
            | Command::Meta(_)
    )
}

fn operation_of(verb: StoreVerb) -> Operation {
    match verb {
        StoreVerb::Set => Operation::Set,
        StoreVerb::Add => Operation::Add,
        StoreVerb::Replace => Operation::Replace,
        StoreVerb::Append => Operation::Append,
        StoreVerb::Prepend => Operation::Prepend,
        StoreVerb::Cas(_) => Operation::Cas,
    }
}

fn arithmetic(is_decrement: bool) -> Operation {
    if is_decrement { Operation::Decrement } else { Operation::Increment }
}

/// The answer to a meta command, with what it repeats of it.
fn meta_answer(verb: Meta, line: Option<&MetaLine<'_>>, flags: &MetaFlags<'_>) -> Answer {
    let flag = |letter: u8| {
        let mut words = line?.flag_words();
        words.find(|(flag, _)| *flag == letter).map(|(_, word)| word)
    };
    Answer::Meta {
        verb,
        opaque: flag(b'O').map(xxh3_64),
        key: flag(b'k').and(line).map(|line| xxh3_64(line.key)),
        is_quiet: flags.quiet,
    }
}
