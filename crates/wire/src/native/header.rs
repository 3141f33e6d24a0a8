//! Header of a datagram.

use super::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use super::{Status, VERSION};

const MAGIC: u16 = u16::from_le_bytes(*b"Mi");
const WRITES: u8 = 1;
const RESENT: u8 = 2;
const SLOW_DOWN: u8 = 1;

/// Kind of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Requests to a server.
    Requests = 1,
    /// Replies to a client.
    Replies = 2,
    /// Request for the directory.
    DirectoryRequest = 3,
    DirectoryReply = 4,
    /// Login of a client. Kinds from here on are for fabrics: over UDP a server ignores them.
    Hello = 5,
    HelloReply = 6,
    /// Entries of chunks, to a client.
    Push = 7,
    /// Accesses that a client made by one-sided reads. Nothing answers it.
    History = 8,
}

impl Kind {
    /// Returns whether clients send this kind.
    #[inline]
    pub const fn is_from_client(self) -> bool {
        matches!(self, Self::Requests | Self::DirectoryRequest | Self::Hello | Self::History)
    }
}

/// Fields of a header. A field of only one direction is zero in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    /// Requests: at least one of them is not a get.
    pub writes: bool,
    /// Requests: the client sent this datagram before.
    pub resent: bool,
    /// Replies: the queue in front of the worker lost datagrams lately.
    pub slow_down: bool,
    /// Replies: the reason why there are none, or ok.
    pub status: Status,
    /// Number of requests or replies in the datagram.
    pub count: u16,
    /// Requests: generation of the client's directory. Replies: the server's current one.
    pub generation: u32,
    /// Partition of the first request's key.
    pub partition: u16,
    /// Replies: share of datagrams that the queue in front of the worker lost lately, in 1/65,535.
    pub pressure: u16,
    /// The client's number of the datagram.
    pub sequence: u32,
    /// Random number of the client, not zero.
    pub client: u32,
    /// Chosen by the client and repeated by the server.
    pub echo: u64,
    /// Requests: proof of the client's address, or 0. Replies: a new proof, or 0; over a fabric the
    /// server's second.
    pub cookie: u64,
}

/// Reasons to refuse a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The datagram is too short, or of another protocol: it gets no reply.
    NotOurs,
    /// The version differs, or a field is invalid. The readable part of the header is here, to
    /// reply to it.
    Refused {
        /// `Version` or `BadRequest`.
        status: Status,
        /// Kind, count and partition are meaningless.
        header: Header,
    },
}

impl Header {
    pub const BYTES: usize = 40;

    /// Header of requests, with all other fields zero.
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

    /// Parses the header at the start of a datagram.
    ///
    /// # Errors
    /// The datagram is of another protocol or version, or invalid.
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
            5 => Kind::Hello,
            6 => Kind::HelloReply,
            7 => Kind::Push,
            8 => Kind::History,
            _ => return Err(HeaderError::NotOurs),
        };
        let asks = kind.is_from_client();
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
    /// If the datagram is shorter than [`Header::BYTES`].
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

    /// Creates the header of a reply to this one, without replies yet.
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
