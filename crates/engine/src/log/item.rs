//! The bytes of an item: a header word, the extensions that it needs, key, value.
//!
//! ```text
//! bits 0..28  units   the space first taken, header included, in units of 8 bytes
//!      28..44 slack   bytes of that space not used
//!      44..52 key     length of the key
//!      52     dead    deleted or replaced: the space is free once the head comes by
//!      53     given   its CAS value was handed out: the next write must change it
//!      54     meta    has the extension {expiry 32, flags 32}
//!      55     cas     has the extension CAS 64 (the item moved after its CAS was given; stores
//!                     give every item one)
//!      56..58 count   how often it was requested, up to three
//!      58     early   deleted or expired before the head came by
//!      59     busy    being written: nothing to be seen yet
//!      60     fetched requested since it was stored
//!      61     state   has the extension {access, stale, token sent} and {CAS that was asked for}
//!      62..64 heap    belong to the heap of a store
//! ```
//! The CAS value of an item is its first offset, unless it has the extension.

use crate::limits::{FREQUENCY_MAX, KEY_BYTES_MAX};
use crate::log::state::STATE_WORDS;

pub(crate) use crate::log::state::State;

const UNITS_BITS: u32 = 28;
const SLACK_SHIFT: u32 = UNITS_BITS;
const SLACK_BITS: u32 = 16;
const KEY_SHIFT: u32 = SLACK_SHIFT + SLACK_BITS;
const DEAD: u64 = 1 << 52;
const GIVEN: u64 = 1 << 53;
const META: u64 = 1 << 54;
const CAS: u64 = 1 << 55;
const FREQUENCY_SHIFT: u32 = 56;
const EARLY: u64 = 1 << 58;
const BUSY: u64 = 1 << 59;
const FETCHED: u64 = 1 << 60;
const STATE: u64 = 1 << 61;
const HEAP: u64 = 3 << 62;

const _: () = assert!(KEY_SHIFT + 8 == 52);
const _: () = assert!(FREQUENCY_MAX == 3);

/// Most bytes of an item's space that may be unused: a shorter value gets a new place.
pub(crate) const SLACK_BYTES_MAX: usize = (1 << SLACK_BITS) - 1;

/// The header word of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(pub u64);

/// Composition of an item, before it has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub meta: bool,
    pub state: bool,
    pub cas: bool,
}

impl Shape {
    /// Returns the words before the key, header included.
    #[inline]
    pub const fn key_word(self) -> usize {
        1 + self.meta as usize + STATE_WORDS * self.state as usize + self.cas as usize
    }

    /// Returns the bytes used, header included.
    #[inline]
    pub const fn bytes(self) -> usize {
        8 * self.key_word() + self.key_bytes + self.value_bytes
    }

    /// Returns the units of 8 bytes taken.
    #[inline]
    pub const fn units(self) -> u64 {
        self.bytes().div_ceil(8) as u64
    }

    /// Returns the header of such an item in a space of `units`, if it fits.
    #[inline]
    pub const fn header_in(self, units: u64) -> Option<Header> {
        let space = units as usize * 8;
        let bytes = self.bytes();
        if bytes > space || space - bytes > SLACK_BYTES_MAX {
            return None;
        }
        Some(Header(
            units
                | ((space - bytes) as u64) << SLACK_SHIFT
                | (self.key_bytes as u64) << KEY_SHIFT
                | if self.meta { META } else { 0 }
                | if self.state { STATE } else { 0 }
                | if self.cas { CAS } else { 0 },
        ))
    }
}

impl Header {
    /// Returns the header of a space whose item is still being written: not in the index.
    #[inline]
    pub const fn reserved(units: u64) -> Self {
        Self(units | DEAD | BUSY)
    }

    /// Returns the header of an empty space that the log steps over.
    #[inline]
    pub const fn filler(units: u64) -> Self {
        Self(units | DEAD)
    }

    /// Copies the bits of the heap from `old`.
    #[inline]
    pub const fn with_heap_bits_of(self, old: Self) -> Self {
        Self(self.0 & !HEAP | old.0 & HEAP)
    }

    /// Returns the requests counted since the item was stored or moved.
    #[inline]
    pub const fn frequency(self) -> u64 {
        self.0 >> FREQUENCY_SHIFT & FREQUENCY_MAX
    }

    #[inline]
    pub const fn with_frequency(self, frequency: u64) -> Self {
        Self(self.0 & !(FREQUENCY_MAX << FREQUENCY_SHIFT) | frequency << FREQUENCY_SHIFT)
    }

    /// Returns whether the item was removed before the head of its log passed it.
    #[inline]
    pub const fn left_early(self) -> bool {
        self.0 & EARLY != 0
    }

    #[inline]
    pub const fn with_left_early(self) -> Self {
        Self(self.0 | EARLY)
    }

    #[inline]
    pub const fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }

    #[inline]
    pub const fn with_busy(self) -> Self {
        Self(self.0 | BUSY)
    }

    #[inline]
    pub const fn units(self) -> u64 {
        self.0 & ((1 << UNITS_BITS) - 1)
    }

    #[inline]
    pub const fn key_bytes(self) -> usize {
        (self.0 >> KEY_SHIFT & 0xff) as usize
    }

    #[inline]
    pub const fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    #[inline]
    pub const fn cas_given(self) -> bool {
        self.0 & GIVEN != 0
    }

    #[inline]
    pub const fn has_meta(self) -> bool {
        self.0 & META != 0
    }

    #[inline]
    pub const fn has_cas(self) -> bool {
        self.0 & CAS != 0
    }

    /// Returns whether the item was requested since it was stored.
    #[inline]
    pub const fn is_fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    #[inline]
    pub const fn with_fetched(self, fetched: bool) -> Self {
        Self(self.0 & !FETCHED | if fetched { FETCHED } else { 0 })
    }

    #[inline]
    pub const fn has_state(self) -> bool {
        self.0 & STATE != 0
    }

    #[inline]
    pub const fn with_dead(self) -> Self {
        Self(self.0 | DEAD)
    }

    #[inline]
    pub const fn with_cas_given(self) -> Self {
        Self(self.0 | GIVEN)
    }

    /// Returns whether this is no item, but a free block of a store's heap.
    #[inline]
    pub const fn is_free_block(self) -> bool {
        self.0 >> 63 == 1
    }

    /// Returns whether this is the header of a whole, living item without state, and with a key of this
    /// length.
    #[inline(always)]
    pub const fn is_stateless(self, key_bytes: usize) -> bool {
        const KEY: u64 = 0xff << KEY_SHIFT;
        let looked_at = KEY | DEAD | BUSY | STATE | 1 << 63;
        key_bytes.wrapping_sub(1) < KEY_BYTES_MAX && self.0 & looked_at == (key_bytes as u64) << KEY_SHIFT
    }

    /// Returns the length of the value, if this is the header of a whole, living item with a key of this
    /// length and no extension, but for the CAS value that a store gives every item.
    #[inline(always)]
    pub const fn plain_value_bytes(self, key_bytes: usize, is_store: bool) -> Option<usize> {
        const KEY: u64 = 0xff << KEY_SHIFT;
        const LOOKED_AT: u64 = KEY | DEAD | BUSY | STATE | META | CAS | 1 << 63;
        let expected = (key_bytes as u64) << KEY_SHIFT | (is_store as u64) << CAS.trailing_zeros();
        if key_bytes.wrapping_sub(1) >= KEY_BYTES_MAX || self.0 & LOOKED_AT != expected {
            return None;
        }
        let slack = (self.0 >> SLACK_SHIFT) as usize & SLACK_BYTES_MAX;
        let before = 8 + 8 * is_store as usize + key_bytes;
        (self.units() as usize * 8).checked_sub(slack + before)
    }

    /// Returns whether a request would change neither the count nor the mark of being requested.
    #[inline(always)]
    pub const fn is_counted(self, frequency_max: u64) -> bool {
        let marks = frequency_max << FREQUENCY_SHIFT | FETCHED;
        self.0 & (FREQUENCY_MAX << FREQUENCY_SHIFT | FETCHED) == marks
    }

    /// Returns the header of the item with a value of another length in the same space, not requested yet,
    /// if it fits.
    #[inline(always)]
    pub const fn with_value_bytes(self, value_bytes: usize) -> Option<Self> {
        const UNITS: u64 = (1 << UNITS_BITS) - 1;
        const KEPT: u64 = UNITS | 0xff << KEY_SHIFT | META | CAS | STATE | HEAP;
        let used = 8 * self.key_word() + self.key_bytes() + value_bytes;
        let space = self.units() as usize * 8;
        if used > space || space - used > SLACK_BYTES_MAX {
            return None;
        }
        Some(Self(self.0 & KEPT | ((space - used) as u64) << SLACK_SHIFT))
    }

    /// Returns the header of a plain item ([`Self::plain_value_bytes`], the length now) like
    /// [`Self::with_value_bytes`], if no client knows its CAS value.
    #[inline(always)]
    pub const fn with_plain_value_bytes(self, now_bytes: usize, value_bytes: usize) -> Option<Self> {
        const UNITS: u64 = (1 << UNITS_BITS) - 1;
        const KEPT: u64 = UNITS | 0xff << KEY_SHIFT | CAS | HEAP;
        let space = ((self.0 >> SLACK_SHIFT) as usize & SLACK_BYTES_MAX) + now_bytes;
        // Less than none is more than all.
        let slack = space.wrapping_sub(value_bytes);
        if slack > SLACK_BYTES_MAX || self.cas_given() {
            return None;
        }
        Some(Self(self.0 & KEPT | (slack as u64) << SLACK_SHIFT))
    }

    /// Returns the word of the key, counted from the header.
    #[inline]
    pub const fn key_word(self) -> usize {
        let state = (self.0 >> STATE.trailing_zeros()) as usize & 1;
        1 + self.has_meta() as usize + STATE_WORDS * state + self.has_cas() as usize
    }

    /// Returns the word of the state, if the item has one, counted from the header.
    #[inline]
    pub const fn state_word(self) -> usize {
        1 + self.has_meta() as usize
    }

    /// Returns the length of the value, or `None` for a header that no item has: a torn read.
    #[inline]
    pub const fn value_bytes(self) -> Option<usize> {
        let slack = (self.0 >> SLACK_SHIFT) as usize & SLACK_BYTES_MAX;
        let used = 8 * self.key_word() + self.key_bytes();
        (self.units() as usize * 8).checked_sub(slack + used)
    }
}

/// Second of the caller's clock from which on an item is no longer returned; 0 = never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry(pub u32);

impl Expiry {
    /// The item does not expire.
    pub const NEVER: Self = Self(0);
    /// The item has expired already (memcached: a negative expiry).
    pub const PAST: Self = Self(1);

    /// Returns whether an item of this expiry has ended at `now_s`.
    #[inline]
    pub const fn has_passed(self, now_s: u32) -> bool {
        self.0 != 0 && self.0 <= now_s
    }
}

/// Packs the extension word of expiry and flags.
#[inline]
pub(crate) const fn pack_meta(expiry_s: u32, flags: u32) -> u64 {
    expiry_s as u64 | (flags as u64) << 32
}

/// Unpacks expiry and flags.
#[inline]
pub(crate) const fn unpack_meta(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

const _: () = assert!(KEY_BYTES_MAX <= 0xff);
const _: () = assert!(FETCHED << 1 == STATE && STATE << 1 == HEAP & HEAP.wrapping_neg());

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_header_restores_its_shape(
            key_bytes in 1usize..=250,
            value_bytes in 0usize..100_000,
            (meta, state, cas) in any::<(bool, bool, bool)>(),
            more in 0u64..8000,
        ) {
            let shape = Shape { key_bytes, value_bytes, meta, state, cas };
            let header = shape.header_in(shape.units() + more).unwrap();
            prop_assert_eq!(header.units(), shape.units() + more);
            prop_assert_eq!(header.key_bytes(), key_bytes);
            prop_assert_eq!(header.value_bytes(), Some(value_bytes));
            prop_assert_eq!((header.has_meta(), header.has_state(), header.has_cas()), (meta, state, cas));
            prop_assert_eq!(header.key_word(), shape.key_word());
            prop_assert!(!header.is_fetched() && header.with_fetched(true).is_fetched());
            prop_assert!(!header.is_dead() && !header.cas_given());
            prop_assert!(header.with_dead().is_dead() && header.with_cas_given().cas_given());
            prop_assert_eq!(shape.header_in(shape.units() - 1), None);
        }

        #[test]
        fn plain_headers_are_read_and_changed_like_any(
            (key_bytes, more_bytes) in (3usize..=250, 0usize..5),
            (value_bytes, next_bytes) in (0usize..200, 0usize..200),
            (meta, state, cas, is_store) in any::<(bool, bool, bool, bool)>(),
            (dead, given, busy) in any::<(bool, bool, bool)>(),
        ) {
            let asked_bytes = key_bytes + more_bytes - 2;
            let shape = Shape { key_bytes, value_bytes, meta, state, cas };
            let mut header = shape.header_in(shape.units() + 2).unwrap();
            header = if dead { header.with_dead() } else { header };
            header = if given { header.with_cas_given() } else { header };
            header = if busy { header.with_busy() } else { header };
            let is_plain = asked_bytes == key_bytes && !meta && !state && !dead && !busy && cas == is_store;
            let plain = header.plain_value_bytes(asked_bytes, is_store);
            prop_assert_eq!(plain, is_plain.then_some(value_bytes));
            if let Some(now_bytes) = plain {
                let changed = header.with_value_bytes(next_bytes).filter(|_| !given);
                prop_assert_eq!(header.with_plain_value_bytes(now_bytes, next_bytes), changed);
            }
            for frequency_max in 0..=FREQUENCY_MAX {
                let once = header.with_frequency(frequency_max).with_fetched(true);
                let never = once.with_fetched(false);
                prop_assert!(once.is_counted(frequency_max) && !never.is_counted(frequency_max));
            }
        }

        #[test]
        fn an_accepted_header_stays_within_its_space(word in any::<u64>()) {
            if let Some(value_bytes) = Header(word).value_bytes() {
                let end = Header(word).key_word() * 8 + Header(word).key_bytes() + value_bytes;
                prop_assert!(end <= Header(word).units() as usize * 8);
            }
        }
    }

    #[test]
    fn a_tiny_item_takes_24_bytes() {
        let shape = Shape { key_bytes: 8, value_bytes: 8, meta: false, state: false, cas: false };
        assert_eq!(shape.units() * 8, 24);
    }
}
