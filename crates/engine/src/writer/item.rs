//! A description of an item to be written, and the write of its bytes.

use micanite_memory::sync::Ordering::Relaxed;

use crate::log::LogKind;
use crate::log::item::{Expiry, Shape, State, pack_meta};
use crate::partition::Partition;
use crate::region::copy_budget;
use crate::writer::{Found, Reservation, Writer};

/// An item to be written.
pub(crate) struct NewItem<'a> {
    pub key: &'a [u8],
    pub flags: u32,
    pub expiry: Expiry,
    /// State for meta commands.
    pub state: Option<State>,
    /// CAS value that the item keeps, because a client knows it and only the item's place changes.
    pub cas: Option<u64>,
    /// True if a client will know its CAS value.
    pub gives_cas: bool,
    /// True if it was requested since it was stored.
    pub fetched: bool,
    /// Requests that it has counted.
    pub frequency: u64,
    /// True if only its place changes, so that its chunk stays.
    pub moves: bool,
    /// True if no entry of its chain has its tag ([`Writer::is_absent`]), in a cache.
    pub is_new: bool,
    /// Log that it has to go to.
    pub log: Option<LogKind>,
    /// Value, in two parts.
    pub value: [Part<'a>; 2],
}

/// A part of a value: the caller's bytes, or the value of the item that is replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Bytes(&'a [u8]),
    Old,
}

impl Part<'_> {
    pub const NONE: Self = Self::Bytes(&[]);
}

impl<'a> NewItem<'a> {
    /// Makes an item of a whole value.
    pub fn of(key: &'a [u8], value: &'a [u8], (flags, expiry): (u32, Expiry)) -> Self {
        Self {
            key,
            flags,
            expiry,
            state: None,
            cas: None,
            gives_cas: false,
            fetched: false,
            frequency: 0,
            moves: false,
            is_new: false,
            log: None,
            value: [Part::Bytes(value), Part::NONE],
        }
    }
}

impl Writer<'_> {
    /// Returns the composition of an item that replaces another.
    #[inline]
    pub fn shape_of(&self, item: &NewItem<'_>, replaced: Option<&Found>) -> Shape {
        let part_bytes = |part: &Part<'_>| match part {
            Part::Bytes(bytes) => bytes.len(),
            Part::Old => replaced.map_or(0, Found::value_bytes),
        };
        Shape {
            key_bytes: item.key.len(),
            value_bytes: item.value.iter().map(part_bytes).sum(),
            meta: item.flags != 0 || item.expiry != Expiry::NEVER,
            state: item.state.is_some(),
            cas: item.cas.is_some() || self.partition.is_store(),
        }
    }

    /// Returns a copy of an item, to be written elsewhere.
    pub fn copy_of<'b>(&self, key: &'b [u8], found: &Found) -> NewItem<'b> {
        NewItem {
            key,
            flags: found.flags,
            expiry: found.expiry,
            state: self.state_to_keep(found),
            cas: self.cas_to_keep(found),
            gives_cas: found.header.cas_given(),
            fetched: found.header.is_fetched(),
            frequency: found.header.frequency(),
            moves: false,
            is_new: false,
            log: None,
            value: [Part::Old, Part::NONE],
        }
    }
}

impl Reservation {
    /// Writes the bytes of an item into reserved space, except its header, which marks it as busy
    /// until it is published. `old` is the place of the replaced value, in bytes, and its length.
    /// Needs no lock.
    #[inline]
    pub fn write_item(&self, partition: &Partition, item: &NewItem<'_>, old: Option<(usize, usize)>) {
        let (region, header) = (&partition.region, self.header);
        let mut word = self.place.position + 1;
        if header.has_meta() {
            let meta = pack_meta(item.expiry.0, item.flags);
            region.word(word).store(meta, Relaxed);
            word += 1;
        }
        if let Some(state) = item.state {
            partition.set_state(word, state);
            word += state.pack().len();
        }
        if header.has_cas() {
            region.word(word).store(item.cas.unwrap_or(0), Relaxed);
            word += 1;
        }
        region.copy_in(word * 8, item.key);
        let mut at = word * 8 + item.key.len();
        for part in item.value {
            match (part, old) {
                (Part::Bytes(bytes), _) => {
                    region.copy_in(at, bytes);
                    at += bytes.len();
                }
                (Part::Old, Some((first_byte, bytes))) => {
                    region.copy_within(first_byte, at, bytes);
                    copy_budget::spend(bytes);
                    at += bytes;
                }
                (Part::Old, None) => {}
            }
        }
    }
}
