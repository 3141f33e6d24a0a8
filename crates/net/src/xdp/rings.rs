//! The four rings of an AF_XDP socket: power-of-two arrays in memory that is shared with the
//! kernel. Each has one producer and one consumer, whose positions only grow, wrapping at 2^32.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingMemory<T> {
    /// Position of the producer.
    pub(super) producer: NonNull<AtomicU32>,
    /// Position of the consumer.
    pub(super) consumer: NonNull<AtomicU32>,
    pub(super) flags: NonNull<AtomicU32>,
    pub(super) entries: NonNull<T>,
    /// A power of two.
    pub(super) size: u32,
}

impl<T: Copy> RingMemory<T> {
    fn entry(&self, position: u32) -> *mut T {
        let index = position & (self.size - 1);
        self.entries.as_ptr().wrapping_add(index as usize)
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: it is mapped as long as this is in use (the contract of `new`), and atomic.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    fn flags(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed)
    }
}

/// Our end of a ring that the kernel consumes.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: RingMemory<T>,
    /// Position after the last written entry. The kernel sees it after [`Self::publish`].
    written: u32,
    /// Position of the consumer at the last look.
    consumed: u32,
}

impl<T: Copy> Producer<T> {
    /// # Safety
    /// The ring is mapped and writable as long as this lives, its size is a power of two, and
    /// nobody else produces.
    pub(super) unsafe fn new(ring: RingMemory<T>) -> Self {
        Self {
            ring,
            written: ring.producer().load(Ordering::Relaxed),
            consumed: ring.consumer().load(Ordering::Acquire),
        }
    }

    /// Returns how many entries can be pushed. Looks at the consumer only if fewer than `wanted`
    /// are known to be free.
    #[inline]
    pub(super) fn free(&mut self, wanted: u32) -> u32 {
        let free = self.ring.size - self.written.wrapping_sub(self.consumed);
        if free >= wanted {
            return free;
        }
        self.ring.size - self.unconsumed()
    }

    /// Returns how many entries the kernel has not taken yet.
    #[inline]
    pub(super) fn unconsumed(&mut self) -> u32 {
        self.consumed = self.ring.consumer().load(Ordering::Acquire);
        self.written.wrapping_sub(self.consumed)
    }

    /// Writes one entry, if there is room.
    #[inline]
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.free(1) == 0 {
            return false;
        }
        // SAFETY: within the ring by the mask, and the consumer has left it.
        unsafe { self.ring.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
        true
    }

    /// Publishes the pushed entries to the kernel.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.written, Ordering::Release);
    }

    /// Returns whether the kernel has to be woken (need-wakeup).
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.flags() & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Our end of a ring that the kernel fills.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: RingMemory<T>,
    read: u32,
    /// Position of the producer at the last look.
    produced: u32,
}

impl<T: Copy> Consumer<T> {
    /// # Safety
    /// The same as for [`Producer::new`]: nobody else consumes.
    pub(super) unsafe fn new(ring: RingMemory<T>) -> Self {
        Self {
            ring,
            read: ring.consumer().load(Ordering::Relaxed),
            produced: ring.producer().load(Ordering::Acquire),
        }
    }

    /// Returns how many entries are available, at most `most`. Looks at the producer only if fewer
    /// are known.
    #[inline]
    pub(super) fn available(&mut self, most: u32) -> u32 {
        if self.produced.wrapping_sub(self.read) < most {
            self.produced = self.ring.producer().load(Ordering::Acquire);
        }
        self.produced.wrapping_sub(self.read).min(most)
    }

    /// Returns the next entry. [`Self::available`] has confirmed that there is one.
    #[inline]
    pub(super) fn pop(&mut self) -> T {
        debug_assert!(self.read != self.produced);
        // SAFETY: within the ring by the mask; any bits are a T, which is of integers.
        let entry = unsafe { self.ring.entry(self.read).read() };
        self.read = self.read.wrapping_add(1);
        entry
    }

    /// Releases the popped entries to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        self.ring.consumer().store(self.read, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// A ring in own memory, whose positions begin anywhere.
    struct Memory {
        words: Box<[AtomicU32; 3]>,
        entries: Box<[u64]>,
    }

    impl Memory {
        fn new(start: u32, size: usize) -> Self {
            Self { words: Box::new([start.into(), start.into(), 0.into()]), entries: vec![0; size].into() }
        }

        fn ends(&mut self) -> (Producer<u64>, Consumer<u64>) {
            let ring = RingMemory {
                producer: NonNull::from(&self.words[0]),
                consumer: NonNull::from(&self.words[1]),
                flags: NonNull::from(&self.words[2]),
                size: self.entries.len() as u32,
                entries: NonNull::from(&mut *self.entries).cast(),
            };
            // SAFETY: the memory outlives both, and each is the only one of its kind.
            let producer = unsafe { Producer::new(ring) };
            // SAFETY: as above.
            (producer, unsafe { Consumer::new(ring) })
        }
    }

    proptest! {
        #[test]
        fn published_entries_arrive_in_order_within_capacity(
            start in prop_oneof![Just(0), Just(u32::MAX - 3), any::<u32>()],
            steps in proptest::collection::vec((0u32..12, any::<bool>(), 0u32..12), 1..60),
        ) {
            let mut memory = Memory::new(start, 8);
            let (mut producer, mut consumer) = memory.ends();
            let (mut next, mut pushed, mut published) = (0u64, VecDeque::new(), VecDeque::new());
            let mut unreleased = 0;
            for (push, publish, pop) in steps {
                for _ in 0..push {
                    let fits = pushed.len() + published.len() + unreleased < 8;
                    prop_assert_eq!(producer.push(next), fits);
                    if fits {
                        pushed.push_back(next);
                        next += 1;
                    }
                }
                if publish {
                    producer.publish();
                    published.append(&mut pushed);
                }
                let available = consumer.available(pop);
                prop_assert_eq!(available as usize, published.len().min(pop as usize));
                for _ in 0..available {
                    prop_assert_eq!(Some(consumer.pop()), published.pop_front());
                    unreleased += 1;
                }
                if publish {
                    consumer.release();
                    unreleased = 0;
                    prop_assert_eq!(producer.unconsumed() as usize, pushed.len() + published.len());
                }
            }
        }
    }

    #[test]
    fn two_threads_transfer_entries_in_order() {
        let mut memory = Memory::new(u32::MAX - 100, 16);
        let (mut producer, mut consumer) = memory.ends();
        std::thread::scope(|scope| {
            let producer = SendProducer(&mut producer);
            scope.spawn(move || {
                let SendProducer(producer) = { producer };
                for number in 0..10_000 {
                    while !producer.push(number) {
                        std::thread::yield_now();
                    }
                    producer.publish();
                }
            });
            let mut expected = 0;
            while expected < 10_000 {
                let available = consumer.available(8);
                for _ in 0..available {
                    assert_eq!(consumer.pop(), expected);
                    expected += 1;
                }
                consumer.release();
                if available == 0 {
                    std::thread::yield_now();
                }
            }
        });
    }

    struct SendProducer<'a>(&'a mut Producer<u64>);
    // SAFETY: the ring's positions are atomics, and one thread has each end.
    unsafe impl Send for SendProducer<'_> {}
}
