//! The split of a bucket: its entries that belong to the new one move there.

use micanite_memory::sync::Ordering::{Relaxed, Release};

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::index::hash::Buckets;
use crate::limits::BUCKET_ENTRIES;
use crate::region::Field;
use crate::writer::Writer;

/// Splits between two measurements of the items.
const MEASURE_INTERVAL: u64 = 64;
/// Entries of a chain that is split at once, at most.
const HALVES_MAX: usize = 2 * BUCKET_ENTRIES;

/// The entries of a chain that stay, and those that move, each in its order, then zeros.
struct Halves {
    stay: [u64; HALVES_MAX],
    stays: usize,
    moved: [u64; HALVES_MAX],
    moves: usize,
}

impl Writer<'_> {
    /// Adds a bucket, and moves its entries there.
    pub(super) fn split(&self, buckets: Buckets) {
        let p = self.partition;
        let number = buckets.count();
        let grown = buckets.grown();
        let source = p.main_bucket(buckets.split_from());
        let target = p.main_bucket(number);
        let spares = p.layout.spares(number);
        let new_spare = (p.layout.spares(number + 1) > spares).then_some(spares);
        // Items were where these lines are. No line holds their bytes once it counts: an older program's
        // recovery looks at all of them.
        target.clear();
        if let Some(spare) = new_spare {
            p.spare_bucket(spare).clear();
        }
        source.write(|| {
            target.write(|| {
                // Readers load the version before the number of buckets.
                p.set(Field::Buckets, grown.pack());
                if !self.move_at_once(source, target, grown) {
                    self.move_entries(source, target, grown);
                    self.close_gaps(source);
                }
            });
        });
        if let Some(spare) = new_spare {
            p.free_spare(spare);
        }
        if number.is_multiple_of(MEASURE_INTERVAL) {
            p.measure_items();
        }
        p.add(Field::BucketsSplit, 1);
        p.add(Field::Moves, 1);
    }

    /// Moves entries, closes the gaps, and frees the spare bucket that is not needed any more, if the chain
    /// has two buckets at most and its entries tell where they belong. Otherwise it does nothing and returns
    /// false.
    fn move_at_once(&self, source: Bucket<'_>, target: Bucket<'_>, grown: Buckets) -> bool {
        let p = self.partition;
        let spare = source.next_spare();
        let second = p.next_bucket(source);
        let is_other = second.map_or(spare, Bucket::next_spare).is_some();
        if is_other || Entry(0).is_split_off(grown, p.offset_mask).is_none() {
            return false;
        }
        let Halves { stay, stays, moved, moves } = self.halves([Some(source), second], grown);
        if moves > BUCKET_ENTRIES && p.get(Field::SpareFree) == 0 {
            return false;
        }
        // The copies come first: a process that is killed between the stores leaves entries twice.
        self.store_entries(target, &moved[..BUCKET_ENTRIES]);
        if moves > BUCKET_ENTRIES
            && let Some(number) = p.allocate_spare()
        {
            self.store_entries(p.spare_bucket(number), &moved[BUCKET_ENTRIES..]);
            target.set_next_spare(Some(number));
        }
        self.store_entries(source, &stay[..BUCKET_ENTRIES]);
        match second {
            Some(second) if stays > BUCKET_ENTRIES => self.store_entries(second, &stay[BUCKET_ENTRIES..]),
            _ => {
                source.set_next_spare(None);
                if let Some(number) = spare {
                    p.free_spare(number);
                    p.subtract(Field::SparesUsed, 1);
                }
            }
        }
        true
    }

    /// Divides the entries that lead to items. Without a branch: where they belong is random.
    fn halves(&self, buckets: [Option<Bucket<'_>>; 2], grown: Buckets) -> Halves {
        let p = self.partition;
        let is_item = self.leads_to_item();
        let mut halves = Halves { stay: [0; HALVES_MAX], stays: 0, moved: [0; HALVES_MAX], moves: 0 };
        for entry in buckets.into_iter().flatten().flat_map(Bucket::entries).map(Entry) {
            let (is_item, goes) = (is_item(entry), entry.is_split_off(grown, p.offset_mask) == Some(true));
            halves.stay[halves.stays] = entry.0;
            halves.stays += usize::from(is_item & !goes);
            halves.moved[halves.moves] = entry.0;
            halves.moves += usize::from(is_item & goes);
        }
        halves.stay[halves.stays..].fill(0);
        halves.moved[halves.moves..].fill(0);
        halves
    }

    /// Moves entries to the last bucket. Where there is no spare bucket for it, the source has
    /// one: as many entries have left it as fill a bucket.
    fn move_entries(&self, source: Bucket<'_>, target: Bucket<'_>, grown: Buckets) {
        while !self.move_some(source, target, grown) {
            self.close_gaps(source);
            if self.partition.get(Field::SpareFree) == 0 {
                return;
            }
        }
    }

    /// Returns whether an entry belongs in the last bucket. `None` if it dangles, or is damaged and its key
    /// is needed.
    #[inline]
    fn is_split_off(&self, entry: Entry, grown: Buckets) -> Option<bool> {
        let p = self.partition;
        let place = p.place(entry)?;
        entry.is_split_off(grown, p.offset_mask).or_else(|| {
            let is_whole = p.holds(place.position, p.header(place.position));
            is_whole.then(|| p.is_in_last(&place, grown))
        })
    }

    /// Moves entries until one finds no place. Returns whether all have moved.
    fn move_some(&self, source: Bucket<'_>, target: Bucket<'_>, grown: Buckets) -> bool {
        let p = self.partition;
        // Nobody else has put entries there, so they are in its front.
        let mut filled = target.entries().into_iter().take_while(|entry| *entry != 0).count();
        for bucket in p.chain(source) {
            for slot in 0..BUCKET_ENTRIES {
                let entry = bucket.entry(slot);
                if entry.is_empty() {
                    continue;
                }
                let belongs = self.is_split_off(entry, grown);
                if belongs == Some(true) {
                    let word = if filled < BUCKET_ENTRIES {
                        filled += 1;
                        target.slot_word(filled - 1)
                    } else if let Some(word) = self.slot_without_eviction(target) {
                        word
                    } else {
                        return false;
                    };
                    // The copy comes first: a process that is killed between the stores leaves the
                    // entry twice.
                    p.word(word).store(entry.0, Release);
                }
                if belongs.is_none() && p.place(entry).is_some() {
                    self.void_chunks(); // damaged: its key is not known
                }
                if belongs != Some(false) {
                    p.word(bucket.slot_word(slot)).store(0, Release);
                }
            }
        }
        true
    }

    #[inline]
    fn store_entries(&self, bucket: Bucket<'_>, entries: &[u64]) {
        for (slot, entry) in entries.iter().enumerate() {
            let word = self.partition.word(bucket.slot_word(slot));
            if word.load(Relaxed) != *entry {
                word.store(*entry, Release);
            }
        }
    }
}
