//! Requests. The server borrows them from a datagram; the client writes them into one.

use super::bytes::{put_u32, put_u64, u32_at, u64_at};
use super::{Header, KEY_BYTES_MAX, Opcode, padded};

/// Bytes of a request before its words, key and value.
const FIXED_BYTES: usize = 24;
const WANTS_CAS: u8 = 1;
const WANTS_ENTRY: u8 = 2;
/// Options that requests over a fabric may have.
const ALL_OPTIONS: u8 = WANTS_CAS | WANTS_ENTRY;

/// A request. Fields that the operation does not use are zero or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub opcode: Opcode,
    /// Get: the reply carries the CAS value.
    pub wants_cas: bool,
    /// Get, over a fabric only: the reply carries the entry of the item's chunk if it has one.
    pub wants_entry: bool,
    /// Hash of the key under the directory's seed.
    pub hash: u64,
    /// Flags to store with the value.
    pub flags: u32,
    /// Seconds from now until the item expires; 0 = never.
    pub expiry_s: u32,
    /// Amount to add or subtract, or a CAS value.
    pub argument: u64,
    /// Number that the client gave the request, if the operation has one ([`Opcode::has_id`]).
    pub id: u64,
    /// 1 to 250 bytes; empty for no-op.
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// A request is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRequest;

/// The datagram has no room for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Returns how many bytes a request takes in a datagram.
#[inline]
pub const fn request_bytes(opcode: Opcode, key_bytes: usize, value_bytes: usize) -> usize {
    let words = opcode.has_argument() as usize + opcode.has_id() as usize;
    FIXED_BYTES + 8 * words + padded(key_bytes) + padded(value_bytes)
}

/// Iterates over the requests of a datagram. They were checked before.
#[derive(Clone, Debug)]
pub struct Requests<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Requests<'a> {
    /// Checks all requests of a datagram whose header announces `count`. None may want an entry.
    ///
    /// # Errors
    /// `count` is 0, or a request is invalid.
    #[inline]
    pub fn check(datagram: &'a [u8], count: u16) -> Result<Self, BadRequest> {
        Self::check_options::<WANTS_CAS>(datagram, count)
    }

    /// Checks all requests of a message over a fabric; gets may want entries.
    ///
    /// # Errors
    /// As [`Requests::check`].
    #[inline]
    pub fn check_with_entries(message: &'a [u8], count: u16) -> Result<Self, BadRequest> {
        Self::check_options::<ALL_OPTIONS>(message, count)
    }

    #[inline]
    fn check_options<const ALLOWED: u8>(datagram: &'a [u8], count: u16) -> Result<Self, BadRequest> {
        let body = datagram.get(Header::BYTES..).ok_or(BadRequest)?;
        let mut rest = body;
        if count == 0 {
            return Err(BadRequest);
        }
        for _ in 0..count {
            let request = read::<ALLOWED>(&mut rest).ok_or(BadRequest)?;
            if !request.is_valid() {
                return Err(BadRequest);
            }
        }
        Ok(Self { rest: body, left: count })
    }
}

impl<'a> Iterator for Requests<'a> {
    type Item = Request<'a>;

    #[inline]
    fn next(&mut self) -> Option<Request<'a>> {
        self.left = self.left.checked_sub(1)?;
        read::<ALL_OPTIONS>(&mut self.rest)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl<'a> Request<'a> {
    /// Parses the request at the start of the bytes; returns it with its length. Returns `None` if
    /// the bytes end too early, or a byte is invalid.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let mut rest = bytes;
        let request = read::<ALL_OPTIONS>(&mut rest)?;
        Some((request, bytes.len() - rest.len()))
    }

    /// Writes the request at the start of the bytes, without checking its fields; returns its length.
    ///
    /// # Errors
    /// There is no room; nothing was written.
    #[inline]
    pub fn write(&self, bytes: &mut [u8]) -> Result<usize, Full> {
        let (opcode, key, value) = (self.opcode, self.key, self.value);
        let length = request_bytes(opcode, key.len(), value.len());
        let out = bytes.get_mut(..length).ok_or(Full)?;
        out[0] = opcode as u8;
        out[1] = key.len() as u8;
        out[2] = u8::from(self.wants_cas) | u8::from(self.wants_entry) << 1;
        out[3] = 0;
        put_u32(out, 4, value.len() as u32);
        put_u64(out, 8, self.hash);
        put_u32(out, 16, self.flags);
        put_u32(out, 20, self.expiry_s);
        let mut at = FIXED_BYTES;
        if opcode.has_argument() {
            put_u64(out, at, self.argument);
            at += 8;
        }
        if opcode.has_id() {
            put_u64(out, at, self.id);
            at += 8;
        }
        for part in [key, value] {
            let padded = padded(part.len());
            out[at..at + part.len()].copy_from_slice(part);
            out[at + part.len()..at + padded].fill(0);
            at += padded;
        }
        Ok(length)
    }

    /// Returns whether the key is valid and every field that the operation does not use is zero.
    #[inline]
    fn is_valid(&self) -> bool {
        let opcode = self.opcode;
        (opcode == Opcode::Noop) == self.key.is_empty()
            && self.key.len() <= KEY_BYTES_MAX
            && (opcode.has_value() || self.value.is_empty())
            && (opcode.has_flags() || self.flags == 0)
            && (opcode.has_expiry() || self.expiry_s == 0)
            && (opcode.answers_value() || !self.wants_cas)
            && (opcode == Opcode::Get || !self.wants_entry)
            && opcode.has_id() == (self.id != 0)
    }
}

/// Takes the next request; `None` if the bytes end too early, or a byte is invalid.
#[inline]
fn read<'a, const ALLOWED: u8>(rest: &mut &'a [u8]) -> Option<Request<'a>> {
    let bytes: &'a [u8] = rest;
    if bytes.len() < FIXED_BYTES {
        return None;
    }
    let opcode = Opcode::of(bytes[0])?;
    let (key_bytes, options) = (usize::from(bytes[1]), bytes[2]);
    if options & !ALLOWED != 0 || bytes[3] != 0 {
        return None;
    }
    let value_bytes = u32_at(bytes, 4) as usize;
    let (has_argument, has_id) = (opcode.has_argument(), opcode.has_id());
    let words_bytes = 8 * (usize::from(has_argument) + usize::from(has_id));
    let key_at = FIXED_BYTES + words_bytes;
    let value_at = key_at + padded(key_bytes);
    let end = value_at.checked_add(padded(value_bytes))?;
    if end > bytes.len() {
        return None;
    }
    let argument = if has_argument { u64_at(bytes, FIXED_BYTES) } else { 0 };
    let id = if has_id { u64_at(bytes, key_at - 8) } else { 0 };
    *rest = &bytes[end..];
    Some(Request {
        opcode,
        wants_cas: options & WANTS_CAS != 0,
        wants_entry: options & WANTS_ENTRY != 0,
        hash: u64_at(bytes, 8),
        flags: u32_at(bytes, 16),
        expiry_s: u32_at(bytes, 20),
        argument,
        id,
        key: &bytes[key_at..key_at + key_bytes],
        value: &bytes[value_at..value_at + value_bytes],
    })
}

/// Writes requests into a datagram, after the space for its header.
#[derive(Debug)]
pub struct RequestWriter<'a> {
    datagram: &'a mut [u8],
    filled: usize,
    count: u16,
    writes: bool,
}

impl<'a> RequestWriter<'a> {
    /// Starts a datagram without requests, no longer than `datagram`.
    ///
    /// # Panics
    /// If there is no room for a header.
    pub fn new(datagram: &'a mut [u8]) -> Self {
        assert!(datagram.len() >= Header::BYTES);
        Self { datagram, filled: Header::BYTES, count: 0, writes: false }
    }

    /// Adds a request without checking its fields; [`Request`] says which operation uses which.
    ///
    /// # Errors
    /// There is no room; nothing was written.
    #[inline]
    pub fn push(&mut self, request: &Request<'_>) -> Result<(), Full> {
        let count = self.count.checked_add(1).ok_or(Full)?;
        let bytes = request.write(&mut self.datagram[self.filled..])?;
        self.filled += bytes;
        self.count = count;
        self.writes |= request.opcode.writes();
        Ok(())
    }

    /// Returns how many requests were written.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Returns the current length of the datagram.
    pub fn bytes(&self) -> usize {
        self.filled
    }

    /// Writes the header, with the count and the `writes` flag; returns the datagram's length.
    pub fn finish(self, header: &Header) -> usize {
        let header = Header { count: self.count, writes: self.writes, ..*header };
        header.write(self.datagram);
        self.filled
    }
}
