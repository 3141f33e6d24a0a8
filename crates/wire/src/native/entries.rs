//! Lists of a fabric: entries of chunks that a server pushes, and accesses that a client reports.

use std::marker::PhantomData;

use super::bytes::{put_u32, put_u64, u32_at, u64_at};
use super::{BadReply, BadRequest, Full, Header};

/// Item of a list. Its last four bytes are zero.
pub trait ListItem: Sized {
    /// Error of a list that is invalid.
    type Bad;
    const BAD: Self::Bad;
    /// Bytes that an item takes.
    const BYTES: usize;

    fn read(bytes: &[u8]) -> Self;
    fn write(&self, bytes: &mut [u8]);
}

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

impl ListItem for ChunkEntry {
    type Bad = BadReply;
    const BAD: BadReply = BadReply;
    const BYTES: usize = 32;

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        Self {
            hash: u64_at(bytes, 0),
            offset: u64_at(bytes, 8),
            version: u64_at(bytes, 16),
            bytes: u32_at(bytes, 24),
        }
    }

    #[inline]
    fn write(&self, bytes: &mut [u8]) {
        put_u64(bytes, 0, self.hash);
        put_u64(bytes, 8, self.offset);
        put_u64(bytes, 16, self.version);
        put_u32(bytes, 24, self.bytes);
    }
}

/// One-sided reads of an item, which a client reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Hash of the item's key.
    pub hash: u64,
    /// Number of reads since the last report.
    pub count: u32,
}

impl ListItem for Access {
    type Bad = BadRequest;
    const BAD: BadRequest = BadRequest;
    const BYTES: usize = 16;

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        Self { hash: u64_at(bytes, 0), count: u32_at(bytes, 8) }
    }

    #[inline]
    fn write(&self, bytes: &mut [u8]) {
        put_u64(bytes, 0, self.hash);
        put_u32(bytes, 8, self.count);
    }
}

/// Entries of a push.
pub type Pushes<'a> = List<'a, ChunkEntry>;
/// Accesses of a history.
pub type History<'a> = List<'a, Access>;
/// Writes the entries of a push.
pub type PushWriter<'a> = ListWriter<'a, ChunkEntry>;
/// Writes the accesses of a history.
pub type HistoryWriter<'a> = ListWriter<'a, Access>;

/// Iterates over the items of a list. They were checked before.
#[derive(Clone, Debug)]
pub struct List<'a, T> {
    rest: &'a [u8],
    items: PhantomData<T>,
}

impl<'a, T: ListItem> List<'a, T> {
    /// Checks the items of a message whose header announces `count`. There may be none.
    ///
    /// # Errors
    /// An item is invalid, or the message ends too early.
    pub fn check(message: &'a [u8], count: u16) -> Result<Self, T::Bad> {
        let body = message.get(Header::BYTES..).ok_or(T::BAD)?;
        let rest = body.get(..usize::from(count) * T::BYTES).ok_or(T::BAD)?;
        let is_valid = rest.chunks_exact(T::BYTES).all(|item| u32_at(item, T::BYTES - 4) == 0);
        if is_valid { Ok(Self { rest, items: PhantomData }) } else { Err(T::BAD) }
    }
}

impl<T: ListItem> Iterator for List<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let (item, rest) = self.rest.split_at_checked(T::BYTES)?;
        self.rest = rest;
        Some(T::read(item))
    }
}

/// Writes the items of a list into a message, after the space for its header.
#[derive(Debug)]
pub struct ListWriter<'a, T> {
    message: &'a mut [u8],
    count: u16,
    items: PhantomData<T>,
}

impl<'a, T: ListItem> ListWriter<'a, T> {
    /// Starts a message without items, no longer than `message`.
    ///
    /// # Panics
    /// If there is no room for a header.
    pub fn new(message: &'a mut [u8]) -> Self {
        assert!(message.len() >= Header::BYTES);
        Self { message, count: 0, items: PhantomData }
    }

    /// Adds an item.
    ///
    /// # Errors
    /// There is no room; nothing was written.
    #[inline]
    pub fn push(&mut self, item: &T) -> Result<(), Full> {
        let count = self.count.checked_add(1).ok_or(Full)?;
        let at = self.bytes();
        let place = self.message.get_mut(at..at + T::BYTES).ok_or(Full)?;
        item.write(place);
        put_u32(place, T::BYTES - 4, 0);
        self.count = count;
        Ok(())
    }

    /// Returns how many items were written.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Returns the length of the message.
    fn bytes(&self) -> usize {
        Header::BYTES + usize::from(self.count) * T::BYTES
    }

    /// Writes the header with the count; returns the length of the message.
    pub fn finish(self, header: &Header) -> usize {
        Header { count: self.count, ..*header }.write(self.message);
        self.bytes()
    }
}
