//! Counts of all requests to a server while it recorded.

use super::RECORD_BYTES;

/// Counts of all requests since the recording began, also of keys that are not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub requests: u64,
    pub reads: u64,
    /// Requests that read and found their item.
    pub read_hits: u64,
    /// Requests of recorded keys that are missing: they came faster than they could be written.
    pub dropped: u64,
    /// Requests that are recorded without their prefix, because there are more prefixes than numbers.
    pub unnamed: u64,
}

impl Seen {
    /// Bytes behind the record that announces them.
    pub const BYTES: usize = 2 * RECORD_BYTES;

    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let numbers = [self.requests, self.reads, self.read_hits, self.dropped, self.unnamed];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let number = |place: usize| words.get(place).map_or(0, |word| u64::from_le_bytes(*word));
        Self {
            requests: number(0),
            reads: number(1),
            read_hits: number(2),
            dropped: number(3),
            unnamed: number(4),
        }
    }
}

/// Reason why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    Stopped = 1,
    /// The time that it was given was over.
    Time = 2,
    /// The file had reached its length.
    Bytes = 3,
    /// The server ended, or restarted.
    Server = 4,
    /// The file could not be written.
    Failed = 5,
}

impl End {
    /// The end of a number; nothing if there is none of it.
    pub fn numbered(number: u8) -> Option<Self> {
        [Self::Stopped, Self::Time, Self::Bytes, Self::Server, Self::Failed]
            .into_iter()
            .find(|end| *end as u8 == number)
    }

    /// Describes the reason, behind "ended".
    pub const fn text(self) -> &'static str {
        match self {
            Self::Stopped => "by --stop",
            Self::Time => "after its time (--seconds)",
            Self::Bytes => "at its length (--bytes-max)",
            Self::Server => "with the server",
            Self::Failed => "because the file could not be written",
        }
    }
}
