//! The lines that wait for one watcher: a bounded ring of words.
//!
//! Writers take turns by a flag, and give up after a few looks at it. The one reader needs no turn. The
//! ring takes its memory when the first watcher comes, and keeps it.

use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::line::LINE_BYTES_MAX;
use crate::output::Output;

/// Looks at the flag before a line is lost: another writer is done within a fraction of that.
const LOOKS_MAX: usize = 256;
/// Room for what tells of skipped lines.
const SKIPPED_BYTES_MAX: usize = 32;

/// Lines that wait for a watcher.
#[derive(Debug)]
pub(super) struct Ring {
    words: OnceLock<Box<[AtomicU64]>>,
    words_max: usize,
    /// Words written and read since the start.
    tail: AtomicU64,
    head: AtomicU64,
    writing: AtomicBool,
    skipped: AtomicU64,
}

/// Result of [`Ring::drain`].
pub(super) struct Drained {
    pub lines: u64,
    pub more: bool,
}

impl Ring {
    /// A ring of so many bytes, or of a few lines at least.
    pub fn new(bytes: usize) -> Self {
        Self {
            words: OnceLock::new(),
            words_max: (bytes / 8).max(4 * LINE_BYTES_MAX / 8),
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            writing: AtomicBool::new(false),
            skipped: AtomicU64::new(0),
        }
    }

    /// Forgets what is there. For the reader.
    pub fn clear(&self) {
        let words = self.words_max;
        self.words.get_or_init(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        let tail = self.tail.load(Ordering::Acquire);
        self.head.store(tail, Ordering::Release);
        self.skipped.store(0, Ordering::Relaxed);
    }

    fn word(&self, number: u64) -> Option<&AtomicU64> {
        let words = self.words.get()?;
        words.get((number % words.len() as u64) as usize)
    }

    /// Adds a line; false if it is lost, which the watcher is told.
    pub fn push(&self, line: &[u8]) -> bool {
        let mut looks = 0;
        while self.writing.swap(true, Ordering::Acquire) {
            looks += 1;
            if looks == LOOKS_MAX {
                self.skipped.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            spin_loop();
        }
        let written = self.write(line);
        self.writing.store(false, Ordering::Release);
        if !written {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
        written
    }

    /// A word with the length, then the bytes.
    fn write(&self, line: &[u8]) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        let used = tail - self.head.load(Ordering::Acquire);
        let needed = 1 + line.len().div_ceil(8) as u64;
        if used + needed > self.words_max as u64 || self.words.get().is_none() {
            return false;
        }
        let set = |number: u64, word: u64| {
            if let Some(place) = self.word(number) {
                place.store(word, Ordering::Relaxed);
            }
        };
        set(tail, line.len() as u64);
        for (number, chunk) in line.chunks(8).enumerate() {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            set(tail + 1 + number as u64, u64::from_le_bytes(bytes));
        }
        self.tail.store(tail + needed, Ordering::Release);
        true
    }

    /// Moves lines into the output, as far as there is room, and then says how many are missing
    /// behind them. For the reader.
    pub fn drain(&self, output: &mut Output<'_>) -> Drained {
        let mut lines = 0;
        loop {
            let head = self.head.load(Ordering::Relaxed);
            if output.room() < LINE_BYTES_MAX + SKIPPED_BYTES_MAX {
                return Drained { lines, more: true };
            }
            if head == self.tail.load(Ordering::Acquire) {
                break;
            }
            let get = |number: u64| {
                let word = self.word(number);
                word.map_or(0, |word| word.load(Ordering::Relaxed))
            };
            let bytes = get(head) as usize;
            let mut left = bytes;
            for number in 0..bytes.div_ceil(8) as u64 {
                let word = get(head + 1 + number).to_le_bytes();
                output.push(&word[..left.min(8)]);
                left -= left.min(8);
            }
            self.head.store(head + 1 + bytes.div_ceil(8) as u64, Ordering::Release);
            lines += 1;
        }
        let skipped = self.skipped.swap(0, Ordering::Relaxed);
        if skipped > 0 {
            output.push(format!("skipped={skipped}\n").as_bytes());
        }
        Drained { lines, more: false }
    }
}
