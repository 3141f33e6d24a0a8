//! Parses the bytes of a connection into commands.

use super::administration::administration;
use super::command::{Command, Keys, StoreVerb};
use super::meta::MetaLine;
use super::number::{self, signed, signed_64_loose, unsigned, unsigned_loose};
use super::refusal::{BAD_FORMAT, Refusal, Result};
use super::tokens::Words;
use super::{KEY_BYTES_MAX, LINE_BYTES_MAX};

pub(super) const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument\r\n";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta argument\r\n";
const LINE_TOO_LONG: &str = "CLIENT_ERROR line too long\r\n";
/// Shortest accepted line, without its line feed.
const LINE_BYTES_MIN: usize = 3;
/// Longest body that memcached's 32-bit lengths can express.
pub(super) const BODY_BYTES_MAX: i32 = i32::MAX - 2;
/// Most leading spaces before a get whose line may exceed [`LINE_BYTES_MAX`].
const LEADING_SPACES_MAX: usize = 100;

/// Result of parsing the start of the input.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The line is not complete yet.
    Incomplete,
    Command {
        command: Command<'a>,
        /// Length of the line with its end.
        line_bytes: usize,
    },
    Refused {
        /// Reply with its line end; empty if the client wants none.
        reply: &'static str,
        /// Length of the line.
        line_bytes: usize,
        /// Bytes to skip after the line.
        swallow_bytes: u64,
        close: bool,
    },
}

/// Parser state of a connection: a multi-get whose line has not ended yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parser {
    open: Option<OpenGet>,
}

#[derive(Clone, Copy, Debug)]
struct OpenGet {
    exptime: Option<i64>,
    cas: bool,
}

impl OpenGet {
    fn command<'a>(self, line: &'a [u8], last: bool) -> Command<'a> {
        let keys = Keys::of(line, last);
        match self.exptime {
            None => Command::Get { keys, cas: self.cas },
            Some(exptime) => Command::GetAndTouch { exptime, keys, cas: self.cas },
        }
    }
}

impl Parser {
    /// Parses the unconsumed bytes of a connection. With `full` the caller's buffer holds no more,
    /// so a get without a line end is split after a key, and any other line is refused.
    #[inline]
    pub fn step<'a>(&mut self, input: &'a [u8], full: bool) -> Step<'a> {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            return self.without_end(input, full);
        };
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line_bytes = end + 1;
        let result = match self.open.take() {
            Some(open) => more_keys(open, line),
            // memcached requires three bytes, including the carriage return, before it parses
            // words.
            None if end < LINE_BYTES_MIN => Err(Refusal::short(line)),
            None => command(line),
        };
        match result {
            Ok(command) => Step::Command { command, line_bytes },
            Err(Refusal { reply, swallow_bytes, close }) => {
                Step::Refused { reply, line_bytes, swallow_bytes, close }
            }
        }
    }

    #[cold]
    fn without_end<'a>(&mut self, input: &'a [u8], full: bool) -> Step<'a> {
        let is_short = input.len() <= LINE_BYTES_MAX;
        let get = self.open.is_some() || is_get(input);
        if !full && (is_short || get || is_get_behind_spaces(input)) {
            return Step::Incomplete;
        }
        if !get {
            return closed_without_reply(input.len());
        }
        let Some(end) = input.iter().rposition(|byte| *byte == b' ') else {
            return too_long(input.len());
        };
        let line = &input[..end];
        let result = match self.open {
            Some(open) => more_keys(open, line).map(|_| (open, line)),
            None => open_get(line),
        };
        match result {
            Ok((open, keys)) if input.len() - end <= KEY_BYTES_MAX + 1 => {
                self.open = Some(open);
                Step::Command { command: open.command(keys, false), line_bytes: end }
            }
            _ => too_long(input.len()),
        }
    }
}

/// Closes the connection without a reply, like memcached: no valid client sends such a line.
#[cold]
fn closed_without_reply<'a>(line_bytes: usize) -> Step<'a> {
    Step::Refused { reply: "", line_bytes, swallow_bytes: 0, close: true }
}

/// Refuses a get line that cannot be split, because one of its words is longer than any key.
#[cold]
fn too_long<'a>(line_bytes: usize) -> Step<'a> {
    Step::Refused { reply: LINE_TOO_LONG, line_bytes, swallow_bytes: 0, close: true }
}

fn is_get(input: &[u8]) -> bool {
    [b"get ".as_slice(), b"gets ", b"gat ", b"gats "].iter().any(|verb| input.starts_with(verb))
}

/// Returns whether a get follows leading spaces. memcached waits for the end of such a line, then
/// refuses it.
fn is_get_behind_spaces(input: &[u8]) -> bool {
    let spaces = input.iter().take_while(|byte| **byte == b' ').count();
    spaces <= LEADING_SPACES_MAX && is_get(&input[spaces..])
}

/// Parses the next keys of a get whose line was split.
fn more_keys(open: OpenGet, line: &[u8]) -> Result<Command<'_>> {
    check_keys(line)?;
    Ok(open.command(line, true))
}

/// Parses the beginning of a get; returns it with its keys.
fn open_get(line: &[u8]) -> Result<(OpenGet, &[u8])> {
    let mut words = Words::of(line);
    let (touch, cas) = match words.next() {
        Some(b"get") => (false, false),
        Some(b"gets") => (false, true),
        Some(b"gat") => (true, false),
        _ => (true, true),
    };
    let exptime = if touch { Some(exptime(words.next().ok_or(BAD_FORMAT)?)?) } else { None };
    check_keys(words.rest())?;
    Ok((OpenGet { exptime, cas }, words.rest()))
}

fn check_keys(line: &[u8]) -> Result<()> {
    // A short line cannot hold a key that is too long.
    if line.len() > KEY_BYTES_MAX && Words::of(line).any(|key| key.len() > KEY_BYTES_MAX) {
        return Err(BAD_FORMAT.into());
    }
    Ok(())
}

fn exptime(word: &[u8]) -> Result<i64> {
    number::exptime(word).ok_or(BAD_EXPTIME.into())
}

/// Parses a whole line.
#[inline]
fn command(line: &[u8]) -> Result<Command<'_>> {
    if line.first() == Some(&b' ') {
        return Err(Refusal::unknown(line));
    }
    let mut words = Words::of(line);
    let Some(verb) = words.next() else {
        return Err(BAD_FORMAT.into());
    };
    match verb {
        b"get" | b"gets" => get(words, verb == b"gets", None),
        b"set" => store(words, StoreVerb::Set),
        b"add" => store(words, StoreVerb::Add),
        b"replace" => store(words, StoreVerb::Replace),
        b"append" => store(words, StoreVerb::Append),
        b"prepend" => store(words, StoreVerb::Prepend),
        b"cas" => store(words, StoreVerb::Cas(0)),
        b"gat" | b"gats" => {
            let exptime = exptime_word(&mut words)?;
            get(words, verb == b"gats", Some(exptime))
        }
        b"incr" | b"decr" => arithmetic(words, verb == b"decr"),
        b"delete" => delete(words),
        b"mg" | b"ms" | b"md" | b"ma" | b"me" => meta(verb, words),
        b"touch" => touch(words),
        _ => administration(verb, words).unwrap_or_else(|| Err(Refusal::unknown(line))),
    }
}

fn exptime_word(words: &mut Words<'_>) -> Result<i64> {
    let word = words.next().ok_or(BAD_FORMAT)?;
    if Words::of(words.rest()).next().is_none() {
        return Err(BAD_FORMAT.into());
    }
    exptime(word)
}

#[inline]
fn get<'a>(words: Words<'a>, cas: bool, exptime: Option<i64>) -> Result<Command<'a>> {
    let keys = words.rest();
    check_keys(keys)?;
    if keys.iter().all(|byte| *byte == b' ') {
        return Err(BAD_FORMAT.into());
    }
    Ok(OpenGet { exptime, cas }.command(keys, true))
}

#[inline]
pub(super) fn key<'a>(words: &mut Words<'a>) -> Result<&'a [u8]> {
    words.next().filter(|key| key.len() <= KEY_BYTES_MAX).ok_or(BAD_FORMAT.into())
}

#[inline]
fn store<'a>(mut words: Words<'a>, verb: StoreVerb) -> Result<Command<'a>> {
    let key = words.next().ok_or(BAD_FORMAT)?;
    let flags = words.next().ok_or(BAD_FORMAT)?;
    let exptime = words.next().ok_or(BAD_FORMAT)?;
    let value_bytes = words.next().ok_or(BAD_FORMAT)?;
    // Without a length the end of the request is unknown, so the error is sent in spite of noreply.
    let value_bytes = signed(value_bytes).filter(|bytes| (0..=BODY_BYTES_MAX).contains(bytes));
    let value_bytes = value_bytes.ok_or(BAD_FORMAT)? as usize;
    let cas = if matches!(verb, StoreVerb::Cas(_)) { words.next() } else { None };
    let noreply = noreply(words) || cas == Some(b"noreply");
    let parsed = || {
        // Flags wider than 32 bits lose their upper bits, like in memcached.
        let flags = unsigned_loose(flags)? as u32;
        let exptime = signed_64_loose(exptime)?;
        let verb = match verb {
            StoreVerb::Cas(_) => StoreVerb::Cas(unsigned(cas?)?),
            other => other,
        };
        (key.len() <= KEY_BYTES_MAX).then_some((flags, exptime, verb))
    };
    match parsed() {
        Some((flags, exptime, verb)) => {
            Ok(Command::Store { verb, key, flags, exptime, value_bytes, noreply })
        }
        None => {
            let swallow_bytes = value_bytes as u64 + 2;
            Err(Refusal::with_body(BAD_FORMAT, swallow_bytes).silent(noreply))
        }
    }
}

/// Returns whether `noreply` is the last word.
#[inline]
pub(super) fn noreply(words: Words<'_>) -> bool {
    let rest = words.rest();
    !rest.is_empty() && words.last() == Some(b"noreply".as_slice())
}

/// Parses a meta command, without its flags. The server parses them at execution.
#[inline]
fn meta<'a>(verb: &[u8], words: Words<'a>) -> Result<Command<'a>> {
    match MetaLine::of(verb, words) {
        Ok(line) => Ok(Command::Meta(line)),
        Err((reply, swallow_bytes)) => Err(Refusal::with_body(reply, swallow_bytes)),
    }
}

fn arithmetic<'a>(mut words: Words<'a>, decrement: bool) -> Result<Command<'a>> {
    let key = key(&mut words);
    // `noreply` in place of the delta suppresses the reply, too.
    let noreply = noreply(words);
    let delta = words.next().ok_or(BAD_FORMAT)?;
    let key = key.map_err(|refusal| refusal.silent(noreply))?;
    let delta = unsigned(delta).ok_or(Refusal::of(BAD_DELTA).silent(noreply))?;
    Ok(Command::Arithmetic { key, delta, decrement, noreply })
}

/// Accepts further words, like memcached 1.6.45.
fn delete(mut words: Words<'_>) -> Result<Command<'_>> {
    let key = key(&mut words);
    let noreply = noreply(words);
    let key = key.map_err(|refusal| refusal.silent(noreply))?;
    Ok(Command::Delete { key, noreply })
}

fn touch(mut words: Words<'_>) -> Result<Command<'_>> {
    let key = key(&mut words);
    // `noreply` in place of the expiry suppresses the reply, too.
    let noreply = noreply(words);
    let word = words.next().ok_or(BAD_FORMAT)?;
    let key = key.map_err(|refusal| refusal.silent(noreply))?;
    let exptime = exptime(word).map_err(|refusal| refusal.silent(noreply))?;
    Ok(Command::Touch { key, exptime, noreply })
}
