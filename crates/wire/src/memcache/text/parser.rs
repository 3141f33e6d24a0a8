//! From the bytes of a connection to commands.

use super::command::{Command, Keys, StoreVerb};
use super::meta::MetaLine;
use super::number::{signed, signed_64, unsigned};
use super::operator::Operator;
use super::tokens::Words;
use super::{KEY_BYTES_MAX, LINE_BYTES_MAX};

pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format\r\n";
const UNKNOWN: &str = "ERROR\r\n";
const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument\r\n";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta argument\r\n";
const LINE_TOO_LONG: &str = "CLIENT_ERROR line too long\r\n";
/// Shortest line that is looked at, without its line feed.
const LINE_BYTES_MIN: usize = 3;
/// Longest body that memcached's 32-bit lengths can say.
pub(super) const BODY_BYTES_MAX: i32 = i32::MAX - 2;

/// What stands at the start of the input.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// No complete line yet.
    Incomplete,
    /// A command; the line and its end take `line_bytes`.
    Command {
        /// The command.
        command: Command<'a>,
        /// Bytes to consume.
        line_bytes: usize,
    },
    /// A line that is refused.
    Refused {
        /// The reply, with its line end; empty if none is wanted.
        reply: &'static str,
        /// Bytes to consume.
        line_bytes: usize,
        /// Bytes to discard after that.
        swallow_bytes: u64,
        /// Whether to close the connection.
        close: bool,
    },
}

/// The state of a connection's parser: a multi-get whose line has not ended yet.
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
            None => Command::Get {
                keys,
                cas: self.cas,
            },
            Some(exptime) => Command::GetAndTouch {
                exptime,
                keys,
                cas: self.cas,
            },
        }
    }
}

impl Parser {
    /// Looks at the unconsumed bytes of a connection. `full`: the caller's buffer holds no more,
    /// so a get line without an end is split behind a key, and any other one is refused.
    #[inline]
    pub fn step<'a>(&mut self, input: &'a [u8], full: bool) -> Step<'a> {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            return self.without_end(input, full);
        };
        if end > LINE_BYTES_MAX && self.open.is_none() && !is_get(input) {
            return too_long(end + 1);
        }
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line_bytes = end + 1;
        let result = match self.open.take() {
            Some(open) => more_keys(open, line),
            // Before it looks at words, memcached wants three bytes, the carriage return included.
            None if end < LINE_BYTES_MIN => Err(Refusal::of(BAD_FORMAT)),
            None => command(line),
        };
        match result {
            Ok(command) => Step::Command {
                command,
                line_bytes,
            },
            Err(Refusal {
                reply,
                swallow_bytes,
            }) => Step::Refused {
                reply,
                line_bytes,
                swallow_bytes,
                close: false,
            },
        }
    }

    #[cold]
    fn without_end<'a>(&mut self, input: &'a [u8], full: bool) -> Step<'a> {
        let get = self.open.is_some() || is_get(input);
        if !full && (get || input.len() <= LINE_BYTES_MAX) {
            return Step::Incomplete;
        }
        let Some(end) = input.iter().rposition(|byte| *byte == b' ').filter(|_| get) else {
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
                Step::Command {
                    command: open.command(keys, false),
                    line_bytes: end,
                }
            }
            _ => too_long(input.len()),
        }
    }
}

/// Whether the end of such a line has arrived must not matter, so it is refused with it too.
#[cold]
fn too_long<'a>(line_bytes: usize) -> Step<'a> {
    Step::Refused {
        reply: LINE_TOO_LONG,
        line_bytes,
        swallow_bytes: 0,
        close: true,
    }
}

fn is_get(input: &[u8]) -> bool {
    [b"get ".as_slice(), b"gets ", b"gat ", b"gats "]
        .iter()
        .any(|verb| input.starts_with(verb))
}

/// Why a line is refused, and how much of what follows belongs to it.
#[derive(Debug)]
struct Refusal {
    reply: &'static str,
    swallow_bytes: u64,
}

impl Refusal {
    const fn of(reply: &'static str) -> Self {
        Self {
            reply,
            swallow_bytes: 0,
        }
    }

    /// `noreply` silences it.
    const fn silent(self, noreply: bool) -> Self {
        if noreply {
            Self { reply: "", ..self }
        } else {
            self
        }
    }
}

impl From<&'static str> for Refusal {
    fn from(reply: &'static str) -> Self {
        Self::of(reply)
    }
}

type Result<T> = std::result::Result<T, Refusal>;

/// The next keys of a get whose line was split.
fn more_keys(open: OpenGet, line: &[u8]) -> Result<Command<'_>> {
    check_keys(line)?;
    Ok(open.command(line, true))
}

/// The beginning of a get, and the words that are keys.
fn open_get(line: &[u8]) -> Result<(OpenGet, &[u8])> {
    let mut words = Words::of(line);
    let (touch, cas) = match words.next() {
        Some(b"get") => (false, false),
        Some(b"gets") => (false, true),
        Some(b"gat") => (true, false),
        _ => (true, true),
    };
    let exptime = if touch {
        Some(exptime(words.next().ok_or(BAD_FORMAT)?)?)
    } else {
        None
    };
    check_keys(words.rest())?;
    Ok((OpenGet { exptime, cas }, words.rest()))
}

fn check_keys(line: &[u8]) -> Result<()> {
    // Short lines cannot hold a key that is too long.
    if line.len() > KEY_BYTES_MAX && Words::of(line).any(|key| key.len() > KEY_BYTES_MAX) {
        return Err(BAD_FORMAT.into());
    }
    Ok(())
}

fn exptime(word: &[u8]) -> Result<i64> {
    signed(word).map(i64::from).ok_or(BAD_EXPTIME.into())
}

/// A whole line.
#[inline]
fn command(line: &[u8]) -> Result<Command<'_>> {
    if line.first() == Some(&b' ') {
        return Err(UNKNOWN.into());
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
        _ => administration(verb, words),
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
    if words.clone().next().is_none() {
        return Err(BAD_FORMAT.into());
    }
    Ok(OpenGet { exptime, cas }.command(keys, true))
}

#[inline]
fn key<'a>(words: &mut Words<'a>) -> Result<&'a [u8]> {
    words
        .next()
        .filter(|key| key.len() <= KEY_BYTES_MAX)
        .ok_or(BAD_FORMAT.into())
}

#[inline]
fn store<'a>(mut words: Words<'a>, verb: StoreVerb) -> Result<Command<'a>> {
    let key = words.next().ok_or(BAD_FORMAT)?;
    let flags = words.next().ok_or(BAD_FORMAT)?;
    let exptime = words.next().ok_or(BAD_FORMAT)?;
    let value_bytes = words.next().ok_or(BAD_FORMAT)?;
    // Without a length nobody knows what follows: said in spite of noreply.
    let value_bytes = signed(value_bytes).filter(|bytes| (0..=BODY_BYTES_MAX).contains(bytes));
    let value_bytes = value_bytes.ok_or(BAD_FORMAT)? as usize;
    let cas = if matches!(verb, StoreVerb::Cas(_)) {
        words.next()
    } else {
        None
    };
    let noreply = noreply(words) || cas == Some(b"noreply");
    let parsed = || {
        // Flags and expiries of more than 32 bits lose the upper ones, as in memcached.
        let flags = unsigned(flags)? as u32;
        let exptime = i64::from(signed_64(exptime)? as i32);
        let verb = match verb {
            StoreVerb::Cas(_) => StoreVerb::Cas(unsigned(cas?)?),
            other => other,
        };
        (key.len() <= KEY_BYTES_MAX).then_some((flags, exptime, verb))
    };
    match parsed() {
        Some((flags, exptime, verb)) => Ok(Command::Store {
            verb,
            key,
            flags,
            exptime,
            value_bytes,
            noreply,
        }),
        None => {
            let swallow_bytes = value_bytes as u64 + 2;
            Err(Refusal {
                reply: BAD_FORMAT,
                swallow_bytes,
            }
            .silent(noreply))
        }
    }
}

/// Whether `noreply` is the last word.
#[inline]
fn noreply(words: Words<'_>) -> bool {
    let rest = words.rest();
    !rest.is_empty() && words.last() == Some(b"noreply".as_slice())
}

/// A meta command: its flags are read when it is executed.
#[inline]
fn meta<'a>(verb: &[u8], words: Words<'a>) -> Result<Command<'a>> {
    match MetaLine::of(verb, words) {
        Ok(line) => Ok(Command::Meta(line)),
        Err((reply, swallow_bytes)) => Err(Refusal {
            reply,
            swallow_bytes,
        }),
    }
}

fn arithmetic<'a>(mut words: Words<'a>, decrement: bool) -> Result<Command<'a>> {
    let key = key(&mut words);
    let delta = words.next().ok_or(BAD_FORMAT)?;
    let noreply = noreply(words);
    let key = key.map_err(|refusal| refusal.silent(noreply))?;
    let delta = unsigned(delta).ok_or(Refusal::of(BAD_DELTA).silent(noreply))?;
    Ok(Command::Arithmetic {
        key,
        delta,
        decrement,
        noreply,
    })
}

/// Further words are accepted, as in memcached 1.6.45.
fn delete(mut words: Words<'_>) -> Result<Command<'_>> {
    let key = key(&mut words);
    let noreply = noreply(words);
    let key = key.map_err(|refusal| refusal.silent(noreply))?;
    Ok(Command::Delete { key, noreply })
}

fn touch(mut words: Words<'_>) -> Result<Command<'_>> {
    let key = key(&mut words);
    let word = words.next().ok_or(BAD_FORMAT)?;
    let noreply = noreply(words);
    let key = key.map_err(|refusal| refusal.silent(noreply))?;
    let exptime = exptime(word).map_err(|refusal| refusal.silent(noreply))?;
    Ok(Command::Touch {
        key,
        exptime,
        noreply,
    })
}

fn administration<'a>(verb: &[u8], mut words: Words<'a>) -> Result<Command<'a>> {
    match verb {
        b"flush_all" => flush_all(words),
        b"flush_namespace" => {
            let name = key(&mut words);
            let noreply = noreply(words);
            let name = name.map_err(|refusal| refusal.silent(noreply))?;
            Ok(Command::FlushNamespace { name, noreply })
        }
        b"verbosity" => {
            let level = words.next().ok_or(BAD_FORMAT)?;
            let noreply = level == b"noreply" || noreply(words);
            let level = unsigned(level).ok_or(Refusal::of(BAD_FORMAT).silent(noreply))?;
            Ok(Command::Verbosity {
                level: u32::try_from(level).unwrap_or(u32::MAX),
                noreply,
            })
        }
        b"refresh_certs" => Ok(Command::RefreshCerts {
            noreply: noreply(words),
        }),
        b"version" => Ok(Command::Version),
        b"quit" => Ok(Command::Quit),
        b"shutdown" => Ok(Command::Shutdown {
            graceful: words.next() == Some(b"graceful".as_slice()),
        }),
        b"stats" => Ok(Command::Stats {
            arguments: words.rest().trim_ascii(),
        }),
        b"mn" => Ok(Command::MetaNoop),
        _ => match Operator::of(verb) {
            Some(operator) => Ok(Command::Operator {
                operator,
                arguments: words.rest().trim_ascii(),
            }),
            None => Err(UNKNOWN.into()),
        },
    }
}

fn flush_all(mut words: Words<'_>) -> Result<Command<'_>> {
    let noreply = noreply(words);
    let delay_s = match words.next() {
        None | Some(b"noreply") => 0,
        Some(word) => exptime(word).map_err(|refusal| refusal.silent(noreply))?,
    };
    Ok(Command::FlushAll { delay_s, noreply })
}
