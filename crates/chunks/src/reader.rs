//! A client's side: accepts the bytes that a one-sided read brought, or says which rule they break.

use micanite_wire::hash::KeyHash;

use crate::layout::{Entry, HEADER_BYTES, Header, Record};

/// Item that a client wants, and what it knows while it reads.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub entry: Entry,
    pub key: &'a [u8],
    pub hash: KeyHash,
    /// Incarnation of the server that the connection leads to.
    pub incarnation: u64,
    /// Server's second at its latest.
    pub second_max: u64,
    pub lease_ns: u64,
}

/// Bytes that a read brought: those of [`Geometry::ranges`](crate::Geometry::ranges).
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    pub record: &'a [u8],
    pub chunk: &'a [u8],
    /// Header as another read brought it, which was posted after this one had completed.
    pub second_header: Option<&'a [u8]>,
    /// Time from the post to the completion.
    pub lasted_ns: u64,
}

/// Accepted item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted<'a> {
    pub value: &'a [u8],
    pub flags: u32,
    pub expiry_s: u32,
}

/// Rule that a read breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The version is not the entry's: the chunk is dead.
    Version,
    /// The server is not that of the entry.
    Incarnation,
    /// The void count has been raised.
    Void,
    /// Lengths do not fit the entry.
    Lengths,
    /// The chunk has another key.
    Key,
    Expired,
    /// A flush is due.
    Flushed,
    Checksum,
    /// The read took longer than a lease.
    Slow,
    /// The second header is missing, or differs.
    SecondHeader,
}

impl Refusal {
    /// Returns whether another read may be accepted. If not, or after it, the client asks by message.
    ///
    /// Versions and void counts do not come back, and time goes on. The others may be a mixture of two
    /// moments.
    pub const fn may_retry(self) -> bool {
        matches!(self, Self::Lengths | Self::Key | Self::Checksum | Self::Slow | Self::SecondHeader)
    }
}

/// Accepts the bytes of a read if they are the newest value of the item at some moment of the read.
///
/// Bytes may be anything, and of any length.
///
/// # Errors
/// Returns the first broken rule.
pub fn accept<'a>(wanted: &Wanted<'_>, read: &Read<'a>) -> Result<Accepted<'a>, Refusal> {
    let entry = wanted.entry;
    let bytes = read.chunk.get(..entry.bytes as usize).ok_or(Refusal::Lengths)?;
    let (header, checksum) = Header::decode(bytes).ok_or(Refusal::Lengths)?;
    let record = Record::decode(read.record).ok_or(Refusal::Lengths)?;
    if header.version == 0 || header.version != entry.version {
        return Err(Refusal::Version);
    }
    if record.incarnation != wanted.incarnation || header.incarnation != wanted.incarnation {
        return Err(Refusal::Incarnation);
    }
    if header.void != record.void {
        return Err(Refusal::Void);
    }
    if header.item_bytes() != u64::from(entry.bytes) || header.key_bytes as usize != wanted.key.len() {
        return Err(Refusal::Lengths);
    }
    let (key, value) = bytes[HEADER_BYTES..].split_at(wanted.key.len());
    if header.hash != wanted.hash.0 || key != wanted.key {
        return Err(Refusal::Key);
    }
    if header.expiry_s != 0 && u64::from(header.expiry_s) <= wanted.second_max {
        return Err(Refusal::Expired);
    }
    if record.flush_s != 0 && record.flush_s <= wanted.second_max {
        return Err(Refusal::Flushed);
    }
    if entry.needs_second_header() {
        let second = read.second_header.and_then(|second| second.get(..HEADER_BYTES));
        if second != Some(&bytes[..HEADER_BYTES]) {
            return Err(Refusal::SecondHeader);
        }
    } else if read.lasted_ns > wanted.lease_ns {
        return Err(Refusal::Slow);
    }
    if checksum != header.checksum(key, value) {
        return Err(Refusal::Checksum);
    }
    Ok(Accepted { value, flags: header.flags, expiry_s: header.expiry_s })
}
