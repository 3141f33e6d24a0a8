//! When items were stored that do not say it themselves.
//!
//! Every item has its place in time: its offset in a log, or its stamp in a store. From time to time it is marked
//! how far these numbers have come, so that the first mark beyond an item's number says when it was there at
//! the latest. The marks are few: the older they are, the farther they lie from each other.

use std::sync::Mutex;

use crate::limits::AGE_MARKS_MAX;
use crate::log::LogKind;
use crate::log::item::Header;
use crate::partition::{Field, LogField, Partition, Place};

/// The tails of both logs, or the last stamp.
type Numbers = [u64; 2];

/// How far the numbers had come in a second.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at_s: u32,
    numbers: Numbers,
}

/// See the module. The marks are in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Ages(Mutex<Vec<Mark>>);

impl Ages {
    /// No marks, and room for all.
    pub fn new() -> Self {
        Self(Mutex::new(Vec::with_capacity(AGE_MARKS_MAX)))
    }

    /// Marks how far the numbers have come.
    fn note(&self, now_s: u32, numbers: Numbers) {
        // Nobody panics with the lock.
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

    /// The second of the first mark beyond a number; now, if there is none yet.
    fn find(&self, which: usize, number: u64, now_s: u32) -> u32 {
        let Ok(marks) = self.0.lock() else {
            return now_s;
        };
        let found = marks.iter().find(|mark| mark.numbers[which] > number);
        found.map_or(now_s, |mark| mark.at_s)
    }
}

/// The mark without which the next one tells of the least false age, in proportion to the true one.
fn least_needed(marks: &[Mark], now_s: u32) -> usize {
    let loss = |index: usize| {
        let before_s = marks[index - 1].at_s;
        let gap_s = marks[index + 1].at_s.saturating_sub(before_s);
        let age_s = now_s.saturating_sub(marks[index].at_s).max(1);
        f64::from(gap_s) / f64::from(age_s)
    };
    // The first one holds for all that was there when it was made.
    let all = 1..marks.len() - 1;
    let least = all.min_by(|one, other| loss(*one).total_cmp(&loss(*other)));
    least.unwrap_or(1)
}

impl Partition {
    /// To be called every second or so, by who may write.
    pub fn note_age(&self, now_s: u32) {
        let numbers = if self.is_store() {
            [self.get(Field::Stamp) + 1, 0]
        } else {
            [LogKind::Small, LogKind::Main].map(|which| self.log(which).get(LogField::Tail))
        };
        self.ages.note(now_s, numbers);
    }

    /// The second of an item's last access, if nobody has fetched it since it was stored: then, or when it was moved since. 0 if
    /// nobody can say: it was fetched, or, in a cache, overwritten in place.
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
    fn the_first_mark_beyond_a_number_says_when() {
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

    /// The answer is never before the truth, and behind it by less than half of the age.
    #[test]
    fn old_marks_lie_far_from_each_other() {
        const SECONDS: u32 = 20_000;
        let ages = Ages::new();
        for at_s in 1..=SECONDS {
            ages.note(at_s, [u64::from(at_s) * 10 + 10, 0]);
            assert!(ages.0.lock().unwrap().len() <= AGE_MARKS_MAX);
        }
        for at_s in 1..=SECONDS {
            let (age, told) = (SECONDS - at_s, ages.find(0, u64::from(at_s) * 10, SECONDS));
            assert!(told >= at_s, "{told} for {at_s}");
            assert!((told - at_s) * 2 <= age, "{told} for {at_s}");
        }
    }
}
