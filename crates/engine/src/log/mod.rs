//! The circular log (MICA 4.3.1): append at the tail, evict at the head.
//!
//! Offsets only grow; the place in memory is the offset modulo the size of the log, found by one
//! comparison with the offset at which the current lap began. The order in which things are
//! published: the advance of the head, a fence, the bytes, then the tail, then (by the caller)
//! the index. A reader copies, fences, and looks at the head again.

pub(crate) mod item;

use micanite_memory::sync::{Ordering, fence};

use crate::log::item::Header;
use crate::partition::Field;
use crate::writer::{Found, Writer};

impl Writer<'_> {
    /// Takes `units` at the tail and returns their offset; evicts what is in the way. With
    /// `keep`, the bytes of that item stay readable (by position) until the caller has written
    /// its copy, even when the item itself is evicted. `None` if the log is too small for both.
    #[inline]
    pub(crate) fn reserve(&self, units: u64, keep: Option<&Found>) -> Option<u64> {
        let p = self.partition;
        let log_units = p.layout.log_units;
        let mut offset = p.get(Field::Tail);
        if let Some(kept) = keep
            && kept.offset + log_units < offset + units
        {
            let behind = kept.offset + kept.header.units() + log_units;
            if kept.header.units() + units > log_units {
                return None;
            }
            self.step_over(offset, behind - offset);
            offset = behind;
        }
        self.claim(offset, units);
        Some(offset)
    }

    /// Fills the space up to an item that has to stay readable, that item included.
    #[cold]
    fn step_over(&self, offset: u64, units: u64) {
        let position = self.claim(offset, units);
        self.partition
            .log
            .word(position)
            .store(Header::filler(units).0, Ordering::Relaxed);
    }

    /// Makes `[offset, offset + units)` part of the log, `offset` being its tail. Returns where.
    #[inline]
    fn claim(&self, offset: u64, units: u64) -> usize {
        let p = self.partition;
        self.evict_to((offset + units).saturating_sub(p.layout.log_units));
        let lap_start = p.get(Field::LapStart);
        if offset >= lap_start + p.layout.log_units {
            p.set(Field::LapStart, lap_start + p.layout.log_units);
        }
        p.set(Field::Tail, offset + units);
        // What is written from here on comes after the advance of the head, for every reader.
        fence(Ordering::Release);
        self.at(offset)
    }

    /// Moves the head to the first item at or behind `offset`.
    #[inline]
    fn evict_to(&self, offset: u64) {
        let p = self.partition;
        let mut head = p.get(Field::Head);
        if head >= offset {
            return;
        }
        let flush_mark = p.get(Field::FlushMark);
        let (mut items, mut units) = (0, 0);
        while head < offset {
            let header = p.header(self.at(head));
            assert!(header.units() > 0, "the log cannot be walked");
            if !header.is_dead() && head >= flush_mark {
                items += 1;
                units += header.units();
            }
            head += header.units();
        }
        p.set(Field::Head, head);
        p.add(Field::EvictedLog, items);
        p.add(Field::ItemsLive, items.wrapping_neg());
        p.add(Field::UnitsLive, units.wrapping_neg());
    }

    /// The word of the log where `offset`, which lies in the log, is.
    #[inline]
    pub(crate) fn at(&self, offset: u64) -> usize {
        let p = self.partition;
        let position = offset.wrapping_sub(p.get(Field::LapStart));
        let wrapped = position.wrapping_add(p.layout.log_units);
        (if position > u64::MAX / 2 {
            wrapped
        } else {
            position
        }) as usize
    }
}
