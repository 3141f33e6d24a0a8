//! One-sided reads in flight.

use micanite_chunks::Entry;
use micanite_wire::native::KEY_BYTES_MAX;

/// Reads in flight per server.
pub(super) const READS_MAX: usize = 16;
/// Memory of all their buffers, as far as one read's fits.
const BYTES_MAX: usize = 64 << 20;

/// Progress of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Free,
    /// The endpoint was busy.
    Unposted,
    /// Record and chunk are being read.
    Chunk,
    /// The second header has not been posted, because the endpoint was busy.
    UnpostedHeader,
    /// The second header is being read.
    Header,
}

/// A read: the wanted item, and the buffers that it is read into.
#[derive(Debug)]
pub(super) struct Slot<B> {
    pub(super) step: Step,
    /// The operation has ended or asks by a message. The slot is free once the transfer has finished.
    pub(super) is_given_up: bool,
    pub(super) is_retry: bool,
    pub(super) token: u64,
    pub(super) hash: u64,
    pub(super) entry: Entry,
    pub(super) deadline_at: u64,
    pub(super) posted_at: u64,
    /// Time that the first read took, while the second header is being read.
    pub(super) lasted_ns: u64,
    /// Record and chunk. `None`: a transfer has it, or it was never needed.
    pub(super) chunk: Option<B>,
    pub(super) header: Option<B>,
    key: [u8; KEY_BYTES_MAX],
    key_bytes: u8,
}

impl<B> Slot<B> {
    fn new() -> Self {
        Self {
            step: Step::Free,
            is_given_up: false,
            is_retry: false,
            token: 0,
            hash: 0,
            entry: Entry { offset: 0, bytes: 0, version: 0 },
            deadline_at: 0,
            posted_at: 0,
            lasted_ns: 0,
            chunk: None,
            header: None,
            key: [0; KEY_BYTES_MAX],
            key_bytes: 0,
        }
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.key[..usize::from(self.key_bytes)]
    }
}

/// The reads of a connection.
#[derive(Debug)]
pub(super) struct Reads<B> {
    slots: Vec<Slot<B>>,
    free: Vec<u8>,
    /// Bits of the slots that are not free.
    taken: u32,
    /// Bits of the slots whose operations have gone elsewhere.
    given_up: u32,
    /// Bits of the slots that have to be posted again.
    pub(super) unposted: u32,
}

impl<B> Reads<B> {
    /// Creates the slots, whose buffers are allocated when they are first needed: fewer for longer ones.
    pub(super) fn new(buffer_bytes: usize) -> Self {
        let count = (BYTES_MAX / buffer_bytes.max(1)).clamp(1, READS_MAX);
        Self {
            slots: (0..count).map(|_| Slot::new()).collect(),
            free: (0..count as u8).rev().collect(),
            taken: 0,
            given_up: 0,
            unposted: 0,
        }
    }

    /// Takes a free slot for a key.
    #[inline]
    pub(super) fn take(&mut self, key: &[u8]) -> Option<usize> {
        let number = usize::from(self.free.pop()?);
        self.taken |= 1 << number;
        let slot = &mut self.slots[number];
        slot.key[..key.len()].copy_from_slice(key);
        slot.key_bytes = key.len() as u8;
        (slot.is_given_up, slot.is_retry) = (false, false);
        Some(number)
    }

    #[inline]
    pub(super) fn slot(&mut self, number: usize) -> &mut Slot<B> {
        &mut self.slots[number]
    }

    /// Returns whether a slot will become free when a read ends that somebody waits for.
    pub(super) fn are_useful(&self) -> bool {
        self.taken & !self.given_up != 0
    }

    /// Iterates over the slots of reads that somebody waits for.
    #[inline]
    pub(super) fn awaited(&self) -> Bits {
        Bits(self.taken & !self.given_up)
    }

    /// Lets an operation go elsewhere while its transfer is under way.
    pub(super) fn give_up(&mut self, number: usize) {
        self.slots[number].is_given_up = true;
        self.given_up |= 1 << number;
    }

    /// Frees a slot that no transfer uses.
    #[inline]
    pub(super) fn release(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        debug_assert!(slot.step != Step::Free);
        slot.step = Step::Free;
        let others = !(1 << number);
        self.taken &= others;
        self.given_up &= others;
        self.unposted &= others;
        self.free.push(number as u8);
    }
}

/// Numbers of the bits that are set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits(pub(super) u32);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let number = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that a read that was given up keeps its slot until it is released.
    #[test]
    fn slots_are_free_only_after_their_transfers() {
        let mut reads = Reads::<Vec<u8>>::new(1024);
        for number in 0..READS_MAX {
            assert_eq!(reads.take(b"key"), Some(number));
            reads.slot(number).step = Step::Chunk;
        }
        assert!(reads.take(b"key").is_none() && reads.are_useful());
        reads.give_up(3);
        assert!(reads.take(b"key").is_none());
        assert!(reads.awaited().all(|number| number != 3) && reads.awaited().count() == READS_MAX - 1);
        reads.release(3);
        assert_eq!(reads.take(b"other"), Some(3));
        assert_eq!(reads.slot(3).key(), b"other");
        assert!(!reads.slot(3).is_given_up);
        assert_eq!(Reads::<Vec<u8>>::new(40 << 20).free.len(), 1);
    }
}
