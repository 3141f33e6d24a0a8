//! Login of a client over a fabric, and the server's answer.

use super::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use super::{Full, Header, padded};
use crate::hash::PARTITION_BITS;

/// Longest hello.
pub const HELLO_BYTES_MAX: usize = 896;

const FIXED_BYTES: usize = 16;
const REPLY_BYTES: usize = 104;
/// Bits of a session that are zero, because tags of other messages have them.
const SESSION_ZERO_BITS: u64 = 3;

/// Body of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Random number of the client, which it keeps when it connects again.
    pub nonce: u64,
    /// Longest message that the client takes; 0: it goes, and wants no answer.
    pub message_bytes_max: u32,
    /// Login; both are empty without one.
    pub user: &'a [u8],
    pub password: &'a [u8],
}

impl<'a> Hello<'a> {
    /// Parses the body. Returns `None` for an invalid one, and for a message beyond
    /// [`HELLO_BYTES_MAX`].
    pub fn read(message: &'a [u8]) -> Option<Self> {
        if message.len() > HELLO_BYTES_MAX {
            return None;
        }
        let body = message.get(Header::BYTES..)?;
        if body.len() < FIXED_BYTES {
            return None;
        }
        let (user_bytes, password_bytes) = (usize::from(u16_at(body, 12)), usize::from(u16_at(body, 14)));
        let password_at = FIXED_BYTES + padded(user_bytes);
        if body.len() < password_at + padded(password_bytes) {
            return None;
        }
        Some(Self {
            nonce: u64_at(body, 0),
            message_bytes_max: u32_at(body, 8),
            user: &body[FIXED_BYTES..FIXED_BYTES + user_bytes],
            password: &body[password_at..password_at + password_bytes],
        })
    }

    /// Writes header and body; returns the length of the message.
    ///
    /// # Errors
    /// There is no room, or user and password make it longer than [`HELLO_BYTES_MAX`]. Nothing was
    /// written.
    pub fn write(&self, header: &Header, message: &mut [u8]) -> Result<usize, Full> {
        let password_at = FIXED_BYTES + padded(self.user.len());
        let body_bytes = password_at + padded(self.password.len());
        let length = Header::BYTES + body_bytes;
        if length > HELLO_BYTES_MAX {
            return Err(Full);
        }
        let out = message.get_mut(..length).ok_or(Full)?;
        header.write(out);
        let body = &mut out[Header::BYTES..];
        body.fill(0);
        put_u64(body, 0, self.nonce);
        put_u32(body, 8, self.message_bytes_max);
        put_u16(body, 12, self.user.len() as u16);
        put_u16(body, 14, self.password.len() as u16);
        body[FIXED_BYTES..FIXED_BYTES + self.user.len()].copy_from_slice(self.user);
        body[password_at..password_at + self.password.len()].copy_from_slice(self.password);
        Ok(length)
    }
}

/// Body of a hello reply whose status is ok. With another status the header is alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelloReply {
    /// Tag of the client's requests and of their replies: not 0, a multiple of 4, and secret.
    pub session: u64,
    /// Seed of the key hash.
    pub hash_seed: u64,
    /// Server's second.
    pub second: u64,
    /// Number of this run of the server, as in the records of the cache area.
    pub incarnation: u64,
    /// Remote key of the cache area.
    pub area_key: u64,
    /// Remote address of its first byte.
    pub area_base: u64,
    /// Length; 0: there is none.
    pub area_bytes: u64,
    /// A chunk keeps its bytes for so long after its death.
    pub lease_ns: u64,
    /// A client that is silent for longer loses its buffer.
    pub frozen_ns: u64,
    /// Longest message of either side.
    pub message_bytes_max: u32,
    /// Longest value.
    pub value_bytes_max: u32,
    /// Length of a page of the cache area.
    pub page_bytes: u32,
    /// Pages of the cache area.
    pub pages: u32,
    /// Bits of the hash that name a partition.
    pub partition_bits: u8,
    /// Workers of the server. Each has an endpoint of its own, at ports that follow each other.
    pub workers: u16,
    /// Worker that answers.
    pub worker: u16,
    /// Most ids that a client may have in flight.
    pub ids_window: u16,
    /// Time between pushes; 0: none come.
    pub push_ms: u32,
}

impl HelloReply {
    /// Length of the message.
    pub const BYTES: usize = Header::BYTES + REPLY_BYTES;

    /// Returns the tag of entries that the server pushes.
    pub const fn push_tag(&self) -> u64 {
        self.session | 1
    }

    /// Returns the tag of accesses that the client reports.
    pub const fn history_tag(&self) -> u64 {
        self.session | 2
    }

    /// Parses the body; `None` for an invalid one.
    pub fn read(message: &[u8]) -> Option<Self> {
        let body = message.get(Header::BYTES..)?.get(..REPLY_BYTES)?;
        let reply = Self {
            session: u64_at(body, 0),
            hash_seed: u64_at(body, 8),
            second: u64_at(body, 16),
            incarnation: u64_at(body, 24),
            area_key: u64_at(body, 32),
            area_base: u64_at(body, 40),
            area_bytes: u64_at(body, 48),
            lease_ns: u64_at(body, 56),
            frozen_ns: u64_at(body, 64),
            message_bytes_max: u32_at(body, 72),
            value_bytes_max: u32_at(body, 76),
            page_bytes: u32_at(body, 80),
            pages: u32_at(body, 84),
            partition_bits: body[88],
            workers: u16_at(body, 90),
            worker: u16_at(body, 92),
            ids_window: u16_at(body, 94),
            push_ms: u32_at(body, 96),
        };
        let is_valid = reply.session != 0
            && reply.session & SESSION_ZERO_BITS == 0
            && u32::from(reply.partition_bits) <= PARTITION_BITS
            && reply.worker < reply.workers
            && reply.ids_window > 0
            && reply.message_bytes_max as usize >= Header::BYTES;
        is_valid.then_some(reply)
    }

    /// Writes header and body; returns the length of the message.
    ///
    /// # Panics
    /// If the message is shorter than [`HelloReply::BYTES`].
    pub fn write(&self, header: &Header, message: &mut [u8]) -> usize {
        let out = &mut message[..Self::BYTES];
        header.write(out);
        let body = &mut out[Header::BYTES..];
        put_u64(body, 0, self.session);
        put_u64(body, 8, self.hash_seed);
        put_u64(body, 16, self.second);
        put_u64(body, 24, self.incarnation);
        put_u64(body, 32, self.area_key);
        put_u64(body, 40, self.area_base);
        put_u64(body, 48, self.area_bytes);
        put_u64(body, 56, self.lease_ns);
        put_u64(body, 64, self.frozen_ns);
        put_u32(body, 72, self.message_bytes_max);
        put_u32(body, 76, self.value_bytes_max);
        put_u32(body, 80, self.page_bytes);
        put_u32(body, 84, self.pages);
        body[88] = self.partition_bits;
        body[89] = 0;
        put_u16(body, 90, self.workers);
        put_u16(body, 92, self.worker);
        put_u16(body, 94, self.ids_window);
        put_u32(body, 96, self.push_ms);
        put_u32(body, 100, 0);
        Self::BYTES
    }
}
