//! Items of a partition, as their words describe them. A reader that races with the writer validates
//! what it gets afterwards.

use micanite_memory::sync::Ordering::Relaxed;
use micanite_wire::hash::KeyHash;

use crate::heap::BLOCK_UNITS_MIN;
use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::index::hash::{Buckets, IndexHash};
use crate::limits::{ITEM_UNITS_MORE, KEY_BYTES_MAX};
use crate::log::LogKind;
use crate::log::item::{Expiry, Header, State, pack_meta, unpack_meta};
use crate::partition::{Partition, Place};
use crate::region::{Field, LogField};

/// Description of an item, for a walk or a listener.
#[derive(Clone, Copy, Debug)]
pub struct ItemInfo<'a> {
    /// Key.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// Expiry.
    pub expiry: Expiry,
    /// CAS value that a client was given for it; 0 if none.
    pub cas: u64,
    /// Bytes that it takes of the memory for items, header and rounding included.
    pub bytes: usize,
    /// Length of the value.
    pub value_bytes: usize,
    /// True if it was requested since it was stored.
    pub fetched: bool,
    /// Second of its last access; 0 while no client has asked for access times.
    pub access_s: u32,
}

impl Partition {
    #[inline]
    pub fn header(&self, position: usize) -> Header {
        Header(self.word(position).load(Relaxed))
    }

    /// Returns whether a space of the length in this header lies within the data space, its end
    /// included: an image may be damaged, so an item is checked before it is used.
    #[inline]
    pub fn has_room(&self, position: usize, header: Header) -> bool {
        let (least, last) = match self.is_store() {
            true => (BLOCK_UNITS_MIN as u64, 1),
            false => (1, 0),
        };
        let units = header.units();
        let end = self.region.head()[Field::DataEnd as usize].load(Relaxed) - last;
        units >= least
            && units <= self.layout.item_units_max + ITEM_UNITS_MORE
            && position as u64 + units <= end
    }

    /// Returns whether the words at a position can be the item that its header describes.
    #[inline]
    pub fn holds(&self, position: usize, header: Header) -> bool {
        self.has_room(position, header)
            && header.value_bytes().is_some()
            && header.key_bytes() <= KEY_BYTES_MAX
            && !header.is_free_block()
    }

    /// Returns the state of the item of a position and header.
    #[inline]
    pub fn state_at(&self, position: usize, header: Header) -> State {
        if !header.has_state() {
            return State::default();
        }
        let word = position + header.state_word();
        State::unpack([word, word + 1].map(|word| self.word(word).load(Relaxed)))
    }

    /// Returns the CAS value that has to stay when an item moves, unless it is part of its state. In a store
    /// it is a stamp: the time of the last write.
    #[inline]
    pub fn cas_to_keep(&self, place: &Place, header: Header) -> Option<u64> {
        if header.has_cas() {
            return Some(self.word(place.position + header.key_word() - 1).load(Relaxed));
        }
        let is_given = header.cas_given() && self.state_at(place.position, header).cas == 0;
        is_given.then_some(place.offset << 1 | place.log as u64)
    }

    /// Writes flags and expiry of an item that has the extension.
    #[inline]
    pub fn set_meta(&self, word: usize, (flags, expiry): (u32, Expiry)) {
        self.word(word).store(pack_meta(expiry.0, flags), Relaxed);
    }

    /// Writes the state of an item that has the extension.
    #[inline]
    pub fn set_state(&self, word: usize, state: State) {
        for (at, value) in state.pack().into_iter().enumerate() {
            self.word(word + at).store(value, Relaxed);
        }
    }

    /// Returns whether the policy wants a requested item at the tail of main.
    #[inline]
    pub fn is_due_to_move(&self, place: &Place) -> bool {
        let percent = self.layout.policy.reinsert_percent;
        if percent > 100 || self.is_store() {
            return false;
        }
        let main = self.log(LogKind::Main);
        main.distance(place.offset) >= main.get(LogField::Limit) / 100 * percent
    }

    /// Returns the key of the item at a position.
    #[inline]
    pub fn key_at<'b>(&self, position: usize, buffer: &'b mut [u8; KEY_BYTES_MAX]) -> &'b [u8] {
        let header = self.header(position);
        let key = &mut buffer[..header.key_bytes().min(KEY_BYTES_MAX)];
        self.region.copy_out((position + header.key_word()) * 8, key);
        key
    }

    /// Returns the hash of the key of the item at a position.
    pub fn hash_at(&self, position: usize) -> IndexHash {
        let mut buffer = [0; KEY_BYTES_MAX];
        self.hash_of(self.key_at(position, &mut buffer))
    }

    /// Returns the hash of a stored key.
    pub fn hash_of(&self, key: &[u8]) -> IndexHash {
        self.index_hash(KeyHash::of(key, self.layout.seed))
    }

    /// Returns whether the key of an item belongs to the last bucket.
    pub fn is_in_last(&self, place: &Place, grown: Buckets) -> bool {
        self.hash_at(place.position).bucket(grown) as u64 + 1 == grown.count()
    }

    /// Returns the place of the item of an entry, if there is one.
    pub fn place_of_item(&self, entry: Entry) -> Option<Place> {
        let holds = |place: &Place| self.holds(place.position, self.header(place.position));
        self.place(entry).filter(holds)
    }

    /// Returns whether the item of an entry has its tag, and belongs to its chain. In a damaged
    /// store an entry may lead into the middle of another item, whose bytes look like one. A caller
    /// that has not compared a key frees no space before this check.
    pub fn is_of_entry(&self, main: Bucket<'_>, entry: Entry, place: &Place) -> bool {
        let hash = self.hash_at(place.position);
        entry.has_tag(hash.tag()) && self.bucket(hash).first_word == main.first_word
    }

    /// Returns the header at a position, if it can be that of a whole item.
    pub fn whole_header(&self, position: usize) -> Option<Header> {
        if !self.is_present(position, 1) {
            return None;
        }
        let header = self.header(position);
        header.value_bytes()?;
        let is_whole = self.is_present(position, header.units() as usize)
            && header.units() <= self.layout.item_units_max + ITEM_UNITS_MORE
            && header.key_bytes() <= KEY_BYTES_MAX
            && !header.is_busy();
        is_whole.then_some(header)
    }

    /// Returns the item at a place, if its words form one.
    pub fn item_at<'k>(&self, place: &Place, key: &'k mut [u8; KEY_BYTES_MAX]) -> Option<ItemInfo<'k>> {
        Some(self.info(place, self.whole_header(place.position)?, key))
    }

    /// Returns the item of a place and its header, which is whole.
    pub fn info<'k>(&self, place: &Place, header: Header, key: &'k mut [u8; KEY_BYTES_MAX]) -> ItemInfo<'k> {
        let word = |number: usize| self.word(place.position + number).load(Relaxed);
        let (expiry_s, flags) = unpack_meta(if header.has_meta() { word(1) } else { 0 });
        let state = self.state_at(place.position, header);
        let cas = if state.cas != 0 {
            state.cas
        } else if header.has_cas() {
            word(header.key_word() - 1)
        } else if header.cas_given() {
            place.offset << 1 | place.log as u64
        } else {
            0
        };
        let key = &mut key[..header.key_bytes()];
        self.region.copy_out((place.position + header.key_word()) * 8, key);
        ItemInfo {
            key,
            flags,
            expiry: Expiry(expiry_s),
            cas,
            bytes: header.units() as usize * 8,
            value_bytes: header.value_bytes().unwrap_or(0),
            fetched: header.is_fetched(),
            access_s: state.access_s,
        }
    }
}
