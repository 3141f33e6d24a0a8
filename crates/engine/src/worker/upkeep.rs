//! Upkeep by a worker of its share of the partitions.

use crate::access::Permission;
use crate::limits::SHRINK_ROUNDS_MAX;
use crate::region::copy_budget;
use crate::worker::Worker;
use crate::worker::pipeline::{Mode, Own, Share};
use crate::writer::Writer;

impl Worker {
    /// Does bounded upkeep of this worker's share of the partitions: counts the requests that
    /// readers recorded, removes some expired items, frees space. Call it every 10 to 100
    /// milliseconds.
    pub fn maintain(&mut self, now_s: u32) {
        self.flush_if_due(now_s);
        let outer = copy_budget::replace(self.cache.turn_moved_bytes() as isize);
        let (epochs, outside) = (&self.cache.epochs, self.cache.has_outside_readers());
        let partitions = self.cache.partitions.len();
        self.maintained_first = (self.maintained_first + 1) % partitions;
        for step in 0..partitions {
            let number = (self.maintained_first + step) % partitions;
            let upkeep = |writer: &Writer<'_>| {
                writer.partition.measure_items();
                writer.partition.note_age(now_s);
                writer.apply_samples();
                writer.sweep();
                writer.clean();
                writer.compact_for_refused();
                writer.follow_limit();
                writer.return_pages(epochs, outside);
                writer.maintain_chunks();
                if !outside {
                    writer.free_spares_of_sparse_index();
                }
            };
            self.maintain_one(number, now_s, upkeep);
            let can_shrink = |writer: &Writer<'_>| writer.can_shrink_index();
            for _ in 0..SHRINK_ROUNDS_MAX {
                let may_shrink = !copy_budget::is_spent()
                    && !self.cache.has_outside_readers()
                    && self.maintain_one(number, now_s, can_shrink) == Some(true);
                if !may_shrink || !self.shrink_index(number, now_s) {
                    break;
                }
            }
        }
        self.cache.end_following_limit();
        copy_budget::replace(outer);
    }

    /// Returns lines of a sparse index to the items: a bounded number, with no other thread in the
    /// partition. Returns whether more may follow.
    fn shrink_index(&self, number: usize, now_s: u32) -> bool {
        let (cache, idle) = (&*self.cache, || self.serve_mailbox());
        let partition = &cache.partitions[number];
        let _turn = self.turn(&cache.changing);
        partition.route.exclude(&cache.epochs, idle, || {
            let writer = partition.writer(now_s);
            let shrink = || writer.shrink_index();
            partition.walkers.without(shrink).unwrap_or(false)
        })
    }

    /// Runs `run` with the right to write a partition, if its upkeep is this worker's.
    fn maintain_one<R>(&self, number: usize, now_s: u32, run: impl FnOnce(&Writer<'_>) -> R) -> Option<R> {
        let cache = &*self.cache;
        let _batch = self.enter();
        self.serve_mailbox();
        let partition = &cache.partitions[number];
        let turn = number % cache.handles_free.len() == self.number;
        let writer = match partition.route.permission(self.number) {
            Permission::Own => Own::writer(partition, now_s),
            Permission::Share if turn => Share::writer(partition, now_s),
            _ => return None,
        };
        Some(run(&writer))
    }
}
