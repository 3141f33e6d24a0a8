//! Dangling entries: those whose item the log has passed. Some of them are ghosts.

use micanite_memory::sync::Ordering::Relaxed;

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::limits::BUCKET_ENTRIES;
use crate::log::{Log, LogKind};
use crate::partition::Partition;
use crate::region::{Field, LogField};
use crate::writer::Writer;

/// What an entry that is not empty leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Item,
    /// Nothing, but the item left the small log lately; its distance behind the tail.
    Ghost(u64),
    Nothing,
}

/// The ends of the logs of a cache, loaded once to judge the entries of a chain.
struct Ends {
    offset_mask: u64,
    /// Of the small log and of main: the tail, and the units behind it that hold items.
    logs: [(u64, u64); 2],
    /// Distances of ghosts behind the tail of the small log: more than the first, at most the second.
    ghosts: (u64, u64),
}

impl Ends {
    fn of(p: &Partition) -> Self {
        let (small, main) = (p.log(LogKind::Small), p.log(LogKind::Main));
        let live = |log: Log<'_>| {
            let tail = log.get(LogField::Tail);
            (tail, tail - log.get(LogField::Head).max(log.get(LogField::FlushMark)).min(tail))
        };
        let window = main.get(LogField::Limit) * p.layout.policy.ghost_percent / 100;
        let passed = small.get(LogField::Tail).saturating_sub(small.get(LogField::Head));
        let ghosts = (passed, small.get(LogField::Limit) + window);
        Self { offset_mask: p.offset_mask, logs: [live(small), live(main)], ghosts }
    }

    /// Returns the ends after so many units more at the tail of a log.
    #[inline]
    fn after(mut self, which: LogKind, units: u64) -> Self {
        let (tail, live) = &mut self.logs[which as usize];
        (*tail, *live) = (*tail + units, *live + units);
        if which == LogKind::Small {
            self.ghosts.0 += units;
        }
        self
    }

    #[inline]
    fn target(&self, entry: Entry) -> Target {
        let log = entry.log();
        let (tail, live) = self.logs[usize::from(log != 0)];
        let distance = entry.distance(tail, self.offset_mask);
        // Zero becomes more than any.
        if distance.wrapping_sub(1) < live {
            return Target::Item;
        }
        let (passed, oldest) = self.ghosts;
        let is_ghost = log == 0 && distance > passed && distance <= oldest && distance < tail;
        if is_ghost { Target::Ghost(distance) } else { Target::Nothing }
    }

    /// Returns zero for an item, the distance of a ghost, more for what leads nowhere, and the most for an
    /// empty entry.
    #[inline]
    fn age_if_gone(&self, entry: Entry) -> u64 {
        if entry.is_empty() {
            return u64::MAX;
        }
        match self.target(entry) {
            Target::Item => 0,
            Target::Ghost(distance) => distance,
            Target::Nothing => u64::MAX - 1,
        }
    }
}

/// A chain of a cache, as an insertion sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub buckets: usize,
    /// Entries that lead to items.
    pub items: usize,
    /// Word of the entry that is worth least among those that lead to none: an empty or useless one, or the
    /// oldest ghost; 0 = all lead to items.
    pub cheapest: usize,
}

impl Judged {
    /// Returns whether the chain has more buckets than its items and one more need.
    pub fn has_needless_bucket(&self) -> bool {
        self.items < (self.buckets - 1) * BUCKET_ENTRIES
    }
}

impl Writer<'_> {
    /// Judges the entries of a chain of a cache, as they will be after so many units more at the tail of a
    /// log.
    #[inline]
    pub fn judge(&self, main: Bucket<'_>, (which, units): (LogKind, u64)) -> Judged {
        let ends = Ends::of(self.partition).after(which, units);
        let mut judged = Judged { buckets: 0, items: 0, cheapest: 0 };
        let mut most = 0;
        for bucket in self.partition.chain(main) {
            judged.buckets += 1;
            for (slot, entry) in bucket.entries().into_iter().map(Entry).enumerate() {
                // Without a branch: which entries have gone is random.
                let age = ends.age_if_gone(entry);
                judged.items += usize::from(age == 0);
                judged.cheapest = if age > most { bucket.slot_word(slot) } else { judged.cheapest };
                most = most.max(age);
            }
        }
        judged
    }

    /// Returns a function that tells whether an entry leads to an item.
    #[inline]
    pub(super) fn leads_to_item(&self) -> impl Fn(Entry) -> bool {
        let (ends, is_store) = (Ends::of(self.partition), self.partition.is_store());
        move |entry| !entry.is_empty() & (is_store | (ends.target(entry) == Target::Item))
    }

    /// Returns whether a chain has entries that lead to no item.
    pub(super) fn has_dangling(&self, main: Bucket<'_>) -> bool {
        let ends = Ends::of(self.partition);
        let mut entries = self.partition.chain(main).flat_map(Bucket::entries).map(Entry);
        entries.any(|entry| !entry.is_empty() && ends.target(entry) != Target::Item)
    }

    /// Clears dangling entries in a chain of several buckets of a cache, ghosts included, and frees the
    /// spare buckets that it then does not need: those are for items.
    pub(super) fn drop_dangling(&self, bucket: Bucket<'_>) {
        let p = self.partition;
        let ends = Ends::of(p);
        let mut dropped = false;
        for bucket in p.chain(bucket) {
            for (slot, entry) in bucket.entries().into_iter().map(Entry).enumerate() {
                if !entry.is_empty() && ends.target(entry) != Target::Item {
                    p.word(bucket.slot_word(slot)).store(0, Relaxed);
                    dropped = true;
                }
            }
        }
        if dropped {
            p.add(Field::Moves, 1);
            self.close_gaps(bucket);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::tests::support::Client;
    use crate::*;
    use std::sync::Arc;

    #[test]
    fn entries_are_judged_as_by_place_and_ghost_age() {
        let config = Config { memory_bytes: 1 << 20, value_bytes_max: 1 << 10, ..Config::default() };
        let cache = Arc::new(Cache::new(&config).unwrap());
        let mut client = Client::new(&cache, 0);
        let mut seen = [0; 3];
        for number in 0u64..40_000 {
            client.set(&number.to_le_bytes(), b"12345678");
            if number == 30_000 {
                client.worker.flush_all(client.now_s, client.now_s);
            }
            if number % 400 != 0 {
                continue;
            }
            let partition = &cache.partitions[0];
            let writer = partition.writer(0);
            let ends = Ends::of(partition);
            for bucket in (0..partition.buckets()).map(|number| partition.main_bucket(number)) {
                for entry in partition.chain(bucket).flat_map(Bucket::entries).map(Entry) {
                    if entry.is_empty() {
                        continue;
                    }
                    let expected = match (partition.place(entry), writer.ghost_age(entry)) {
                        (Some(_), _) => Target::Item,
                        (None, Some(age)) => Target::Ghost(age),
                        (None, None) => Target::Nothing,
                    };
                    assert_eq!(ends.target(entry), expected, "{entry:?} after {number}");
                    seen[match expected {
                        Target::Item => 0,
                        Target::Ghost(_) => 1,
                        Target::Nothing => 2,
                    }] += 1;
                }
            }
        }
        assert!(seen.iter().all(|seen| *seen > 100), "{seen:?}");
    }
}
