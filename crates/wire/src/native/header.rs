//! The header of a datagram.

use super::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use super::{Status, VERSION};

const MAGIC: u16 = u16::from_le_bytes(*b"Mi");
const WRITES: u8 = 1;
const RESENT: u8 = 2;
const SLOW_DOWN: u8 = 1;

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Requests, to a server.
    Requests = 1,
    /// Replies, to a client.
    Replies = 2,
    /// Asks for the directory.
    DirectoryRequest = 3,
    /// The directory.
    DirectoryReply = 4,
}

/// The fields of a header. Those that only one direction has are zero in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: Kind,
    /// Requests: one of them is not a get.
    pub writes: bool,
    /// Requests: the datagram may have been received before.
    pub resent: bool,
    /// Replies: the queue in front of the worker has lost datagrams lately.
    pub slow_down: bool,
    /// Replies: why there are none, or ok.
    pub status: Status,
    /// Requests or replies that follow.
    pub count: u16,
    /// Requests: of the client's directory. Replies: the server's now.
    pub generation: u32,
    /// Partition of the first request's key.
    pub partition: u16,
    /// Replies: share of the datagrams lost lately in front of the worker, in 1/65,535.
    pub pressure: u16,
    /// The client's number of the datagram.
    pub sequence: u32,
    /// Drawn by the client, not zero.
    pub client: u32,
    /// The client's own.
    pub echo: u64,
    /// Requests: the proof of the address, or 0. Replies: a new one, or 0.
    pub cookie: u64,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Too short, or not this protocol: not to be answered.
    NotOurs,
    /// Another version, or fields that make no sense. What can be known of the header is here, to
    /// answer it.
    Refused {
        /// `Version` or `BadRequest`.
        status: Status,
        /// Kind, count and partition say nothing.
        header: Header,
    },
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 40;

    /// Of requests, everything else zero.
    pub const REQUESTS: Self = Self {
        kind: Kind::Requests,
        writes: false,
        resent: false,
        slow_down: false,
        status: Status::Ok,
        count: 0,
        generation: 0,
        partition: 0,
        pressure: 0,
        sequence: 0,
        client: 0,
        echo: 0,
        cookie: 0,
    };

    /// Reads the header at the start of a datagram.
    ///
    /// # Errors
    /// The datagram is not of this protocol, or of another version, or makes no sense.
    #[inline]
    pub fn read(datagram: &[u8]) -> Result<Self, HeaderError> {
        let Some(bytes) = datagram.get(..Self::BYTES) else {
            return Err(HeaderError::NotOurs);
        };
        if u16_at(bytes, 0) != MAGIC {
            return Err(HeaderError::NotOurs);
        }
        let (number, flags) = (bytes[3], bytes[4]);
        let kind = match number {
            1 => Kind::Requests,
            2 => Kind::Replies,
            3 => Kind::DirectoryRequest,
            4 => Kind::DirectoryReply,
            _ => return Err(HeaderError::NotOurs),
        };
        let asks = matches!(kind, Kind::Requests | Kind::DirectoryRequest);
        let status = Status::of(bytes[5]);
        let header = Self {
            kind,
            writes: asks && flags & WRITES != 0,
            resent: asks && flags & RESENT != 0,
            slow_down: !asks && flags & SLOW_DOWN != 0,
            status: status.unwrap_or(Status::BadRequest),
            count: u16_at(bytes, 6),
            generation: u32_at(bytes, 8),
            partition: u16_at(bytes, 12),
            pressure: u16_at(bytes, 14),
            sequence: u32_at(bytes, 16),
            client: u32_at(bytes, 20),
            echo: u64_at(bytes, 24),
            cookie: u64_at(bytes, 32),
        };
        if bytes[2] != VERSION {
            let status = Status::Version;
            return Err(HeaderError::Refused { status, header });
        }
        let flags_known = if asks { WRITES | RESENT } else { SLOW_DOWN };
        let zeros = !asks || (bytes[5] == 0 && header.pressure == 0);
        if flags & !flags_known != 0 || status.is_none() || !zeros {
            let status = Status::BadRequest;
            return Err(HeaderError::Refused { status, header });
        }
        Ok(header)
    }

    /// Writes the header at the start of a datagram.
    ///
    /// # Panics
    /// When there are less than [`Header::BYTES`].
    #[inline]
    pub fn write(&self, datagram: &mut [u8]) {
        let bytes = &mut datagram[..Self::BYTES];
        put_u16(bytes, 0, MAGIC);
        bytes[2] = VERSION;
        bytes[3] = self.kind as u8;
        bytes[4] = u8::from(self.writes | self.slow_down) | u8::from(self.resent) << 1;
        bytes[5] = self.status as u8;
        put_u16(bytes, 6, self.count);
        put_u32(bytes, 8, self.generation);
        put_u16(bytes, 12, self.partition);
        put_u16(bytes, 14, self.pressure);
        put_u32(bytes, 16, self.sequence);
        put_u32(bytes, 20, self.client);
        put_u64(bytes, 24, self.echo);
        put_u64(bytes, 32, self.cookie);
    }

    /// The header of a reply to this one, without replies yet.
    #[inline]
    pub fn reply(&self, kind: Kind) -> Self {
        Self {
            kind,
            writes: false,
            resent: false,
            slow_down: false,
            status: Status::Ok,
            count: 0,
            pressure: 0,
            cookie: 0,
            ..*self
        }
    }
}
