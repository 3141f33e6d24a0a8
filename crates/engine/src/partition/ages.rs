//! Storage times of items that do not record them.
//!
//! Every item has a number that grows with time: its offset in a log, or its stamp in a store.
//! Marks record how far these numbers have come. The first mark beyond an item's number gives the
//! latest second at which the item was stored. Marks are few: the older they are, the farther
//! apart.

use std::sync::Mutex;

use crate::limits::AGE_MARKS_MAX;
use crate::log::LogKind;
use crate::log::item::Header;
use crate::partition::{Partition, Place};
use crate::region::{Field, LogField};

/// The tails of both logs, or the last stamp.
type Numbers = [u64; 2];

/// The numbers that had been reached in a second.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at_s: u32,
    numbers: Numbers,
}

/// Marks in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Ages(Mutex<Vec<Mark>>);

impl Ages {
    /// Makes an empty list with capacity for all marks.
    pub fn new() -> Self {
        Self(Mutex::new(Vec::with_capacity(AGE_MARKS_MAX)))
    }

    /// Records the numbers that have been reached.
    fn note(&self, now_s: u32, numbers: Numbers) {
        // No holder of the lock panics.
        let Ok(mut marks) = self.0.lock() else { return };
        match marks.last_mut() {
            Some(last) if last.numbers == numbers => return,
            Some(last) if last.at_s == now_s => return last.numbers = numbers,
            _ => {}
        }
        if marks.len() == AGE_MARKS_MAX {
            let least = least_needed(&marks, now_s);
            marks.remove(least);
        }
        let at_s = now_s;
        marks.push(Mark { at_s, numbers });
    }

    /// Returns the second of the first mark beyond a number, or now if there is none yet.
    fn find(&self, which: usize, number: u64, now_s: u32) -> u32 {
        let Ok(marks) = self.0.lock() else {
            return now_s;
        };
        let found = marks.iter().find(|mark| mark.numbers[which] > number);
        found.map_or(now_s, |mark| mark.at_s)
    }
}

/// Returns the mark whose removal adds the least error to an age, in proportion to that age.
fn least_needed(marks: &[Mark], now_s: u32) -> usize {
    let loss = |index: usize| {
        let before_s = marks[index - 1].at_s;
        let gap_s = marks[index + 1].at_s.saturating_sub(before_s);
        let age_s = now_s.saturating_sub(marks[index].at_s).max(1);
        f64::from(gap_s) / f64::from(age_s)
    };
    // The first mark covers all items that were there when it was made.
    let all = 1..marks.len() - 1;
    let least = all.min_by(|one, other| loss(*one).total_cmp(&loss(*other)));
    least.unwrap_or(1)
}

impl Partition {
    /// Records a mark. The caller has the right to write, and calls this about once a second.
    pub fn note_age(&self, now_s: u32) {
        let numbers = if self.is_store() {
            [self.get(Field::Stamp) + 1, 0]
        } else {
            [LogKind::Small, LogKind::Main].map(|which| self.log(which).get(LogField::Tail))
        };
        self.ages.note(now_s, numbers);
    }

    /// Returns the second of the last access to an item that was not fetched since it was stored:
    /// the second in which it was stored, or moved since. Returns 0 if that is unknown: the item
    /// was fetched, or, in a cache, overwritten in place.
    pub fn unfetched_since_s(&self, place: &Place, header: Header, now_s: u32) -> u32 {
        if header.is_fetched() {
            return 0;
        }
        if self.is_store() {
            let stamp = self.word(place.position + header.key_word() - 1);
            let stamp = stamp.load(micanite_memory::sync::Ordering::Relaxed);
            return self.ages.find(0, stamp, now_s);
        }
        // An overwrite in place counts a request, and has no stamp to renew.
        if header.frequency() > 0 {
            return 0;
        }
        self.ages.find(place.log as usize, place.offset, now_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mark_beyond_a_number_gives_its_second() {
        let ages = Ages::new();
        assert_eq!(ages.find(0, 1, 77), 77);
        ages.note(100, [10, 1]);
        ages.note(100, [20, 1]);
        ages.note(105, [20, 1]);
        ages.note(110, [30, 5]);
        for (number, at_s) in [(1, 100), (19, 100), (20, 110), (29, 110), (30, 200)] {
            assert_eq!(ages.find(0, number, 200), at_s, "{number}");
        }
        assert_eq!(ages.find(1, 1, 200), 110);
    }

    /// Proves that an age is never too large, and too small by less than half.
    #[test]
    fn old_marks_lie_far_from_each_other() {
        const SECONDS: u32 = 20_000;
        let ages = Ages::new();
        for at_s in 1..=SECONDS {
            ages.note(at_s, [u64::from(at_s) * 10 + 10, 0]);
            assert!(ages.0.lock().unwrap().len() <= AGE_MARKS_MAX);
        }
        for at_s in 1..=SECONDS {
            let (age, found_s) = (SECONDS - at_s, ages.find(0, u64::from(at_s) * 10, SECONDS));
            assert!(found_s >= at_s, "{found_s} for {at_s}");
            assert!((found_s - at_s) * 2 <= age, "{found_s} for {at_s}");
        }
    }
}
