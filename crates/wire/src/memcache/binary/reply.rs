//! Writes replies.

use super::{HEADER_BYTES, Head, REPLY_MAGIC};
use crate::memcache::text::KEY_BYTES_MAX;

/// Most bytes before the value of a reply: header, flags, key.
pub const VALUE_HEADER_BYTES_MAX: usize = HEADER_BYTES + 4 + KEY_BYTES_MAX;
/// Longest reply without a value: a miss that repeats its key.
pub const SHORT_BYTES_MAX: usize = HEADER_BYTES + KEY_BYTES_MAX;

/// Status of a reply, with memcached's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    Ok = 0,
    NotFound = 1,
    /// The item exists already, or its CAS value differs.
    Exists = 2,
    TooLarge = 3,
    /// The lengths do not fit the command.
    Invalid = 4,
    /// There is no item to append to.
    NotStored = 5,
    NotANumber = 6,
    /// The credentials are wrong or missing.
    AuthError = 0x20,
    /// The authentication needs another step.
    AuthContinue = 0x21,
    UnknownCommand = 0x81,
    OutOfMemory = 0x82,
    /// The server did not execute the request. The client may send it again.
    Busy = 0x85,
}

impl Status {
    /// Returns the error text that forms the body.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ok => "",
            Self::NotFound => "Not found",
            Self::Exists => "Data exists for key.",
            Self::TooLarge => "Too large.",
            Self::Invalid => "Invalid arguments",
            Self::NotStored => "Not stored.",
            Self::NotANumber => "Non-numeric server-side value for incr or decr",
            Self::AuthError => "Auth failure.",
            Self::AuthContinue => "",
            Self::UnknownCommand => "Unknown command",
            Self::OutOfMemory => "Out of memory allocating item",
            Self::Busy => "Too many requests for one datagram",
        }
    }
}

/// Lengths in a header.
#[derive(Clone, Copy, Debug, Default)]
struct Lengths {
    extras: usize,
    key: usize,
    value: usize,
}

/// Writes a header, without its body. Every function of this module returns how many bytes it
/// wrote, and panics if `out` is shorter.
#[inline]
fn header(out: &mut [u8], head: Head, status: Status, lengths: Lengths, cas: u64) -> usize {
    let header = &mut out[..HEADER_BYTES];
    let body = lengths.extras + lengths.key + lengths.value;
    header[0] = REPLY_MAGIC;
    header[1] = head.opcode;
    header[2..4].copy_from_slice(&(lengths.key as u16).to_be_bytes());
    header[4] = lengths.extras as u8;
    header[5] = 0;
    header[6..8].copy_from_slice(&(status as u16).to_be_bytes());
    header[8..12].copy_from_slice(&(body as u32).to_be_bytes());
    header[12..16].copy_from_slice(&head.opaque);
    header[16..24].copy_from_slice(&cas.to_be_bytes());
    HEADER_BYTES
}

/// Writes a success without a body.
#[inline]
pub fn done(out: &mut [u8], head: Head, cas: u64) -> usize {
    header(out, head, Status::Ok, Lengths::default(), cas)
}

/// Writes a reply whose body is `value`.
#[inline]
pub fn body(out: &mut [u8], head: Head, value: &[u8], cas: u64) -> usize {
    let lengths = Lengths { value: value.len(), ..Lengths::default() };
    let at = header(out, head, Status::Ok, lengths, cas);
    append(out, at, value)
}

/// Writes the result of an increment or decrement.
#[inline]
pub fn number(out: &mut [u8], head: Head, number: u64, cas: u64) -> usize {
    body(out, head, &number.to_be_bytes(), cas)
}

/// Writes an error.
#[inline]
pub fn error(out: &mut [u8], head: Head, status: Status) -> usize {
    let text = status.text().as_bytes();
    let lengths = Lengths { value: text.len(), ..Lengths::default() };
    let at = header(out, head, status, lengths, 0);
    append(out, at, text)
}

/// Writes a miss that repeats its key.
#[inline]
pub fn miss_with_key(out: &mut [u8], head: Head, key: &[u8]) -> usize {
    let lengths = Lengths { key: key.len(), ..Lengths::default() };
    let at = header(out, head, Status::NotFound, lengths, 0);
    append(out, at, key)
}

/// Writes everything before a value of `value_bytes`: header, flags, and the key if the reply
/// repeats it. Takes at most [`VALUE_HEADER_BYTES_MAX`].
#[inline]
pub fn value_header(
    out: &mut [u8],
    head: Head,
    (flags, cas): (u32, u64),
    key: &[u8],
    value_bytes: usize,
) -> usize {
    let lengths = Lengths { extras: 4, key: key.len(), value: value_bytes };
    let at = header(out, head, Status::Ok, lengths, cas);
    let at = append(out, at, &flags.to_be_bytes());
    append(out, at, key)
}

/// Writes one line of statistics. An empty name with an empty value ends the list.
pub fn statistic(out: &mut [u8], head: Head, name: &[u8], value: &[u8]) -> usize {
    let lengths = Lengths { key: name.len(), value: value.len(), ..Lengths::default() };
    let at = header(out, head, Status::Ok, lengths, 0);
    let at = append(out, at, name);
    append(out, at, value)
}

#[inline]
fn append(out: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    out[at..at + bytes.len()].copy_from_slice(bytes);
    at + bytes.len()
}
