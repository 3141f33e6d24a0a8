//! Flushes, and invalidation of namespaces: both concern all partitions. A scheduled flush is part of the
//! image, because it was acknowledged: the next process does it.

use micanite_memory::sync::Ordering;

use crate::access::lock::Turn;
use crate::cache::Cache;
use crate::region::{Field, Word};
use crate::worker::Worker;
use crate::writer::Writer;

impl Cache {
    /// Returns the second of a scheduled flush, 0 = none.
    #[inline]
    pub(crate) fn flush_due_s(&self) -> u32 {
        self.flush_due().load(Ordering::Acquire) as u32
    }

    #[inline]
    fn flush_due(&self) -> Word<'_> {
        self.partitions[0].word(Field::FlushDue as usize)
    }

    /// Does a scheduled flush whose second has come. A worker does that before it serves. Call this before
    /// others read the memory and no worker runs yet.
    pub fn flush_if_due(&self, now_s: u32) {
        self.flush_if_due_in(&self.flushing.wait(|| {}), now_s, || {});
    }

    fn flush_if_due_in(&self, turn: &Turn<'_>, now_s: u32, idle: impl Fn()) {
        let due_s = self.flush_due_s();
        if due_s != 0 && due_s <= now_s {
            self.flush(turn, now_s, idle);
            self.flush_due().store(0, Ordering::Release);
        }
    }

    fn flush(&self, _turn: &Turn<'_>, now_s: u32, idle: impl Fn()) {
        for partition in 0..self.partitions.len() {
            self.with_writer(partition, now_s, &idle, |writer| writer.flush());
        }
    }
}

impl Worker {
    /// Makes everything stored until the second `at_s` unreachable. If that second has come (`at_s
    /// <= now_s`), the flush is done when this returns. Otherwise the first worker that executes a
    /// request from that second on does it before. A later call replaces a scheduled flush.
    pub fn flush_all(&mut self, at_s: u32, now_s: u32) {
        let turn = self.turn(&self.cache.flushing);
        let due = self.cache.flush_due();
        if at_s <= now_s {
            self.cache.flush(&turn, now_s, || self.serve_mailbox());
            due.store(0, Ordering::Release);
        } else {
            self.cache.flush_if_due_in(&turn, now_s, || self.serve_mailbox()); // nobody has come to do it yet
            if self.cache.has_area() {
                for partition in 0..self.cache.partitions.len() {
                    self.with_writer(partition, now_s, |writer| writer.set_flush_due(Some(at_s)));
                }
            }
            due.store(at_s.into(), Ordering::Release);
        }
    }

    #[inline]
    pub(super) fn flush_if_due(&mut self, now_s: u32) {
        let due_s = self.cache.flush_due_s();
        if due_s != 0 && due_s <= now_s {
            self.flush_in_turn(now_s);
        }
    }

    /// Flushes, or waits until another worker has: no worker serves an unflushed partition.
    #[cold]
    fn flush_in_turn(&mut self, now_s: u32) {
        let turn = self.turn(&self.cache.flushing);
        self.cache.flush_if_due_in(&turn, now_s, || self.serve_mailbox());
    }

    /// Invalidates all keys that begin with `name` and the delimiter of namespaces: items stored
    /// under them until now are no longer found. Takes constant time.
    ///
    /// # Errors
    /// Too many namespaces were invalidated lately: there is no room for another record.
    pub fn invalidate_namespace(&mut self, name: &[u8], now_s: u32) -> Result<(), crate::TooManyNamespaces> {
        (0..self.cache.partitions.len()).try_for_each(|partition| {
            self.with_writer(partition, now_s, |writer| writer.invalidate_namespace(name))
        })
    }

    /// Runs `run` with the right to write a partition, whoever owns it.
    fn with_writer<R>(&self, partition: usize, now_s: u32, run: impl FnOnce(&Writer<'_>) -> R) -> R {
        let idle = || self.serve_mailbox();
        self.cache.with_writer(partition, now_s, idle, run)
    }
}
