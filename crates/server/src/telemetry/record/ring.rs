//! The entries of one worker that wait to be written: a bounded ring of words.
//!
//! One thread writes at a time, the worker or whoever executes a request for it meanwhile, and one reads.
//! The ring takes its memory when the first recording begins, and keeps it.

use std::sync::OnceLock;

use micanite_memory::sync::{AtomicU64, Ordering};
use micanite_workload::recording::{RECORD_BYTES, Record};

use crate::limits::RECORDING_RING_BYTES;

/// In the models two entries fill it.
const WORDS: u64 = match cfg!(loom) {
    false => (RECORDING_RING_BYTES / 8) as u64,
    true => 8,
};
const RECORD_WORDS: u64 = (RECORD_BYTES / 8) as u64;
const _: () = assert!(WORDS.is_power_of_two() && RECORD_BYTES.is_multiple_of(8));

/// Facts about an entry beside its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// Number of the recording.
    pub generation: u16,
    /// Microseconds since that began, the lower 40 bits.
    pub time_us: u64,
}

impl Tag {
    const TIME_MASK: u64 = (1 << 40) - 1;

    fn word(self, prefix_bytes: usize) -> u64 {
        u64::from(self.generation) | (prefix_bytes as u64) << 16 | self.time_us << 24
    }

    /// The tag and the length of the prefix.
    fn of_word(word: u64) -> (Self, usize) {
        let tag = Self { generation: word as u16, time_us: word >> 24 & Self::TIME_MASK };
        (tag, usize::from((word >> 16) as u8))
    }
}

/// The entries of a worker that wait for the recorder's thread.
#[derive(Debug, Default)]
pub(super) struct Ring {
    words: OnceLock<Box<[AtomicU64]>>,
    tail: Position,
    head: Position,
}

/// Words written or read since the start; on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Position(AtomicU64);

impl Ring {
    /// Forgets what is there. For the reader.
    pub fn clear(&self) {
        self.words.get_or_init(|| (0..WORDS).map(|_| AtomicU64::new(0)).collect());
        let tail = self.tail.0.load(Ordering::Acquire);
        self.head.0.store(tail, Ordering::Release);
    }

    /// Adds an entry: a record, and the prefix of its key, which is a part of the key. False if there is no
    /// room.
    pub fn push(&self, tag: Tag, record: &Record, prefix: &[u8]) -> bool {
        let Some(words) = self.words.get() else {
            return false;
        };
        let tail = self.tail.0.load(Ordering::Relaxed);
        let used = tail - self.head.0.load(Ordering::Acquire);
        let needed = 1 + RECORD_WORDS + prefix.len().div_ceil(8) as u64;
        if used + needed > WORDS {
            return false;
        }
        let set = |place: u64, word: u64| {
            words[(place & (WORDS - 1)) as usize].store(word, Ordering::Relaxed);
        };
        set(tail, tag.word(prefix.len()));
        let bytes = record.to_bytes();
        for (number, part) in bytes.chunks(8).chain(prefix.chunks(8)).enumerate() {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            set(tail + 1 + number as u64, u64::from_le_bytes(word));
        }
        self.tail.0.store(tail + needed, Ordering::Release);
        true
    }

    /// Takes the entries of a recording, and drops those of an earlier one. For the reader.
    pub fn drain(&self, generation: u16, mut take: impl FnMut(Tag, Record, &[u8])) {
        let Some(words) = self.words.get() else {
            return;
        };
        let get = |place: u64| {
            let word = words[(place & (WORDS - 1)) as usize].load(Ordering::Relaxed);
            word.to_le_bytes()
        };
        let end = self.tail.0.load(Ordering::Acquire);
        let mut head = self.head.0.load(Ordering::Relaxed);
        let mut prefix = [0; 256];
        while head != end {
            let (tag, prefix_bytes) = Tag::of_word(u64::from_le_bytes(get(head)));
            let mut bytes = [0; RECORD_BYTES];
            let prefix_at = head + 1 + RECORD_WORDS;
            for (place, part) in (head + 1..).zip(bytes.chunks_exact_mut(8)) {
                part.copy_from_slice(&get(place));
            }
            for (place, part) in (prefix_at..).zip(prefix.chunks_exact_mut(8).take(prefix_bytes.div_ceil(8)))
            {
                part.copy_from_slice(&get(place));
            }
            head = prefix_at + prefix_bytes.div_ceil(8) as u64;
            self.head.0.store(head, Ordering::Release);
            if tag.generation == generation
                && let Some(record) = Record::from_bytes(&bytes)
            {
                take(tag, record, &prefix[..prefix_bytes]);
            }
        }
    }
}

/// `scripts/test/loom`: every interleaving of this file's own code.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    use loom::sync::Arc;
    use loom::thread;
    use micanite_workload::recording::{Operation, Outcome};

    const ENTRIES: u64 = 4;

    fn entry(number: u64, generation: u16) -> (Tag, Record) {
        let record = Record {
            key_hash: number << 32 | number,
            time_ms: number as u32,
            value_bytes: Some(number as u32),
            expiry_s: None,
            prefix: 0,
            key_bytes: number as u8,
            operation: Operation::Set,
            outcome: Outcome::Hit,
        };
        let time_us = number << 20 | number;
        (Tag { generation, time_us }, record)
    }

    /// A worker notes entries while another thread takes them: each that found room comes out once,
    /// whole and in order, across the end of the ring.
    #[test]
    fn loom_entries_come_out_whole_and_in_order() {
        // Number of executions in which so many entries found room.
        let found_room = std::sync::Arc::new([const { AtomicUsize::new(0) }; 1 + ENTRIES as usize]);
        let counts = std::sync::Arc::clone(&found_room);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let ring = Arc::new(Ring::default());
            ring.clear();
            let reader = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    let mut taken = take(&ring, 1);
                    taken.extend(take(&ring, 1));
                    taken
                })
            };
            // loom looks for races with the last access to a place alone: those of the thread that
            // began last are found, so the worker is the first one.
            let pushed: Vec<_> = (1..=ENTRIES).filter(|number| push(&ring, *number, 1)).collect();
            let mut taken = reader.join().unwrap();
            taken.extend(take(&ring, 1));
            assert_eq!(taken, pushed);
            counts[pushed.len()].fetch_add(1, Ordering::Relaxed);
        });
        let explored = found_room.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert!(explored[2..].iter().all(|count| *count > 0), "{explored:?}");
    }

    /// A recording begins while a worker still notes for the one before: none of that comes out.
    #[test]
    fn loom_a_cleared_ring_has_nothing_of_the_recording_before() {
        let taken_after = std::sync::Arc::new([const { AtomicUsize::new(0) }; 2]);
        let counts = std::sync::Arc::clone(&taken_after);
        loom::model(move || {
            let ring = Arc::new(Ring::default());
            ring.clear();
            let reader = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    ring.clear();
                    take(&ring, 2)
                })
            };
            assert!(push(&ring, 1, 1) && push(&ring, 2, 2));
            let mut taken = reader.join().unwrap();
            taken.extend(take(&ring, 2));
            assert!(matches!(taken[..], [] | [2]), "{taken:?}");
            counts[taken.len()].fetch_add(1, Ordering::Relaxed);
        });
        let explored = taken_after.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert!(explored.iter().all(|count| *count > 0), "{explored:?}");
    }

    fn push(ring: &Ring, number: u64, generation: u16) -> bool {
        let (tag, record) = entry(number, generation);
        ring.push(tag, &record, b"")
    }

    fn take(ring: &Ring, generation: u16) -> Vec<u64> {
        let mut taken = Vec::new();
        ring.drain(generation, |tag, record, _| {
            let number = record.key_hash >> 32;
            assert_eq!((tag, record), entry(number, generation));
            taken.push(number);
        });
        taken
    }
}
