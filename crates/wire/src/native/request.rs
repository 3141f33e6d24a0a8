//! Requests: borrowed from a datagram by the server, written into one by the client.

use super::bytes::{put_u32, put_u64, u32_at, u64_at};
use super::{Header, KEY_BYTES_MAX, Opcode, padded};

/// Bytes of a request before its words, key and value.
const FIXED_BYTES: usize = 24;
const WANTS_CAS: u8 = 1;

/// One request. Fields that the operation does not have are zero or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What to do.
    pub opcode: Opcode,
    /// Get: the reply carries the CAS value.
    pub wants_cas: bool,
    /// The key's hash under the directory's seed.
    pub hash: u64,
    /// Stored with the value.
    pub flags: u32,
    /// Seconds from now until the item ends; 0 = never.
    pub expiry_s: u32,
    /// What is added or subtracted, or the CAS value.
    pub argument: u64,
    /// The client's number of the request, for operations that have one ([`Opcode::has_id`]).
    pub id: u64,
    /// 1 to 250 bytes, none for no-op.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// A request makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRequest;

/// The datagram has no room for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Bytes that a request takes in a datagram.
#[inline]
pub const fn request_bytes(opcode: Opcode, key_bytes: usize, value_bytes: usize) -> usize {
    let words = opcode.has_argument() as usize + opcode.has_id() as usize;
    FIXED_BYTES + 8 * words + padded(key_bytes) + padded(value_bytes)
}

/// The requests of a datagram, all of them checked.
#[derive(Clone, Debug)]
pub struct Requests<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Requests<'a> {
    /// Looks at all requests of a datagram, whose header says that there are `count`.
    ///
    /// # Errors
    /// There are none, or one makes no sense.
    #[inline]
    pub fn check(datagram: &'a [u8], count: u16) -> Result<Self, BadRequest> {
        let body = datagram.get(Header::BYTES..).ok_or(BadRequest)?;
        let mut rest = body;
        if count == 0 {
            return Err(BadRequest);
        }
        for _ in 0..count {
            let request = read(&mut rest).ok_or(BadRequest)?;
            if !request.makes_sense() {
                return Err(BadRequest);
            }
        }
        Ok(Self {
            rest: body,
            left: count,
        })
    }
}

impl<'a> Iterator for Requests<'a> {
    type Item = Request<'a>;

    #[inline]
    fn next(&mut self) -> Option<Request<'a>> {
        self.left = self.left.checked_sub(1)?;
        read(&mut self.rest)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl<'a> Request<'a> {
    /// Reads the request that the bytes begin with; returns it with its length. None if they end
    /// too early, or a byte has no meaning.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let mut rest = bytes;
        let request = read(&mut rest)?;
        Some((request, bytes.len() - rest.len()))
    }

    /// Writes the request at the start of the bytes, its fields as they are; returns its length.
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
        out[2] = u8::from(self.wants_cas);
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

    /// Whether no field is set that the operation does not have, and the key is one.
    #[inline]
    fn makes_sense(&self) -> bool {
        let opcode = self.opcode;
        (opcode == Opcode::Noop) == self.key.is_empty()
            && self.key.len() <= KEY_BYTES_MAX
            && (opcode.has_value() || self.value.is_empty())
            && (opcode.has_flags() || self.flags == 0)
            && (opcode.has_expiry() || self.expiry_s == 0)
            && (opcode.answers_value() || !self.wants_cas)
            && opcode.has_id() == (self.id != 0)
    }
}

/// Takes the next request; none if the bytes end too early, or a byte has no meaning.
#[inline]
fn read<'a>(rest: &mut &'a [u8]) -> Option<Request<'a>> {
    let bytes: &'a [u8] = rest;
    if bytes.len() < FIXED_BYTES {
        return None;
    }
    let opcode = Opcode::of(bytes[0])?;
    let (key_bytes, options) = (usize::from(bytes[1]), bytes[2]);
    if options & !WANTS_CAS != 0 || bytes[3] != 0 {
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
    let argument = if has_argument {
        u64_at(bytes, FIXED_BYTES)
    } else {
        0
    };
    let id = if has_id { u64_at(bytes, key_at - 8) } else { 0 };
    *rest = &bytes[end..];
    Some(Request {
        opcode,
        wants_cas: options & WANTS_CAS != 0,
        hash: u64_at(bytes, 8),
        flags: u32_at(bytes, 16),
        expiry_s: u32_at(bytes, 20),
        argument,
        id,
        key: &bytes[key_at..key_at + key_bytes],
        value: &bytes[value_at..value_at + value_bytes],
    })
}

/// Writes requests into a datagram behind the room for its header.
#[derive(Debug)]
pub struct RequestWriter<'a> {
    datagram: &'a mut [u8],
    filled: usize,
    count: u16,
    writes: bool,
}

impl<'a> RequestWriter<'a> {
    /// A datagram without requests, which will be no longer than the bytes.
    ///
    /// # Panics
    /// When there is no room for a header.
    pub fn new(datagram: &'a mut [u8]) -> Self {
        assert!(datagram.len() >= Header::BYTES);
        Self {
            datagram,
            filled: Header::BYTES,
            count: 0,
            writes: false,
        }
    }

    /// Adds a request. Its fields are written as they are: see [`Request`] for what belongs to
    /// which operation.
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

    /// Requests so far.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Length of the datagram so far.
    pub fn bytes(&self) -> usize {
        self.filled
    }

    /// Writes the header, with the count and whether something writes; returns the datagram's length.
    pub fn finish(self, header: &Header) -> usize {
        let header = Header {
            count: self.count,
            writes: self.writes,
            ..*header
        };
        header.write(self.datagram);
        self.filled
    }
}
