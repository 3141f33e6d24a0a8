//! Histories of one-sided reads: they keep chunks, and load items.

use micanite_chunks::Entry;
use micanite_wire::hash::{KeyHash, PARTITION_BITS};

use crate::access::Permission;
use crate::partition::Partition;
use crate::region::copy_budget;
use crate::worker::Worker;
use crate::worker::pipeline::{Mode, Own, Share};
use crate::writer::Writer;

impl Worker {
    /// Applies what a client has read one-sided: hashes of keys, and how often. Marks their chunks as
    /// used, and loads items without a chunk that were read twice or more, until the turn is spent.
    /// Calls `sink` with their entries. Returns how many were loaded. Call it outside of a batch.
    ///
    /// The owner of a partition that this worker may not write does its part meanwhile, if the cache has a
    /// waker; otherwise that part is lost.
    pub fn note_accesses(
        &mut self,
        accesses: &[(KeyHash, u32)],
        now_s: u32,
        mut sink: impl FnMut(KeyHash, Entry) + Send,
    ) -> usize {
        if !self.cache.has_area() {
            return 0;
        }
        self.flush_if_due(now_s);
        let cache = &*self.cache;
        cache.epochs.enter(self.number);
        cache.mailboxes.serve(self.number);
        let mut left_bytes = self.turn_left_bytes;
        let mut loaded = 0;
        let mut has_accesses = [false; 1 << PARTITION_BITS];
        accesses.iter().for_each(|(hash, _)| has_accesses[cache.partition_of(*hash)] = true);
        for (number, partition) in
            cache.partitions.iter().enumerate().filter(|(number, _)| has_accesses[*number])
        {
            let is_here = |access: &&(KeyHash, u32)| cache.partition_of(access.0) == number;
            let mut note = |writer: &Writer<'_>| {
                let outer = copy_budget::replace(left_bytes);
                for (hash, count) in accesses.iter().filter(is_here) {
                    if let Some(entry) = writer.note_read(*hash, *count) {
                        loaded += 1;
                        sink(*hash, entry);
                    }
                }
                left_bytes = copy_budget::replace(outer);
            };
            self.with_permission(partition, now_s, &mut note);
        }
        cache.epochs.leave(self.number);
        self.turn_left_bytes = left_bytes;
        loaded
    }

    /// Runs `run` with the right to write a partition, on the owner's thread if need be. This worker is
    /// inside a batch.
    fn with_permission(&self, partition: &Partition, now_s: u32, run: &mut (impl FnMut(&Writer<'_>) + Send)) {
        let mut permission = partition.route.permission(self.number);
        if permission == Permission::Wait {
            permission = self.wait(partition);
        }
        match permission {
            Permission::Own => run(&Own::writer(partition, now_s)),
            Permission::Share => run(&Share::writer(partition, now_s)),
            Permission::Read { owner } | Permission::Elsewhere { owner } => {
                let Some(waker) = self.cache.waker.get() else {
                    return;
                };
                // This worker is inside a batch, so the route that it has loaded holds on the owner's thread.
                let pair = (self.number, owner);
                self.cache.mailboxes.delegate(pair, || run(&Own::writer(partition, now_s)), || waker(owner));
            }
            Permission::Wait => unreachable!("nobody changes routes during a turn"),
        }
    }
}
