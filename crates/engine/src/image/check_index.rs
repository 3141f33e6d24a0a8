//! The index of an image: its chains, its entries, its free spare buckets; and the items of a store
//! that a killed process has left.

use crate::heap::BLOCK_UNITS_MIN;
use crate::image::check::{Checked, ensure};
use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::limits::{CHAIN_BUCKETS_MAX, CHAIN_TAG_ITEMS_MAX};
use crate::log::Which;
use crate::partition::{Field, Partition, Place};
use crate::writer::Writer;

impl Partition {
    /// Follows all chains. Returns which spare buckets are in them.
    pub(super) fn check_index(&self, clean: bool) -> Checked<Vec<bool>> {
        let mut used = vec![false; self.layout.spares(self.buckets()) as usize];
        for number in 0..self.buckets() {
            self.check_chain(number, clean, &mut used)
                .map_err(|what| format!("bucket {number}: {what}"))?;
        }
        Ok(used)
    }

    fn check_chain(&self, number: u64, clean: bool, used: &mut [bool]) -> Checked {
        let main = self.main_bucket(number);
        ensure(!clean || !main.is_being_written(), || {
            "it is being written".to_owned()
        })?;
        let mut bucket = main;
        let mut buckets = 1;
        loop {
            self.check_entries(bucket, clean)?;
            let Some(spare) = bucket.next_spare() else {
                break;
            };
            match used.get_mut(spare as usize) {
                Some(used) if !*used => *used = true,
                Some(_) => return Err("a spare bucket is chained twice".to_owned()),
                None => return Err(format!("there is no spare bucket {spare}")),
            }
            bucket = self.spare_bucket(spare);
            buckets += 1;
        }
        // Recovery cuts the chain of a cache that was not closed.
        let is_cut = !clean && !self.is_store();
        ensure(buckets <= CHAIN_BUCKETS_MAX || is_cut, || {
            format!("its chain has {buckets} buckets, and {CHAIN_BUCKETS_MAX} are the most")
        })?;
        match clean && self.is_store() {
            true => self.check_tags(main),
            false => Ok(()),
        }
    }

    /// A chain of a closed store has no more items of one tag than a lookup compares. (Entries of a
    /// cache may dangle, and in a killed store one that was moving may stand twice.)
    fn check_tags(&self, main: Bucket<'_>) -> Checked {
        let entries = || self.chain(main).flat_map(Bucket::entries).map(Entry);
        for entry in entries().filter(|entry| !entry.is_empty()) {
            let of_tag = entries().filter(|other| other.has_tag(entry.tag()));
            ensure(of_tag.count() <= CHAIN_TAG_ITEMS_MAX, || {
                let tag = entry.tag();
                format!("its chain has more than {CHAIN_TAG_ITEMS_MAX} items of the tag {tag:#x}")
            })?;
        }
        Ok(())
    }

    fn check_entries(&self, bucket: Bucket<'_>, clean: bool) -> Checked {
        let store = self.is_store();
        // The reserve of a store is empty but while its process lives.
        let first = match clean {
            true => self.layout.heap_first(),
            false => self.layout.data_first(),
        };
        let positions = first as u64..self.get(Field::DataEnd) - 1;
        for entry in bucket.entries().map(Entry) {
            let position = entry.0 & self.offset_mask;
            let possible = entry.is_well_formed()
                && (!store || entry.log() == 0 && positions.contains(&position));
            ensure(entry.is_empty() || possible, || {
                format!("the entry {:#x} leads nowhere", entry.0)
            })?;
        }
        Ok(())
    }

    /// The free spare buckets of a closed image; `used` are those in chains.
    pub(super) fn check_spares(&self, mut used: Vec<bool>) -> Checked {
        let chained = used.iter().filter(|used| **used).count() as u64;
        ensure(self.get(Field::SparesUsed) == chained, || {
            let counted = self.get(Field::SparesUsed);
            format!("SparesUsed is {counted}, and {chained} are in chains")
        })?;
        let mut next = self.get(Field::SpareFree);
        while let Some(number) = next.checked_sub(1) {
            match used.get_mut(number as usize) {
                Some(used) if !*used => *used = true,
                _ => return Err(format!("spare bucket {number} cannot be free")),
            }
            next = self
                .spare_bucket(number)
                .next_spare()
                .map_or(0, |next| next + 1);
        }
        Ok(())
    }

    /// The items that the index of a store leads to, which was not closed: each lies within the
    /// heap, and none over another, so that the heap can be made anew around them.
    pub(super) fn check_items(&self) -> Checked {
        let mut items = Vec::new();
        for number in 0..self.buckets() {
            let chain = self.chain(self.main_bucket(number));
            for entry in chain.flat_map(Bucket::entries).map(Entry) {
                let Some(Place { position, .. }) = self.place(entry) else {
                    continue;
                };
                let header = self.header(position);
                // One that was being written has its length all the same.
                let is_half_written = header.is_busy() && self.has_room(position, header);
                ensure(is_half_written || self.holds(position, header), || {
                    format!("bucket {number}: there is no item at word {position}")
                })?;
                if !self.is_in_reserve(position) {
                    let units = header.units() as usize;
                    items.push((position, entry.0, number, units));
                }
            }
        }
        items.sort_unstable();
        items.dedup_by(|again, once| {
            (again.0, again.1) == (once.0, once.1) && self.is_moving(again.0, once.2, again.2)
        });
        let items = items.into_iter();
        self.check_gaps(items.map(|(position, .., units)| (position, units)))
    }

    /// Items, in order of their positions, leave gaps between them that can be free blocks.
    fn check_gaps(&self, items: impl Iterator<Item = (usize, usize)>) -> Checked {
        let mut reached = self.layout.heap_first();
        let last = self.layout.data_end(self.buckets()) as usize - 1;
        for (position, units) in items.chain([(last, 1)]) {
            let fits = match position.checked_sub(reached) {
                Some(gap) => gap == 0 || gap >= BLOCK_UNITS_MIN || position == last,
                None => false,
            };
            ensure(fits, || format!("items overlap at word {position}"))?;
            reached = position + units;
        }
        Ok(())
    }

    /// Whether a killed process can have left an entry in both of these buckets: in one chain, or in
    /// the last bucket that was split and the one that came of it.
    fn is_moving(&self, position: usize, one: u64, other: u64) -> bool {
        let buckets = self.all_buckets();
        let place = Place {
            log: Which::Small,
            offset: position as u64,
            position,
        };
        let by_split = || {
            (Some(one), other) == (buckets.last_split_from(), buckets.count() - 1)
                && self.holds(position, self.header(position))
                && Writer::new(self, false, 0).is_in_last(&place, buckets)
        };
        one == other || by_split()
    }
}
