//! Parses bytes into commands.

use super::reply::Status;
use super::{Arithmetic, Command, HEADER_BYTES, Head, REQUEST_MAGIC, Store};
use crate::memcache::text::{KEY_BYTES_MAX, StoreVerb};

/// Result of parsing the start of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// More bytes are needed.
    Incomplete,
    /// The input is no request: close the connection without a reply.
    BadMagic,
    Command {
        command: Command<'a>,
        head: Head,
        /// Length of the request, without the value of a store.
        bytes: usize,
    },
    /// The request gets an error reply.
    Refused {
        status: Status,
        head: Head,
        /// Bytes behind the header that belong to the request.
        swallow_bytes: u64,
        /// The connection closes after the reply.
        close: bool,
    },
}

/// Expiry that means: do not store an initial number.
const NO_INITIAL: u32 = u32::MAX;

/// Lengths, opcode and CAS value of a header.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub head: Head,
    pub key_bytes: usize,
    pub extras_bytes: usize,
    pub body_bytes: u32,
    cas: u64,
}

impl Header {
    #[inline]
    pub fn of(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [_, opcode, k0, k1, extras, _, _, _, b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = *bytes;
        Self {
            head: Head { opcode, opaque: [o0, o1, o2, o3] },
            key_bytes: usize::from(u16::from_be_bytes([k0, k1])),
            extras_bytes: usize::from(extras),
            body_bytes: u32::from_be_bytes([b0, b1, b2, b3]),
            cas: u64::from_be_bytes(cas),
        }
    }

    /// Returns how many bytes of the body remain for a value.
    fn value_bytes(&self) -> usize {
        self.body_bytes as usize - self.key_bytes - self.extras_bytes
    }

    pub fn is_bare(&self) -> bool {
        self.body_bytes == 0
    }

    /// Checks for a key, exactly `extras_bytes` of extras, and no value.
    fn is_key_with(&self, extras_bytes: usize) -> bool {
        self.may_store_with(extras_bytes) && self.value_bytes() == 0
    }

    /// Checks for a key and exactly `extras_bytes` of extras. A value may follow.
    fn may_store_with(&self, extras_bytes: usize) -> bool {
        self.key_bytes > 0 && self.extras_bytes == extras_bytes
    }

    fn refused<'a>(&self, status: Status, close: bool) -> Step<'a> {
        let swallow_bytes = if close { 0 } else { self.body_bytes.into() };
        Step::Refused { status, head: self.head, swallow_bytes, close }
    }
}

/// Parses the start of `input`.
#[inline]
pub fn step(input: &[u8]) -> Step<'_> {
    if input.first().is_some_and(|byte| *byte != REQUEST_MAGIC) {
        return Step::BadMagic;
    }
    let Some((header, body)) = input.split_first_chunk() else {
        return Step::Incomplete;
    };
    let header = Header::of(header);
    let bytes = header.extras_bytes + header.key_bytes;
    if bytes > header.body_bytes as usize {
        return header.refused(Status::UnknownCommand, true);
    }
    if header.key_bytes > KEY_BYTES_MAX {
        return header.refused(Status::Invalid, true);
    }
    if body.len() < bytes {
        return Step::Incomplete;
    }
    let (extras, body) = body.split_at(header.extras_bytes);
    match command(&header, extras, &body[..header.key_bytes]) {
        Ok(command) => Step::Command { command, head: header.head, bytes: HEADER_BYTES + bytes },
        Err(Misuse::Lengths) => header.refused(Status::Invalid, true),
        Err(Misuse::Opcode) => header.refused(Status::UnknownCommand, false),
    }
}

enum Misuse {
    /// The lengths do not fit the command.
    Lengths,
    /// The opcode is unknown.
    Opcode,
}

/// Parses the command of a request.
#[inline]
fn command<'a>(header: &Header, extras: &'a [u8], key: &'a [u8]) -> Result<Command<'a>, Misuse> {
    let opcode = header.head.opcode;
    let store = |verb, quiet| store(header, extras, key, verb, quiet);
    let (fits, command) = match opcode {
        0x00 | 0x09 | 0x0c | 0x0d => {
            let get = Command::Get {
                key,
                exptime: None,
                with_key: opcode >= 0x0c,
                quiet: matches!(opcode, 0x09 | 0x0d),
            };
            (header.is_key_with(0), get)
        }
        0x1d | 0x1e | 0x23 | 0x24 => {
            let gat = Command::Get {
                key,
                exptime: Some(word(extras, 0)),
                with_key: opcode >= 0x23,
                quiet: matches!(opcode, 0x1e | 0x24),
            };
            (header.is_key_with(4), gat)
        }
        0x1c => {
            let exptime = word(extras, 0);
            (header.is_key_with(4), Command::Touch { key, exptime })
        }
        0x01 | 0x11 => return store(StoreVerb::Set, opcode == 0x11),
        0x02 | 0x12 => return store(StoreVerb::Add, opcode == 0x12),
        0x03 | 0x13 => return store(StoreVerb::Replace, opcode == 0x13),
        0x0e | 0x19 => return store(StoreVerb::Append, opcode == 0x19),
        0x0f | 0x1a => return store(StoreVerb::Prepend, opcode == 0x1a),
        0x04 | 0x14 => {
            let delete = Command::Delete { key, cas: header.cas, quiet: opcode == 0x14 };
            (header.is_key_with(0), delete)
        }
        0x05 | 0x06 | 0x15 | 0x16 => (header.is_key_with(20), arithmetic(header, extras, key)),
        0x08 | 0x18 => {
            let fits =
                header.key_bytes == 0 && matches!(header.extras_bytes, 0 | 4) && header.value_bytes() == 0;
            let flush = Command::Flush { delay_s: word(extras, 0), quiet: opcode == 0x18 };
            (fits, flush)
        }
        0x07 | 0x17 => {
            let quiet = opcode == 0x17;
            (header.is_bare(), Command::Quit { quiet })
        }
        0x0a => (header.is_bare(), Command::Noop),
        0x0b => (header.is_bare(), Command::Version),
        0x10 => {
            let fits = header.extras_bytes == 0 && header.value_bytes() == 0;
            (fits, Command::Stat { arguments: key })
        }
        // SASL commands are unknown where authentication is off. Their lengths are checked first.
        0x20 if !header.is_bare() => return Err(Misuse::Lengths),
        0x21 | 0x22 if !header.may_store_with(0) => return Err(Misuse::Lengths),
        _ => return Err(Misuse::Opcode),
    };
    if fits { Ok(command) } else { Err(Misuse::Lengths) }
}

#[inline]
fn store<'a>(
    header: &Header,
    extras: &[u8],
    key: &'a [u8],
    verb: StoreVerb,
    quiet: bool,
) -> Result<Command<'a>, Misuse> {
    let joins = matches!(verb, StoreVerb::Append | StoreVerb::Prepend);
    if !header.may_store_with(if joins { 0 } else { 8 }) {
        return Err(Misuse::Lengths);
    }
    let compares = header.cas != 0 && !joins;
    Ok(Command::Store(Store {
        verb: if compares { StoreVerb::Cas(header.cas) } else { verb },
        cas: header.cas,
        key,
        flags: word(extras, 0),
        exptime: word(extras, 4),
        value_bytes: header.value_bytes(),
        quiet,
    }))
}

fn arithmetic<'a>(header: &Header, extras: &[u8], key: &'a [u8]) -> Command<'a> {
    let long = |at| u64::from(word(extras, at)) << 32 | u64::from(word(extras, at + 4));
    let exptime = word(extras, 16);
    Command::Arithmetic(Arithmetic {
        key,
        delta: long(0),
        decrement: matches!(header.head.opcode, 0x06 | 0x16),
        initial: (exptime != NO_INITIAL).then_some((long(8), exptime)),
        cas: header.cas,
        quiet: header.head.opcode >= 0x15,
    })
}

/// Reads four bytes of extras; 0 if they are missing.
#[inline]
fn word(extras: &[u8], at: usize) -> u32 {
    let bytes = extras.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
