//! Replies. The server writes them; the client borrows them from a datagram.

use super::bytes::{put_u32, put_u64, u32_at, u64_at};
use super::{Header, Opcode, Status, padded};

/// Bytes of a reply before its word and value.
const FIXED_BYTES: usize = 16;
const HAS_CAS: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Opcode of the request.
    pub opcode: Opcode,
    pub status: Status,
    /// Flags of the item.
    pub flags: u32,
    /// Low half of the request's hash.
    pub hash_low: u32,
    /// CAS value, if the request asked for it and the item was found.
    pub cas: Option<u64>,
    /// Result of increment and decrement.
    pub number: u64,
    /// Longest accepted value, in a reply of status `TooLarge`.
    pub limit_bytes: u32,
    /// Value, if the operation asks for one and found it.
    pub value: &'a [u8],
}

/// A reply is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadReply;

/// Iterates over the replies of a datagram, up to the first invalid one.
#[derive(Clone, Debug)]
pub struct Replies<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Replies<'a> {
    /// Iterates over `count` replies after the header of a datagram.
    ///
    /// # Errors
    /// The datagram is shorter than a header.
    pub fn new(datagram: &'a [u8], count: u16) -> Result<Self, BadReply> {
        let rest = datagram.get(Header::BYTES..).ok_or(BadReply)?;
        Ok(Self { rest, left: count })
    }
}

impl<'a> Iterator for Replies<'a> {
    type Item = Result<Reply<'a>, BadReply>;

    /// Ends after an invalid reply.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let reply = read(&mut self.rest).ok_or(BadReply);
        if reply.is_err() {
            self.left = 0;
        }
        Some(reply)
    }
}

#[inline]
fn read<'a>(rest: &mut &'a [u8]) -> Option<Reply<'a>> {
    let bytes: &'a [u8] = rest;
    if bytes.len() < FIXED_BYTES {
        return None;
    }
    let (opcode, status) = (Opcode::of(bytes[0])?, Status::of(bytes[1])?);
    if bytes[2] & !HAS_CAS != 0 || bytes[3] != 0 {
        return None;
    }
    let length = u32_at(bytes, 4);
    let ok = status == Status::Ok;
    let has_cas = bytes[2] & HAS_CAS != 0;
    let has_number = ok && opcode.answers_number();
    let has_value = ok && opcode.answers_value();
    if has_cas && !has_value || length != 0 && !has_value && status != Status::TooLarge {
        return None;
    }
    let value_at = FIXED_BYTES + if has_cas || has_number { 8 } else { 0 };
    let value_bytes = if has_value { length as usize } else { 0 };
    let end = value_at.checked_add(padded(value_bytes))?;
    if end > bytes.len() {
        return None;
    }
    let word = if value_at > FIXED_BYTES { u64_at(bytes, FIXED_BYTES) } else { 0 };
    *rest = &bytes[end..];
    Some(Reply {
        opcode,
        status,
        flags: u32_at(bytes, 8),
        hash_low: u32_at(bytes, 12),
        cas: has_cas.then_some(word),
        number: if has_number { word } else { 0 },
        limit_bytes: if status == Status::TooLarge { length } else { 0 },
        value: &bytes[value_at..value_at + value_bytes],
    })
}

/// Writes replies into a datagram, after the space for its header. The caller lends the same bytes
/// to each call.
#[derive(Clone, Copy, Debug)]
pub struct ReplyWriter {
    limit: usize,
    filled: usize,
    count: u16,
}

impl ReplyWriter {
    /// Most bytes of a reply without a value.
    pub const SHORT_BYTES_MAX: usize = FIXED_BYTES + 8;
    /// Fewest bytes of a reply.
    pub const BYTES_MIN: usize = FIXED_BYTES;

    /// Starts a datagram without replies. Its length never exceeds `limit`, which has room for a
    /// header.
    #[inline]
    pub fn new(limit: usize) -> Self {
        Self { limit, filled: Header::BYTES, count: 0 }
    }

    /// Returns how many replies were written.
    #[inline]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Returns how many bytes are left.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.filled)
    }

    /// Returns the length of a reply with a value.
    #[inline]
    pub const fn value_reply_bytes(value_bytes: usize, has_cas: bool) -> usize {
        FIXED_BYTES + 8 * has_cas as usize + padded(value_bytes)
    }

    /// Returns the length of a reply without a value.
    #[inline]
    pub const fn short_reply_bytes(opcode: Opcode, status: Status) -> usize {
        let has_number = matches!(status, Status::Ok) && opcode.answers_number();
        FIXED_BYTES + 8 * has_number as usize
    }

    /// Adds a reply without a value. `word` is the result of increment and decrement, or the limit of
    /// status `TooLarge`, and 0 otherwise.
    ///
    /// # Panics
    /// If `datagram` has no room.
    #[inline]
    pub fn push(&mut self, datagram: &mut [u8], (opcode, status): (Opcode, Status), hash: u64, word: u64) {
        let bytes = Self::short_reply_bytes(opcode, status);
        let out = &mut datagram[self.filled..self.filled + bytes];
        let limit_bytes = if status == Status::TooLarge { word as u32 } else { 0 };
        fixed(out, (opcode, status, false), limit_bytes, (0, hash));
        if bytes > FIXED_BYTES {
            put_u64(out, FIXED_BYTES, word);
        }
        self.filled += bytes;
        self.count += 1;
    }

    /// Begins the reply to a get that found an item; returns the space for its value. The reply
    /// counts once [`ReplyWriter::end_value`] is called with the value's length.
    ///
    /// # Panics
    /// If `datagram` has no room.
    #[inline]
    pub fn begin_value<'a>(
        &self,
        datagram: &'a mut [u8],
        (opcode, flags, hash): (Opcode, u32, u64),
        cas: Option<u64>,
        value_bytes: usize,
    ) -> &'a mut [u8] {
        let bytes = Self::value_reply_bytes(value_bytes, cas.is_some());
        let out = &mut datagram[self.filled..self.filled + bytes];
        let head = (opcode, Status::Ok, cas.is_some());
        fixed(out, head, value_bytes as u32, (flags, hash));
        let mut at = FIXED_BYTES;
        if let Some(cas) = cas {
            put_u64(out, at, cas);
            at += 8;
        }
        out[at + value_bytes..].fill(0);
        &mut out[at..at + value_bytes]
    }

    /// Completes the reply that [`ReplyWriter::begin_value`] began.
    #[inline]
    pub fn end_value(&mut self, value_bytes: usize, has_cas: bool) {
        self.filled += Self::value_reply_bytes(value_bytes, has_cas);
        self.count += 1;
    }

    /// Writes the header with the count; returns the datagram's length.
    #[inline]
    pub fn finish(self, datagram: &mut [u8], header: &Header) -> usize {
        let header = Header { count: self.count, ..*header };
        header.write(datagram);
        self.filled
    }
}

#[inline]
fn fixed(
    out: &mut [u8],
    (opcode, status, has_cas): (Opcode, Status, bool),
    length: u32,
    (flags, hash): (u32, u64),
) {
    out[0] = opcode as u8;
    out[1] = status as u8;
    out[2] = u8::from(has_cas);
    out[3] = 0;
    put_u32(out, 4, length);
    put_u32(out, 8, flags);
    put_u32(out, 12, hash as u32);
}
