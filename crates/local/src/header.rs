//! The page that all readers map: whether the server lives, its second, and what explains the partitions.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use micanite_memory::sync::Ordering::{Acquire, Relaxed, Release};
use micanite_memory::{PAGE_BYTES, Region};

/// Version of this page, of the notes and of the hello.
pub const VERSION: u64 = 1;
const MAGIC: u64 = u64::from_le_bytes(*b"MICLOCAL");
/// Bytes of the page.
pub const HEADER_BYTES: usize = PAGE_BYTES;

/// Words of the page. The first line holds all that a get loads.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Word {
    Magic = 0,
    Version = 1,
    /// The thread that lives as long as the server (`micanite_memory::Owner`).
    Owner = 2,
    /// The server's second: no worker has acted in a later one.
    Now = 3,
    /// A number of this run of the server.
    Run = 4,
    /// The longest value.
    ValueBytesMax = 5,
    /// The delimiter of namespaces, plus one; 0 = none.
    Delimiter = 6,
}

/// Word of the owner.
pub const OWNER_WORD: usize = Word::Owner as usize;

/// What a server tells about its partitions, beside what these hold themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// A number of this run of the server.
    pub run: u64,
    /// The longest value.
    pub value_bytes_max: usize,
    /// The delimiter of namespaces, if there are any.
    pub namespace_delimiter: Option<u8>,
}

/// The page, at either end.
#[derive(Debug)]
pub struct Header {
    region: Arc<Region>,
}

impl Header {
    /// Makes the page, and a descriptor of it for readers.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn create(about: &About, now_s: u32) -> io::Result<(Self, OwnedFd)> {
        let (region, readers) = Region::readable(HEADER_BYTES)?;
        let header = Self { region: Arc::new(region) };
        header.set(Word::Version, VERSION);
        header.set(Word::Run, about.run);
        header.set(Word::ValueBytesMax, about.value_bytes_max as u64);
        header.set(Word::Delimiter, about.namespace_delimiter.map_or(0, |byte| u64::from(byte) + 1));
        header.advance(now_s);
        header.set(Word::Magic, MAGIC);
        Ok((header, readers))
    }

    /// Maps the page of a server.
    ///
    /// # Errors
    /// The kernel's error, or `InvalidData` for a page of another kind or version.
    pub fn open(descriptor: impl AsFd) -> io::Result<Self> {
        let header = Self { region: Arc::new(Region::foreign(descriptor, HEADER_BYTES)?) };
        if (header.get(Word::Magic), header.get(Word::Version)) == (MAGIC, VERSION) {
            return Ok(header);
        }
        let text = "the server's page has another version than this program: update the older one";
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }

    /// Returns what the server tells of itself.
    pub fn about(&self) -> About {
        let delimiter = self.get(Word::Delimiter).checked_sub(1);
        About {
            run: self.get(Word::Run),
            value_bytes_max: self.get(Word::ValueBytesMax) as usize,
            namespace_delimiter: delimiter.map(|byte| byte as u8),
        }
    }

    /// Returns the memory, for the owner of its word.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Returns whether the server lives. What was read before is then not of a dead one.
    #[inline]
    pub fn is_alive(&self) -> bool {
        micanite_memory::is_owned(self.region.word(OWNER_WORD).load(Acquire))
    }

    /// Returns the server's second.
    #[inline]
    pub fn now_s(&self) -> u32 {
        self.region.word(Word::Now as usize).load(Acquire) as u32
    }

    /// Lets the server's second become `now_s`, unless it is later already. Every worker calls it before it
    /// acts in a second.
    #[inline]
    pub fn advance(&self, now_s: u32) {
        let word = self.region.word(Word::Now as usize);
        if word.load(Relaxed) < u64::from(now_s) {
            word.fetch_max(u64::from(now_s), Release);
        }
    }

    fn get(&self, word: Word) -> u64 {
        self.region.word(word as usize).load(Relaxed)
    }

    fn set(&self, word: Word, value: u64) {
        self.region.word(word as usize).store(value, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use micanite_memory::Owner;

    const ABOUT: About = About { run: 7, value_bytes_max: 1000, namespace_delimiter: Some(b':') };

    #[test]
    fn a_reader_sees_life_time_and_sizes() {
        let (header, readers) = Header::create(&ABOUT, 50).unwrap();
        let reader = Header::open(&readers).unwrap();
        assert_eq!(reader.about(), ABOUT);
        assert!(!reader.is_alive());
        let owner = Owner::new(Arc::clone(header.region()), OWNER_WORD).unwrap();
        assert!(reader.is_alive());
        header.advance(60);
        header.advance(59);
        assert_eq!(reader.now_s(), 60);
        drop(owner);
        assert!(!reader.is_alive());
    }

    #[test]
    fn another_page_is_refused() {
        let (_region, readers) = Region::readable(HEADER_BYTES).unwrap();
        assert_eq!(Header::open(&readers).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
