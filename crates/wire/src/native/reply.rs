//! Replies. The server writes them; the client borrows them from a datagram.

use super::bytes::{put_u32, put_u64, u32_at, u64_at};
use super::{Header, Opcode, Status, padded};

/// Bytes of a reply before its word and value.
const FIXED_BYTES: usize = 16;
const HAS_CAS: u8 = 1;
const HAS_ENTRY: u8 = 2;
/// Bytes of an entry between the word and the value.
const ENTRY_BYTES: usize = 24;

/// Entry of the chunk that holds the item, in the reply to a get that wanted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyEntry {
    /// Place of the chunk in the cache area.
    pub offset: u64,
    pub version: u64,
    /// Bytes of the chunk that hold the item: header, key and value.
    pub bytes: u32,
}

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
    /// Entry of the item's chunk, over a fabric only, if the request wanted it and there is one.
    pub entry: Option<ReplyEntry>,
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
    /// Options that a reply may have.
    allowed: u8,
}

impl<'a> Replies<'a> {
    /// Iterates over `count` replies after the header of a datagram. A reply with an entry is invalid.
    ///
    /// # Errors
    /// The datagram is shorter than a header.
    pub fn new(datagram: &'a [u8], count: u16) -> Result<Self, BadReply> {
        let rest = datagram.get(Header::BYTES..).ok_or(BadReply)?;
        Ok(Self { rest, left: count, allowed: HAS_CAS })
    }

    /// Iterates over the replies of a message over a fabric; those to gets may have entries.
    ///
    /// # Errors
    /// As [`Replies::new`].
    pub fn with_entries(message: &'a [u8], count: u16) -> Result<Self, BadReply> {
        Ok(Self { allowed: HAS_CAS | HAS_ENTRY, ..Self::new(message, count)? })
    }
}

impl<'a> Iterator for Replies<'a> {
    type Item = Result<Reply<'a>, BadReply>;

    /// Ends after an invalid reply.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let reply = read(&mut self.rest, self.allowed).ok_or(BadReply);
        if reply.is_err() {
            self.left = 0;
        }
        Some(reply)
    }
}

#[inline]
fn read<'a>(rest: &mut &'a [u8], allowed: u8) -> Option<Reply<'a>> {
    let bytes: &'a [u8] = rest;
    if bytes.len() < FIXED_BYTES {
        return None;
    }
    let (opcode, status) = (Opcode::of(bytes[0])?, Status::of(bytes[1])?);
    if bytes[2] & !allowed != 0 || bytes[3] != 0 {
        return None;
    }
    let length = u32_at(bytes, 4);
    let ok = status == Status::Ok;
    let has_cas = bytes[2] & HAS_CAS != 0;
    let has_entry = bytes[2] & HAS_ENTRY != 0;
    let has_number = ok && opcode.answers_number();
    let has_value = ok && opcode.answers_value();
    if has_cas && !has_value || length != 0 && !has_value && status != Status::TooLarge {
        return None;
    }
    if has_entry && !(ok && opcode == Opcode::Get) {
        return None;
    }
    let entry_at = FIXED_BYTES + if has_cas || has_number { 8 } else { 0 };
    let value_at = entry_at + if has_entry { ENTRY_BYTES } else { 0 };
    let value_bytes = if has_value { length as usize } else { 0 };
    let end = value_at.checked_add(padded(value_bytes))?;
    if end > bytes.len() {
        return None;
    }
    let entry = match has_entry {
        true => Some(read_entry(&bytes[entry_at..value_at])?),
        false => None,
    };
    let word = if entry_at > FIXED_BYTES { u64_at(bytes, FIXED_BYTES) } else { 0 };
    *rest = &bytes[end..];
    Some(Reply {
        opcode,
        status,
        flags: u32_at(bytes, 8),
        hash_low: u32_at(bytes, 12),
        cas: has_cas.then_some(word),
        entry,
        number: if has_number { word } else { 0 },
        limit_bytes: if status == Status::TooLarge { length } else { 0 },
        value: &bytes[value_at..value_at + value_bytes],
    })
}

/// Reads the bytes of an entry; `None` if its zero is none.
fn read_entry(bytes: &[u8]) -> Option<ReplyEntry> {
    let entry = ReplyEntry { offset: u64_at(bytes, 0), version: u64_at(bytes, 8), bytes: u32_at(bytes, 16) };
    (u32_at(bytes, 20) == 0).then_some(entry)
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
    /// Bytes that an entry adds to a reply with a value.
    pub const ENTRY_BYTES: usize = ENTRY_BYTES;

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
        fixed(out, (opcode, status, 0), limit_bytes, (0, hash));
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
        let head = (opcode, Status::Ok, u8::from(cas.is_some()));
        fixed(out, head, value_bytes as u32, (flags, hash));
        let mut at = FIXED_BYTES;
        if let Some(cas) = cas {
            put_u64(out, at, cas);
            at += 8;
        }
        out[at + value_bytes..].fill(0);
        &mut out[at..at + value_bytes]
    }

    /// Begins a reply as [`ReplyWriter::begin_value`] does, with the entry of the item's chunk. It takes
    /// [`ReplyWriter::ENTRY_BYTES`] more, and [`ReplyWriter::end_value_with_entry`] completes it.
    ///
    /// # Panics
    /// If `message` has no room.
    #[inline]
    pub fn begin_value_with_entry<'a>(
        &self,
        message: &'a mut [u8],
        (flags, hash): (u32, u64),
        (cas, entry): (Option<u64>, &ReplyEntry),
        value_bytes: usize,
    ) -> &'a mut [u8] {
        let bytes = Self::value_reply_bytes(value_bytes, cas.is_some()) + ENTRY_BYTES;
        let out = &mut message[self.filled..self.filled + bytes];
        let head = (Opcode::Get, Status::Ok, u8::from(cas.is_some()) | HAS_ENTRY);
        fixed(out, head, value_bytes as u32, (flags, hash));
        let mut at = FIXED_BYTES;
        if let Some(cas) = cas {
            put_u64(out, at, cas);
            at += 8;
        }
        put_u64(out, at, entry.offset);
        put_u64(out, at + 8, entry.version);
        put_u32(out, at + 16, entry.bytes);
        put_u32(out, at + 20, 0);
        at += ENTRY_BYTES;
        out[at + value_bytes..].fill(0);
        &mut out[at..at + value_bytes]
    }

    /// Completes the reply that [`ReplyWriter::begin_value`] began.
    #[inline]
    pub fn end_value(&mut self, value_bytes: usize, has_cas: bool) {
        self.filled += Self::value_reply_bytes(value_bytes, has_cas);
        self.count += 1;
    }

    /// Completes the reply that [`ReplyWriter::begin_value_with_entry`] began.
    #[inline]
    pub fn end_value_with_entry(&mut self, value_bytes: usize, has_cas: bool) {
        self.filled += ENTRY_BYTES;
        self.end_value(value_bytes, has_cas);
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
    (opcode, status, options): (Opcode, Status, u8),
    length: u32,
    (flags, hash): (u32, u64),
) {
    out[0] = opcode as u8;
    out[1] = status as u8;
    out[2] = options;
    out[3] = 0;
    put_u32(out, 4, length);
    put_u32(out, 8, flags);
    put_u32(out, 12, hash as u32);
}
