//! Limits of one line: read, read and written, and written beside an append.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use micanite_memory::Region;

use super::pipeline::{Lookup, Schedule};
use super::two_lines::{below, mix};
use crate::Result;

const LINE_WORDS: usize = 8;

/// Operation on each random line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// One word is read: what a GET of an item inside its bucket needs.
    Read,
    /// One word is read and another written: a SET of such an item.
    ReadWrite,
    /// One word is read and written, and a line appended elsewhere: a SET to a log.
    Append,
}

impl Access {
    pub const ALL: [Self; 3] = [Self::Read, Self::ReadWrite, Self::Append];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "one line read",
            Self::ReadWrite => "one line read and written",
            Self::Append => "a line appended, one read and written",
        }
    }
}

/// Lines at random, and a log.
pub(super) struct Lines {
    lines: Region,
    line_count: u64,
    log: Region,
    log_at: Cell<usize>,
    next: u64,
}

/// One access as a lookup, whose second stage has nothing to do.
struct Touch<'a, const WRITE: bool, const APPEND: bool>(&'a Lines);

impl Lines {
    /// Creates as many lines as fit `bytes`, and a log of the same size.
    pub fn new(bytes: usize) -> Result<Self> {
        let lines = Self {
            lines: Region::private(bytes)?,
            line_count: (bytes / 64) as u64,
            log: Region::private(bytes)?,
            log_at: Cell::new(0),
            next: 0,
        };
        for line in 0..lines.line_count as usize {
            lines.lines.word(line * LINE_WORDS).store(line as u64, Relaxed);
            lines.log.word(line * LINE_WORDS).store(0, Relaxed);
        }
        Ok(lines)
    }

    /// Time of `operations`, each begun two `distance`s ahead.
    ///
    /// # Errors
    /// When a word was not what had been written there.
    pub fn run(&mut self, access: Access, distance: usize, operations: usize) -> Result<Duration> {
        let first = self.next;
        self.next += operations as u64;
        let number = |at: usize| first + at as u64;
        let schedule = Schedule::Rolling(distance);
        let start = Instant::now();
        let found = match access {
            Access::Read => schedule.run(&Touch::<false, false>(self), operations, number),
            Access::ReadWrite => schedule.run(&Touch::<true, false>(self), operations, number),
            Access::Append => schedule.run(&Touch::<true, true>(self), operations, number),
        };
        let elapsed = start.elapsed();
        let expected =
            (0..operations).fold(0, |sum: u64, at| sum.wrapping_add(below(mix(number(at)), self.line_count)));
        if found.sum != expected {
            return Err(format!("{}: a word was not what had been written", access.name()).into());
        }
        Ok(elapsed)
    }

    /// Time of `operations` of which each needs the word that the one before has read.
    ///
    /// # Errors
    /// When a word was not what had been written there.
    pub fn run_dependent(&mut self, operations: usize) -> Result<Duration> {
        let first = self.next;
        self.next += operations as u64;
        let walk = |read: &dyn Fn(u64) -> u64| {
            (first..first + operations as u64)
                .fold(0, |last: u64, number| read(below(mix(last ^ number << 32), self.line_count)))
        };
        let start = Instant::now();
        let last = walk(&|line| self.lines.word(line as usize * LINE_WORDS).load(Relaxed));
        let elapsed = start.elapsed();
        if last != walk(&|line| line) {
            return Err("dependent loads: a word was not what had been written".into());
        }
        Ok(elapsed)
    }

    /// Writes one line behind the last.
    #[inline]
    fn append(&self, value: u64) {
        let at = self.log_at.get();
        for word in at..at + LINE_WORDS {
            self.log.word(word).store(value, Relaxed);
        }
        let next = at + LINE_WORDS;
        let end = self.line_count as usize * LINE_WORDS;
        self.log_at.set(if next < end { next } else { 0 });
    }
}

impl<const WRITE: bool, const APPEND: bool> Lookup for Touch<'_, WRITE, APPEND> {
    type Slot = usize;

    #[inline]
    fn start(&self, number: u64) -> usize {
        let word = below(mix(number), self.0.line_count) as usize * LINE_WORDS;
        self.0.lines.prefetch(word);
        word
    }

    #[inline]
    fn middle(&self, _slot: &mut usize) {}

    #[inline]
    fn finish(&self, slot: &usize, _out: &mut [u8]) -> Option<u64> {
        let value = self.0.lines.word(*slot).load(Relaxed);
        if APPEND {
            self.0.append(value);
        }
        if WRITE {
            self.0.lines.word(*slot + 1).store(value, Relaxed);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_access_reads_what_was_written() {
        let mut lines = Lines::new(1 << 16).unwrap();
        for access in Access::ALL {
            lines.run(access, 8, 3000).unwrap();
        }
        lines.run_dependent(3000).unwrap();
        assert_ne!(lines.log_at.get(), 0);
        let written = |word: &usize| lines.lines.word(word + 1).load(Relaxed) == (word / 8) as u64;
        assert!((8..1 << 13).step_by(8).filter(written).count() > 900);
    }

    #[test]
    fn a_changed_word_is_noticed() {
        let mut lines = Lines::new(1 << 16).unwrap();
        lines.lines.word(0).store(7, Relaxed);
        assert!(lines.run(Access::Read, 8, 20_000).is_err());
        for line in 0..lines.line_count as usize {
            lines.lines.word(line * LINE_WORDS).store(7, Relaxed);
        }
        assert!(lines.run_dependent(1000).is_err());
    }
}
