//! Replies: written by the server, borrowed from a datagram by the client.

use super::bytes::{put_u32, put_u64, u32_at, u64_at};
use super::{Header, Opcode, Status, padded};

/// Bytes of a reply before its word and value.
const FIXED_BYTES: usize = 16;
const HAS_CAS: u8 = 1;

/// One reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Of the request.
    pub opcode: Opcode,
    /// How it ended.
    pub status: Status,
    /// Of the item.
    pub flags: u32,
    /// The low half of the request's hash.
    pub hash_low: u32,
    /// The CAS value, if the request wanted it and the item was found.
    pub cas: Option<u64>,
    /// The number, of increment and decrement.
    pub number: u64,
    /// The longest value taken, when it is too large.
    pub limit_bytes: u32,
    /// The value, when one was asked for and found.
    pub value: &'a [u8],
}

/// A reply makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadReply;

/// The replies of a datagram, as far as they make sense.
#[derive(Clone, Debug)]
pub struct Replies<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Replies<'a> {
    /// The replies behind a header that says how many there are.
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

    /// Nothing follows a bad one.
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
    let word = if value_at > FIXED_BYTES {
        u64_at(bytes, FIXED_BYTES)
    } else {
        0
    };
    *rest = &bytes[end..];
    Some(Reply {
        opcode,
        status,
        flags: u32_at(bytes, 8),
        hash_low: u32_at(bytes, 12),
        cas: has_cas.then_some(word),
        number: if has_number { word } else { 0 },
        limit_bytes: if status == Status::TooLarge {
            length
        } else {
            0
        },
        value: &bytes[value_at..value_at + value_bytes],
    })
}

/// Writes replies into a datagram behind the room for its header. The bytes are lent for each call,
/// the same ones every time.
#[derive(Clone, Copy, Debug)]
pub struct ReplyWriter {
    limit: usize,
    filled: usize,
    count: u16,
}

impl ReplyWriter {
    /// The most bytes of a reply without a value.
    pub const SHORT_BYTES_MAX: usize = FIXED_BYTES + 8;
    /// The least bytes of a reply.
    pub const BYTES_MIN: usize = FIXED_BYTES;

    /// A datagram without replies, which will be no longer than the limit; that is enough for a
    /// header.
    #[inline]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            filled: Header::BYTES,
            count: 0,
        }
    }

    /// Replies so far.
    #[inline]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Bytes that are left.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.filled)
    }

    /// Bytes of a reply with a value.
    #[inline]
    pub const fn value_reply_bytes(value_bytes: usize, has_cas: bool) -> usize {
        FIXED_BYTES + 8 * has_cas as usize + padded(value_bytes)
    }

    /// Bytes of a reply without a value.
    #[inline]
    pub const fn short_reply_bytes(opcode: Opcode, status: Status) -> usize {
        let has_number = matches!(status, Status::Ok) && opcode.answers_number();
        FIXED_BYTES + 8 * has_number as usize
    }

    /// Adds a reply without a value. `word` is the number of increment and decrement, and the limit
    /// of "too large"; anything else has none.
    ///
    /// # Panics
    /// When the bytes have no room.
    #[inline]
    pub fn push(
        &mut self,
        datagram: &mut [u8],
        (opcode, status): (Opcode, Status),
        hash: u64,
        word: u64,
    ) {
        let bytes = Self::short_reply_bytes(opcode, status);
        let out = &mut datagram[self.filled..self.filled + bytes];
        let limit_bytes = if status == Status::TooLarge {
            word as u32
        } else {
            0
        };
        fixed(out, (opcode, status, false), limit_bytes, (0, hash));
        if bytes > FIXED_BYTES {
            put_u64(out, FIXED_BYTES, word);
        }
        self.filled += bytes;
        self.count += 1;
    }

    /// Begins the reply to a get that has found something: room for its value. It counts once
    /// [`ReplyWriter::end_value`] is called with the value's length.
    ///
    /// # Panics
    /// When the bytes have no room.
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

    /// Completes what [`ReplyWriter::begin_value`] has begun.
    #[inline]
    pub fn end_value(&mut self, value_bytes: usize, has_cas: bool) {
        self.filled += Self::value_reply_bytes(value_bytes, has_cas);
        self.count += 1;
    }

    /// Writes the header, with the count; returns the datagram's length.
    #[inline]
    pub fn finish(self, datagram: &mut [u8], header: &Header) -> usize {
        let header = Header {
            count: self.count,
            ..*header
        };
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
