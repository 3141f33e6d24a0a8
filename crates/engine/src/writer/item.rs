//! Describes an item that is to be written, and writes its bytes.

use micanite_memory::sync::Ordering::Relaxed;

use crate::copy_budget;
use crate::log::LogKind;
use crate::log::item::{Shape, State, pack_meta};
use crate::partition::Partition;
use crate::request::Expiry;
use crate::writer::{Found, Reservation, Writer};

/// An item to be written.
pub(crate) struct NewItem<'a> {
    pub key: &'a [u8],
    pub flags: u32,
    pub expiry: Expiry,
    /// What it says beside its value.
    pub state: Option<State>,
    /// The CAS value that the item keeps, because it was given out and nothing but its place
    /// changes.
    pub cas: Option<u64>,
    /// Whether a client will know its CAS value.
    pub gives_cas: bool,
    /// Whether it was requested since it was stored.
    pub fetched: bool,
    /// Requests that the item has counted.
    pub frequency: u64,
    /// The log that it has to go to.
    pub log: Option<LogKind>,
    /// The value, in two parts.
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
    /// An item of a whole value.
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
            log: None,
            value: [Part::Bytes(value), Part::NONE],
        }
    }
}

impl Writer<'_> {
    /// What an item consists of that is written in the place of another.
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

    /// A copy of an item, to be written elsewhere.
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
            log: None,
            value: [Part::Old, Part::NONE],
        }
    }
}

impl Partition {
    /// Writes the bytes of an item into the space that was taken for it; all but its header,
    /// which says that it is busy until it is published. `old` is where the value lies that is
    /// replaced, in bytes, and its length. Needs no lock.
    #[inline]
    pub fn write_item(
        &self,
        reserved: &Reservation,
        item: &NewItem<'_>,
        old: Option<(usize, usize)>,
    ) {
        let (region, header) = (&self.region, reserved.header);
        let mut word = reserved.place.position + 1;
        if header.has_meta() {
            let meta = pack_meta(item.expiry.0, item.flags);
            region.word(word).store(meta, Relaxed);
            word += 1;
        }
        if let Some(state) = item.state {
            self.set_state(word, state);
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
