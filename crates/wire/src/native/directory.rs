//! The directory: which core answers where, and which core owns which partition.

use super::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use super::{Header, KEY_BYTES_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN};
use crate::hash::PARTITION_BITS;

const FIXED_BYTES: usize = 40;
const ENTRY_BYTES: usize = 4;
const REQUEST_BYTES: usize = 8;

const _: () = assert!(KEY_BYTES_MAX < 256);

/// Asks for the directory from an entry on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryRequest {
    /// The first entry wanted.
    pub first: u32,
}

impl DirectoryRequest {
    /// Reads what follows the header. None if it makes no sense, or if the datagram is shorter than
    /// the shortest reply.
    #[inline]
    pub fn read(datagram: &[u8]) -> Option<Self> {
        if datagram.len() < DirectoryWriter::BYTES_MIN {
            return None;
        }
        let body = datagram.get(Header::BYTES..Header::BYTES + REQUEST_BYTES)?;
        (u32_at(body, 4) == 0).then_some(Self {
            first: u32_at(body, 0),
        })
    }

    /// Writes a whole datagram: the reply will not be longer than it is.
    ///
    /// # Panics
    /// When it is too short for a request.
    pub fn write(&self, header: &Header, datagram: &mut [u8]) {
        header.write(datagram);
        let body = &mut datagram[Header::BYTES..];
        body.fill(0);
        put_u32(body, 0, self.first);
    }
}

/// What holds for the whole server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Of the key hash.
    pub hash_seed: u64,
    /// A power of two.
    pub partitions: u32,
    /// Workers.
    pub cores: u16,
    /// TCP port of the memcached protocol, 0 = none.
    pub stream_port: u16,
    /// The longest datagram.
    pub payload_bytes_max: u32,
    /// The longest value.
    pub value_bytes_max: u32,
    /// Ids that a client may have in the air.
    pub ids_window: u16,
    /// A cookie is good for at least this long.
    pub cookie_s: u16,
}

/// Who may do what with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PartitionAccess {
    /// The owner alone reads and writes.
    Erew = 0,
    /// All read, the owner writes.
    Crew = 1,
    /// All read and write.
    Crcw = 2,
}

/// A core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreEntry {
    /// The UDP port it answers on.
    pub port: u16,
    /// Its NUMA node.
    pub node: u16,
}

/// A partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionEntry {
    /// The core that owns it.
    pub owner: u16,
    /// Who may do what.
    pub access: PartitionAccess,
}

/// An entry; cores come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Of a core.
    Core(CoreEntry),
    /// Of a partition.
    Partition(PartitionEntry),
}

impl Directory {
    /// Entries in all.
    pub fn entries(&self) -> u32 {
        u32::from(self.cores) + self.partitions
    }

    /// Reads a directory reply: the directory, the number of the first entry, and the entries as
    /// bytes, for [`Directory::entry`]. None if it makes no sense.
    pub fn read(datagram: &[u8]) -> Option<(Self, u32, &[u8])> {
        let body = datagram.get(Header::BYTES..)?;
        if body.len() < FIXED_BYTES {
            return None;
        }
        let directory = Self {
            hash_seed: u64_at(body, 0),
            partitions: u32_at(body, 8),
            cores: u16_at(body, 12),
            stream_port: u16_at(body, 14),
            payload_bytes_max: u32_at(body, 16),
            value_bytes_max: u32_at(body, 20),
            ids_window: u16_at(body, 24),
            cookie_s: u16_at(body, 26),
        };
        let (first, listed) = (u32_at(body, 28), u32_at(body, 32));
        let end = first.checked_add(listed)?;
        let entries_bytes = (listed as usize).checked_mul(ENTRY_BYTES)?;
        let entries = body.get(FIXED_BYTES..)?.get(..entries_bytes)?;
        let payload_bytes = PAYLOAD_BYTES_MIN as u32..=PAYLOAD_BYTES_MAX as u32;
        let sense = directory.partitions.is_power_of_two()
            && directory.partitions <= 1 << PARTITION_BITS
            && directory.cores > 0
            && directory.ids_window > 0
            && payload_bytes.contains(&directory.payload_bytes_max)
            && end <= directory.entries();
        sense.then_some((directory, first, entries))
    }

    /// The entry of a number, out of its four bytes. None if it makes no sense.
    pub fn entry(&self, number: u32, bytes: &[u8]) -> Option<Entry> {
        let bytes = bytes.get(..ENTRY_BYTES)?;
        if number < u32::from(self.cores) {
            let (port, node) = (u16_at(bytes, 0), u16_at(bytes, 2));
            return (port != 0).then_some(Entry::Core(CoreEntry { port, node }));
        }
        let owner = u16_at(bytes, 0);
        let access = match bytes[2] {
            0 => PartitionAccess::Erew,
            1 => PartitionAccess::Crew,
            2 => PartitionAccess::Crcw,
            _ => return None,
        };
        (owner < self.cores).then_some(Entry::Partition(PartitionEntry { owner, access }))
    }
}

/// Writes a directory reply.
#[derive(Debug)]
pub struct DirectoryWriter<'a> {
    datagram: &'a mut [u8],
    first: u32,
    listed: u32,
}

impl<'a> DirectoryWriter<'a> {
    /// The least length of a reply that says anything.
    pub const BYTES_MIN: usize = Header::BYTES + FIXED_BYTES + 8;

    /// A reply with entries from `first` on, no longer than the bytes. None if those are less than
    /// [`DirectoryWriter::BYTES_MIN`].
    pub fn new(datagram: &'a mut [u8], directory: &Directory, first: u32) -> Option<Self> {
        if datagram.len() < Self::BYTES_MIN {
            return None;
        }
        // The padding of the last entry has to fit as well.
        let bytes = datagram.len() / 8 * 8;
        let datagram = &mut datagram[..bytes];
        let body = &mut datagram[Header::BYTES..];
        body[..FIXED_BYTES].fill(0);
        put_u64(body, 0, directory.hash_seed);
        put_u32(body, 8, directory.partitions);
        put_u16(body, 12, directory.cores);
        put_u16(body, 14, directory.stream_port);
        put_u32(body, 16, directory.payload_bytes_max);
        put_u32(body, 20, directory.value_bytes_max);
        put_u16(body, 24, directory.ids_window);
        put_u16(body, 26, directory.cookie_s);
        put_u32(body, 28, first);
        Some(Self {
            datagram,
            first,
            listed: 0,
        })
    }

    /// The number of the next entry.
    pub fn next(&self) -> u32 {
        self.first + self.listed
    }

    /// Adds the next entry; returns whether there was room.
    pub fn push(&mut self, entry: Entry) -> bool {
        let at = Header::BYTES + FIXED_BYTES + self.listed as usize * ENTRY_BYTES;
        let Some(out) = self.datagram.get_mut(at..at + ENTRY_BYTES) else {
            return false;
        };
        match entry {
            Entry::Core(core) => {
                put_u16(out, 0, core.port);
                put_u16(out, 2, core.node);
            }
            Entry::Partition(partition) => {
                put_u16(out, 0, partition.owner);
                out[2] = partition.access as u8;
                out[3] = 0;
            }
        }
        self.listed += 1;
        true
    }

    /// Writes the header; returns the datagram's length.
    pub fn finish(self, header: &Header) -> usize {
        header.write(self.datagram);
        put_u32(self.datagram, Header::BYTES + 32, self.listed);
        let end = Header::BYTES + FIXED_BYTES + self.listed as usize * ENTRY_BYTES;
        let padded = end.next_multiple_of(8);
        self.datagram[end..padded].fill(0);
        padded
    }
}
