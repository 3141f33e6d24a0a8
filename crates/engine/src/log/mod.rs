//! A circular log (MICA 4.3.1): append at the tail, evict at the head.
//!
//! Offsets only grow. A lap begins at the first word of the log's space and ends where the next
//! item does not fit, so items are contiguous and the space may shrink between laps. From the head
//! to the tail the log is items without gaps. The writer publishes in this order: the advance of
//! the head, a fence, the bytes, then (by the caller) the index. A reader copies, fences, and loads
//! the head again.

pub(crate) mod item;
mod state;

use micanite_memory::sync::AtomicU64;
use micanite_memory::sync::Ordering::{Acquire, Relaxed, Release};

use crate::index::entry::Entry;
use crate::log::item::Header;
use crate::region::{Field, LogField, Region};

/// One of the two logs of a cache. It is a whole word: places are copied on the hot path, and words
/// that were written as bytes cannot be forwarded from the store buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum LogKind {
    Small = 0,
    Main = 1,
}

impl LogKind {
    #[inline]
    pub const fn of(bit: u64) -> Self {
        if bit == 0 { Self::Small } else { Self::Main }
    }
}

/// The line of a log in the header of a region.
#[derive(Clone, Copy)]
pub(crate) struct Log<'a> {
    region: &'a Region,
    /// Mask of the offsets in entries.
    offset_mask: u64,
    line: usize,
}

impl<'a> Log<'a> {
    #[inline]
    pub fn of(region: &'a Region, offset_mask: u64, which: LogKind) -> Self {
        let line = Field::SmallLog as usize + 8 * which as usize;
        Self { region, offset_mask, line }
    }

    #[inline]
    pub fn get(self, field: LogField) -> u64 {
        self.region.head_word(self.line + field as usize).load(Relaxed)
    }

    /// Only the writer may call it.
    #[inline]
    pub fn set(self, field: LogField, value: u64) {
        self.region.head_word(self.line + field as usize).store(value, Release);
    }

    /// Formats an empty log of `units` from the word `first` on. Offsets begin at one, so that no
    /// offset, and no CAS value, is zero.
    pub fn format(self, first: u64, units: u64) {
        self.set(LogField::First, first);
        self.set(LogField::Limit, units);
        for field in
            [LogField::Tail, LogField::Head, LogField::LapStart, LogField::LapBefore, LogField::Opened]
        {
            self.set(field, 1);
        }
    }

    /// Returns the offset of an entry of this log, if it can be one.
    #[inline]
    pub fn offset(self, entry: Entry) -> Option<u64> {
        let tail = self.get(LogField::Tail);
        let distance = entry.distance(tail, self.offset_mask);
        (distance != 0 && distance < tail).then(|| tail - distance)
    }

    /// Returns offset and position of an entry of this log, if it leads to an item that is still
    /// there and not flushed. For a reader that races with the writer the position may be anything;
    /// it is right if the head has not passed the offset afterwards.
    #[inline(always)]
    pub fn place(self, entry: Entry) -> Option<(u64, usize)> {
        let words: &[AtomicU64; 8] = self.region.array(self.line);
        let word = |field: LogField| words[field as usize].load(Relaxed);
        let tail = word(LogField::Tail);
        let distance = entry.distance(tail, self.offset_mask);
        let offset = tail.wrapping_sub(distance);
        // An empty entry may look like an offset: `is_empty` comes after the more frequent reasons.
        let live = offset >= word(LogField::Head) && offset >= word(LogField::FlushMark);
        if !live || distance == 0 || distance >= tail || entry.is_empty() {
            return None;
        }
        // A previous lap is published before its successor: this order gives a pair that was there
        // together, or one in which the offset has been evicted since.
        let lap = words[LogField::LapStart as usize].load(Acquire);
        let before = word(LogField::LapBefore);
        let start = if offset >= lap { lap } else { before };
        let first = word(LogField::First);
        let position = first.wrapping_add(offset).wrapping_sub(start) as usize;
        Some((offset, position))
    }

    /// Returns the distance of an offset behind the tail.
    #[inline]
    pub fn distance(self, offset: u64) -> u64 {
        self.get(LogField::Tail).wrapping_sub(offset)
    }

    /// Returns whether the log still holds `offset` (below the tail), and no flush came since.
    #[inline]
    pub fn is_live(self, offset: u64) -> bool {
        offset >= self.get(LogField::Head) && offset >= self.get(LogField::FlushMark)
    }

    /// Returns the word of the region that holds `offset`, which lies in the log. For a reader that
    /// races with the writer the result may be anything in or out of the region; it is right if the
    /// head has not passed the offset afterwards.
    #[inline]
    pub fn position(self, offset: u64) -> usize {
        // A previous lap is published before its successor: this order gives a pair that was there
        // together, or one in which the offset has been evicted since.
        let lap = self.region.word(self.line + LogField::LapStart as usize).load(Acquire);
        let start = if offset >= lap { lap } else { self.get(LogField::LapBefore) };
        (self.get(LogField::First).wrapping_add(offset).wrapping_sub(start)) as usize
    }

    /// Returns the end of the lap that holds an offset between head and tail.
    #[inline]
    pub fn end_of_lap(self, offset: u64) -> u64 {
        match self.get(LogField::LapStart) {
            lap if offset < lap => lap,
            _ => self.get(LogField::Tail),
        }
    }

    /// Returns whether a header leads from its offset to the next item, or to the end of the lap.
    /// In a damaged image it need not.
    #[inline]
    pub fn can_step(self, offset: u64, header: Header) -> bool {
        header.units() > 0 && header.units() <= self.end_of_lap(offset) - offset
    }

    /// Returns the units of the current lap that are taken.
    #[inline]
    pub fn lap_units(self) -> u64 {
        self.get(LogField::Tail) - self.get(LogField::LapStart)
    }

    /// Returns whether the head has left the units of the current lap up to `end_units`.
    #[inline]
    pub fn is_free_to(self, end_units: u64) -> bool {
        let head = self.get(LogField::Head);
        head >= self.get(LogField::LapStart) || head - self.get(LogField::LapBefore) >= end_units
    }

    /// Returns whether no item was ever evicted, for space or by a flush.
    #[inline]
    pub fn is_filling(self) -> bool {
        self.get(LogField::LapStart) == self.get(LogField::Head)
            && self.get(LogField::LapBefore) == self.get(LogField::Head)
    }

    /// Ends the space of the log at the word `end`. As long as items lie behind that, it makes the
    /// current lap the last one that reaches so far. Returns whether the space ends at `end`.
    pub fn lower_end(self, end: u64) -> bool {
        let first = self.get(LogField::First);
        let units = end - first;
        let lap_before_units = if self.get(LogField::Head) < self.get(LogField::LapStart) {
            self.get(LogField::LapStart) - self.get(LogField::LapBefore)
        } else {
            0
        };
        let limit = self.get(LogField::Limit);
        if self.lap_units().max(lap_before_units) <= units {
            if limit > units {
                self.set(LogField::Limit, units);
            }
            return true;
        }
        // One step for each lap, for more than one bucket: laps are long.
        let full = self.region.word(Field::DataEnd as usize).load(Relaxed) - first;
        if limit == full {
            self.set(LogField::Limit, units - units / LAP_SHARE);
        }
        false
    }
}

/// Share of a full log that it gives up to the index at a time.
pub(crate) const LAP_SHARE: u64 = 32;
