//! The directory: it maps cores to ports, partitions to their owners, and cores to interfaces.

use super::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use super::directory_entry::{
    ADDRESS_NUMBERS, CoreEntry, CorePlace, ENTRY_BYTES, Entry, InterfaceAddress, PartitionEntry,
};
use super::{Header, KEY_BYTES_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN};
use crate::hash::PARTITION_BITS;

/// Most addresses of all interfaces of a server.
pub const ADDRESSES_MAX: u16 = 64;

const FIXED_BYTES: usize = 40;
const REQUEST_BYTES: usize = 8;

const _: () = assert!(KEY_BYTES_MAX < 256);

/// Request for the directory, beginning with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryRequest {
    /// First wanted entry.
    pub first: u32,
}

impl DirectoryRequest {
    /// Parses the body. Returns `None` for an invalid one, and for a datagram shorter than the
    /// shortest reply.
    #[inline]
    pub fn read(datagram: &[u8]) -> Option<Self> {
        if datagram.len() < DirectoryWriter::BYTES_MIN {
            return None;
        }
        let body = datagram.get(Header::BYTES..Header::BYTES + REQUEST_BYTES)?;
        (u32_at(body, 4) == 0).then_some(Self { first: u32_at(body, 0) })
    }

    /// Fills the whole datagram, because the reply will not be longer than the request.
    ///
    /// # Panics
    /// If the datagram is too short for a request.
    pub fn write(&self, header: &Header, datagram: &mut [u8]) {
        header.write(datagram);
        let body = &mut datagram[Header::BYTES..];
        body.fill(0);
        put_u32(body, 0, self.first);
    }
}

/// Settings of the whole server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Seed of the key hash.
    pub hash_seed: u64,
    /// A power of two.
    pub partitions: u32,
    /// Number of workers.
    pub cores: u16,
    /// TCP port of the memcached protocol; 0 = none.
    pub stream_port: u16,
    /// Longest datagram.
    pub payload_bytes_max: u32,
    /// Longest value.
    pub value_bytes_max: u32,
    /// Most ids that a client may have in flight.
    pub ids_window: u16,
    /// Shortest lifetime of a cookie.
    pub cookie_s: u16,
    /// Number of the addresses of all interfaces, if each core has one of several interfaces; 0: every
    /// core answers at the address that the client was given.
    pub addresses: u16,
}

impl Directory {
    /// Returns the number of the entries of cores and partitions, which every client reads.
    pub fn entries(&self) -> u32 {
        u32::from(self.cores) + self.partitions
    }

    /// Returns the number of all entries, with those of interfaces.
    pub fn all_entries(&self) -> u32 {
        let cores = u32::from(self.cores);
        match self.addresses {
            0 => self.entries(),
            addresses => self.entries() + cores + u32::from(addresses) * ADDRESS_NUMBERS,
        }
    }

    /// Returns where a page ends that begins with this entry. Clients that know no interfaces refuse pages
    /// with entries of these, so a page has none beside other entries.
    pub fn page_end(&self, first: u32) -> u32 {
        if first < self.entries() { self.entries() } else { self.all_entries() }
    }

    /// Returns whether an entry begins at this number: an address takes several.
    pub fn begins_entry(&self, number: u32) -> bool {
        let addresses_at = self.entries() + u32::from(self.cores);
        number.checked_sub(addresses_at).is_none_or(|number| number.is_multiple_of(ADDRESS_NUMBERS))
    }

    /// Parses a directory reply. Returns the directory, the number of the first entry, and the
    /// bytes of the entries for [`Directory::entry`]; `None` if it is invalid.
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
            addresses: u16_at(body, 36),
        };
        let (first, listed) = (u32_at(body, 28), u32_at(body, 32));
        let end = first.checked_add(listed)?;
        let entries_bytes = (listed as usize).checked_mul(ENTRY_BYTES)?;
        let entries = body.get(FIXED_BYTES..)?.get(..entries_bytes)?;
        let payload_bytes = PAYLOAD_BYTES_MIN as u32..=PAYLOAD_BYTES_MAX as u32;
        let valid = directory.partitions.is_power_of_two()
            && directory.partitions <= 1 << PARTITION_BITS
            && directory.cores > 0
            && directory.ids_window > 0
            && payload_bytes.contains(&directory.payload_bytes_max)
            && directory.addresses <= ADDRESSES_MAX
            && end <= directory.page_end(first);
        valid.then_some((directory, first, entries))
    }

    /// Parses entry `number` at the start of these bytes; `None` if it is invalid.
    pub fn entry(&self, number: u32, bytes: &[u8]) -> Option<Entry> {
        let cores = u32::from(self.cores);
        if number < cores {
            return CoreEntry::read(bytes).map(Entry::Core);
        }
        if number < self.entries() {
            return PartitionEntry::read(bytes, self.cores).map(Entry::Partition);
        }
        if number < self.entries() + cores {
            return CorePlace::read(bytes).map(Entry::Place);
        }
        InterfaceAddress::read(bytes).filter(|_| self.begins_entry(number)).map(Entry::Address)
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
    /// Shortest reply that carries an entry.
    pub const BYTES_MIN: usize = Header::BYTES + FIXED_BYTES + 8;

    /// Creates a reply with entries from `first` on, which fits `datagram`. Returns `None` if that
    /// is shorter than [`DirectoryWriter::BYTES_MIN`].
    pub fn new(datagram: &'a mut [u8], directory: &Directory, first: u32) -> Option<Self> {
        if datagram.len() < Self::BYTES_MIN {
            return None;
        }
        // The padding of the last entry has to fit, too.
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
        put_u16(body, 36, directory.addresses);
        put_u32(body, 28, first);
        Some(Self { datagram, first, listed: 0 })
    }

    /// Returns the number of the next entry.
    pub fn next(&self) -> u32 {
        self.first + self.listed
    }

    /// Adds the next entry; returns `false` if there is no room.
    pub fn push(&mut self, entry: Entry) -> bool {
        let at = Header::BYTES + FIXED_BYTES + self.listed as usize * ENTRY_BYTES;
        let bytes = entry.numbers() as usize * ENTRY_BYTES;
        let Some(out) = self.datagram.get_mut(at..at + bytes) else {
            return false;
        };
        entry.write(out);
        self.listed += entry.numbers();
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
