//! Lists of a fabric: entries of chunks that a server pushes, and accesses that a client reports.

use super::bytes::{put_u32, put_u64, u32_at, u64_at};
use super::{BadReply, BadRequest, Full, Header};

const PUSH_BYTES: usize = 32;
const ACCESS_BYTES: usize = 16;

/// Entry of a chunk, which a server pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkEntry {
    /// Hash of the item's key.
    pub hash: u64,
    /// Place of the chunk in the cache area.
    pub offset: u64,
    pub version: u64,
    /// Bytes of the chunk that hold the item: header, key and value.
    pub bytes: u32,
}

/// One-sided reads of an item, which a client reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Hash of the item's key.
    pub hash: u64,
    /// Number of reads since the last report.
    pub count: u32,
}

/// Iterates over the entries of a push. They were checked before.
#[derive(Clone, Debug)]
pub struct Pushes<'a> {
    rest: &'a [u8],
}

impl<'a> Pushes<'a> {
    /// Bytes that an entry takes.
    pub const ENTRY_BYTES: usize = PUSH_BYTES;

    /// Checks the entries of a push whose header announces `count`. There may be none.
    ///
    /// # Errors
    /// An entry is invalid, or the message ends too early.
    pub fn check(message: &'a [u8], count: u16) -> Result<Self, BadReply> {
        let rest = checked(message, count, PUSH_BYTES, 28).ok_or(BadReply)?;
        Ok(Self { rest })
    }
}

impl Iterator for Pushes<'_> {
    type Item = ChunkEntry;

    #[inline]
    fn next(&mut self) -> Option<ChunkEntry> {
        let (entry, rest) = self.rest.split_at_checked(PUSH_BYTES)?;
        self.rest = rest;
        Some(ChunkEntry {
            hash: u64_at(entry, 0),
            offset: u64_at(entry, 8),
            version: u64_at(entry, 16),
            bytes: u32_at(entry, 24),
        })
    }
}

/// Iterates over the accesses of a history. They were checked before.
#[derive(Clone, Debug)]
pub struct History<'a> {
    rest: &'a [u8],
}

impl<'a> History<'a> {
    /// Bytes that an access takes.
    pub const ACCESS_BYTES: usize = ACCESS_BYTES;

    /// Checks the accesses of a history whose header announces `count`. There may be none.
    ///
    /// # Errors
    /// An access is invalid, or the message ends too early.
    pub fn check(message: &'a [u8], count: u16) -> Result<Self, BadRequest> {
        let rest = checked(message, count, ACCESS_BYTES, 12).ok_or(BadRequest)?;
        Ok(Self { rest })
    }
}

impl Iterator for History<'_> {
    type Item = Access;

    #[inline]
    fn next(&mut self) -> Option<Access> {
        let (access, rest) = self.rest.split_at_checked(ACCESS_BYTES)?;
        self.rest = rest;
        Some(Access { hash: u64_at(access, 0), count: u32_at(access, 8) })
    }
}

/// Returns the bytes of `count` records, if they are all there and have zeros at `zero_at`.
fn checked(message: &[u8], count: u16, record_bytes: usize, zero_at: usize) -> Option<&[u8]> {
    let body = message.get(Header::BYTES..)?;
    let records = body.get(..usize::from(count) * record_bytes)?;
    records.chunks_exact(record_bytes).all(|record| u32_at(record, zero_at) == 0).then_some(records)
}

/// Writes the entries of a push, after the space for its header.
#[derive(Debug)]
pub struct PushWriter<'a> {
    records: Records<'a, PUSH_BYTES>,
}

impl<'a> PushWriter<'a> {
    /// Starts a message without entries, no longer than `message`.
    ///
    /// # Panics
    /// If there is no room for a header.
    pub fn new(message: &'a mut [u8]) -> Self {
        Self { records: Records::new(message) }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// There is no room; nothing was written.
    #[inline]
    pub fn push(&mut self, entry: &ChunkEntry) -> Result<(), Full> {
        let out = self.records.next()?;
        put_u64(out, 0, entry.hash);
        put_u64(out, 8, entry.offset);
        put_u64(out, 16, entry.version);
        put_u32(out, 24, entry.bytes);
        put_u32(out, 28, 0);
        Ok(())
    }

    /// Returns how many entries were written.
    pub fn count(&self) -> u16 {
        self.records.count
    }

    /// Writes the header with the count; returns the length of the message.
    pub fn finish(self, header: &Header) -> usize {
        self.records.finish(header)
    }
}

/// Writes the accesses of a history, after the space for its header.
#[derive(Debug)]
pub struct HistoryWriter<'a> {
    records: Records<'a, ACCESS_BYTES>,
}

impl<'a> HistoryWriter<'a> {
    /// Starts a message without accesses, no longer than `message`.
    ///
    /// # Panics
    /// If there is no room for a header.
    pub fn new(message: &'a mut [u8]) -> Self {
        Self { records: Records::new(message) }
    }

    /// Adds an access.
    ///
    /// # Errors
    /// There is no room; nothing was written.
    #[inline]
    pub fn push(&mut self, access: &Access) -> Result<(), Full> {
        let out = self.records.next()?;
        put_u64(out, 0, access.hash);
        put_u32(out, 8, access.count);
        put_u32(out, 12, 0);
        Ok(())
    }

    /// Returns how many accesses were written.
    pub fn count(&self) -> u16 {
        self.records.count
    }

    /// Writes the header with the count; returns the length of the message.
    pub fn finish(self, header: &Header) -> usize {
        self.records.finish(header)
    }
}

/// Records of one length behind a header.
#[derive(Debug)]
struct Records<'a, const BYTES: usize> {
    message: &'a mut [u8],
    count: u16,
}

impl<'a, const BYTES: usize> Records<'a, BYTES> {
    fn new(message: &'a mut [u8]) -> Self {
        assert!(message.len() >= Header::BYTES);
        Self { message, count: 0 }
    }

    /// Returns the length of the message.
    fn bytes(&self) -> usize {
        Header::BYTES + usize::from(self.count) * BYTES
    }

    /// Returns the place of the next record.
    #[inline]
    fn next(&mut self) -> Result<&mut [u8], Full> {
        let count = self.count.checked_add(1).ok_or(Full)?;
        let at = self.bytes();
        let place = self.message.get_mut(at..at + BYTES).ok_or(Full)?;
        self.count = count;
        Ok(place)
    }

    fn finish(self, header: &Header) -> usize {
        Header { count: self.count, ..*header }.write(self.message);
        self.bytes()
    }
}
