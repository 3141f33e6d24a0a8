//! Items of the prototypes: a header word, the key, the value, each from a word boundary on.

use std::sync::atomic::Ordering::Relaxed;

use micanite_memory::{Region, WORD_BYTES};

use super::two_lines::content;
use crate::Result;

/// Bytes of the prototypes' keys and values. The lookups take them from the header and from a
/// field at run time, as an engine has to.
pub(super) const KEY_BYTES: usize = 8;
pub(super) const VALUE_BYTES: usize = 8;
/// Words of an item of that size.
pub(super) const ITEM_WORDS: usize = 3;

const LINE_WORDS: usize = 8;
const KEY_LENGTH_BITS: u32 = 8;

#[inline]
pub(super) fn key_of(number: u64) -> [u8; KEY_BYTES] {
    number.to_le_bytes()
}

#[inline]
pub(super) fn value_of(number: u64) -> u64 {
    content(number)
}

/// Rule for the start of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// One behind the other.
    Packed,
    /// Follows the one before, but never crosses the end of a line.
    WithinLine,
    /// Each at the start of a line of its own.
    OwnLine,
}

impl Placement {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packed => "packed",
            Self::WithinLine => "never across lines",
            Self::OwnLine => "at the start of a line",
        }
    }

    /// Bytes of memory for an item.
    pub const fn bytes_per_item(self) -> usize {
        match self {
            Self::Packed => ITEM_WORDS * WORD_BYTES,
            Self::WithinLine => LINE_WORDS / (LINE_WORDS / ITEM_WORDS) * WORD_BYTES,
            Self::OwnLine => LINE_WORDS * WORD_BYTES,
        }
    }

    const fn place(self, word: usize) -> usize {
        let within = word % LINE_WORDS;
        match self {
            Self::Packed => word,
            Self::WithinLine if within + ITEM_WORDS <= LINE_WORDS => word,
            Self::WithinLine | Self::OwnLine => word.next_multiple_of(LINE_WORDS),
        }
    }
}

/// Bytes for `items`, and for the line before the first of them, where none is.
const fn space_bytes(items: usize, placement: Placement) -> usize {
    (LINE_WORDS * WORD_BYTES) + items * placement.bytes_per_item()
}

/// A space that items are appended to.
#[derive(Debug)]
pub(super) struct Items {
    region: Region,
    placement: Placement,
    /// First place to look for room for the next item; no item is at 0.
    end: usize,
}

impl Items {
    pub fn new(items: usize, placement: Placement) -> Result<Self> {
        Ok(Self { region: Region::private(space_bytes(items, placement))?, placement, end: LINE_WORDS })
    }

    /// Writes item `number` and returns its word.
    pub fn append(&mut self, number: u64) -> usize {
        let at = self.placement.place(self.end);
        let header = (VALUE_BYTES << KEY_LENGTH_BITS | KEY_BYTES) as u64;
        self.region.word(at).store(header, Relaxed);
        self.region.copy_in((at + 1) * WORD_BYTES, &key_of(number));
        self.region.copy_in((at + 2) * WORD_BYTES, &value_of(number).to_le_bytes());
        self.end = at + ITEM_WORDS;
        at
    }

    /// Starts loading the line where an item begins.
    #[inline]
    pub fn prefetch(&self, word: usize) {
        self.region.prefetch(word);
    }

    /// Starts loading the line where an item of this size ends.
    #[inline]
    pub fn prefetch_end(&self, word: usize) {
        self.region.prefetch(word + ITEM_WORDS - 1);
    }

    /// Tells whether the item at `word` has this key.
    #[inline]
    pub fn is(&self, word: usize, key: &[u8]) -> bool {
        let header = self.region.word(word).load(Relaxed) as usize;
        if header % (1 << KEY_LENGTH_BITS) != key.len() {
            return false;
        }
        // A key of one word is common enough for a way of its own: no loop, no tail.
        match <[u8; WORD_BYTES]>::try_from(key) {
            Ok(key) => self.region.word(word + 1).load(Relaxed) == u64::from_le_bytes(key),
            Err(_) => self.region.equals(word + 1, key),
        }
    }

    /// Copies the value of the item at `word` to `out`.
    #[inline]
    pub fn read(&self, word: usize, out: &mut [u8]) -> Option<u64> {
        let (first_byte, bytes) = self.value(word);
        let out = out.get_mut(..bytes)?;
        if let Ok(out) = <&mut [u8; WORD_BYTES]>::try_from(&mut *out) {
            let value = self.region.word(first_byte / WORD_BYTES).load(Relaxed);
            *out = value.to_le_bytes();
            return Some(value);
        }
        self.region.copy_out(first_byte, out);
        first_word(out)
    }

    /// Overwrites the value of the item at `word`, which is as long.
    #[inline]
    pub fn write(&self, word: usize, value: &[u8]) {
        let (first_byte, bytes) = self.value(word);
        assert_eq!(bytes, value.len());
        self.region.copy_in(first_byte, value);
    }

    /// The first byte and the length of a value.
    #[inline]
    fn value(&self, word: usize) -> (usize, usize) {
        let header = self.region.word(word).load(Relaxed) as usize;
        let key_words = (header % (1 << KEY_LENGTH_BITS)).div_ceil(WORD_BYTES);
        ((word + 1 + key_words) * WORD_BYTES, header >> KEY_LENGTH_BITS)
    }

    pub fn bytes_per_item(&self) -> f64 {
        self.placement.bytes_per_item() as f64
    }
}

/// The first word of a value, for the check.
#[inline]
pub(super) fn first_word(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_where_they_were_put() {
        for placement in [Placement::Packed, Placement::WithinLine, Placement::OwnLine] {
            let mut items = Items::new(100, placement).unwrap();
            let words: Vec<_> = (0..100).map(|number| items.append(number)).collect();
            for (number, word) in words.iter().enumerate() {
                let number = number as u64;
                let mut out = [0; VALUE_BYTES];
                assert_eq!(items.read(*word, &mut out), Some(value_of(number)));
                assert_eq!(u64::from_le_bytes(out), value_of(number));
                assert!(items.is(*word, &key_of(number)));
                assert!(!items.is(*word, &key_of(number + 1)));
                let crosses = word % LINE_WORDS + ITEM_WORDS > LINE_WORDS;
                assert!(placement == Placement::Packed || !crosses);
                assert!(placement != Placement::OwnLine || word % LINE_WORDS == 0);
            }
            assert!(items.end * WORD_BYTES <= space_bytes(100, placement));
        }
    }
}
