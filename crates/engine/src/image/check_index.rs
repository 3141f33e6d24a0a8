//! Checks of the index of an image: its chains, entries and free spare buckets; and of the items of
//! a store that a killed process has left.

use crate::heap::BLOCK_UNITS_MIN;
use crate::image::check::{Checked, ensure};
use crate::image::starts::Starts;
use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::limits::{BUCKET_ENTRIES, CHAIN_BUCKETS_MAX, CHAIN_TAG_ITEMS_MAX};
use crate::log::LogKind;
use crate::partition::{Partition, Place};
use crate::region::Field;

/// Buckets of each partition of which the check hashes an item.
const HASHED_BUCKETS: u64 = 64;
/// More entries than a killed process can have left twice: those of two chains.
const MOVING_MAX: usize = 2 * CHAIN_BUCKETS_MAX * BUCKET_ENTRIES;

impl Partition {
    /// Follows all chains. Returns the spare buckets in them.
    pub(super) fn check_index(&self, clean: bool) -> Checked<Vec<bool>> {
        let mut used = vec![false; self.layout.spares(self.buckets()) as usize];
        for number in 0..self.buckets() {
            self.check_chain(number, clean, &mut used).map_err(|what| format!("bucket {number}: {what}"))?;
        }
        Ok(used)
    }

    fn check_chain(&self, number: u64, clean: bool, used: &mut [bool]) -> Checked {
        let main = self.main_bucket(number);
        ensure(!clean || !main.is_being_written(), || "it is being written".to_owned())?;
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

    /// Checks that a chain of a closed store has no more items of one tag than a lookup compares.
    /// (Entries of a cache may dangle, and a killed store may hold an entry twice that was moving.)
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
        // The reserve of a store is empty unless its process lives.
        let first = match clean {
            true => self.layout.heap_first(),
            false => self.layout.data_first(),
        };
        let positions = first as u64..self.get(Field::DataEnd) - 1;
        for entry in bucket.entries().map(Entry) {
            let position = entry.0 & self.offset_mask;
            // A kept store has no dirty entry, and a closed cache only those of evicted items.
            let may_be_dirty = || !store && (!clean || self.place(entry).is_none());
            let possible = entry.is_well_formed()
                && (!entry.is_dirty() || may_be_dirty())
                && (!store || entry.log() == 0 && positions.contains(&position));
            ensure(entry.is_empty() || possible, || format!("the entry {:#x} leads nowhere", entry.0))?;
        }
        Ok(())
    }

    /// Checks the free spare buckets of a closed image; `used` are those in chains.
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
            next = self.spare_bucket(number).next_spare().map_or(0, |next| next + 1);
        }
        // A merge of two buckets, and a split, rely on the others.
        let lost = used.iter().position(|used| !used);
        ensure(lost.is_none(), || {
            let number = lost.unwrap_or(0);
            format!("spare bucket {number} is neither free nor in a chain")
        })
    }

    /// Checks that the items of a sample of buckets have the tags and the buckets of their keys.
    /// They do not if the seed, the secret or the first number of buckets differs from the one at
    /// their writing: then no item would be found. A few may be damaged.
    pub(super) fn check_hashes(&self) -> Checked {
        let count = self.buckets();
        let window = |number: u64| number * count / HASHED_BUCKETS;
        let (mut hashed, mut misplaced) = (0, 0);
        for number in 0..HASHED_BUCKETS {
            let mut buckets = window(number)..window(number + 1);
            if let Some(is_in_its_bucket) = buckets.find_map(|number| self.is_in_its_bucket(number)) {
                hashed += 1;
                misplaced += usize::from(!is_in_its_bucket);
            }
        }
        ensure(misplaced * 4 <= hashed, || {
            "its items are not where their keys belong: the seed, the secret or BucketsFirst".into()
        })
    }

    /// Returns whether the first sound item of a bucket belongs there, if it has one.
    fn is_in_its_bucket(&self, number: u64) -> Option<bool> {
        let main = self.main_bucket(number);
        let entry = main.entries().into_iter().map(Entry);
        let (entry, place) =
            entry.filter_map(|entry| Some((entry, self.place_of_item(entry)?))).find(|(_, place)| {
                let header = self.header(place.position);
                !header.is_busy() && !header.is_dead()
            })?;
        let buckets = self.all_buckets();
        let is_moving = Some(number) == buckets.last_split_from()
            && entry.has_tag(self.hash_at(place.position).tag())
            && self.is_in_last(&place, buckets);
        Some(is_moving || self.is_of_entry(main, entry, &place))
    }

    /// Checks the items in the index of a store that was not closed: each lies within the heap, and
    /// they do not overlap, so that the heap can be made anew around them.
    pub(super) fn check_items(&self) -> Checked {
        let mut items = Starts::of(self);
        let mut repeated = Vec::new();
        for number in 0..self.buckets() {
            for (_, position) in self.positions(number) {
                let header = self.header(position);
                // An item that was being written has its length all the same.
                let is_half_written = header.is_busy() && self.has_room(position, header);
                ensure(is_half_written || self.holds(position, header), || {
                    format!("bucket {number}: there is no item at word {position}")
                })?;
                if !self.is_in_reserve(position) && !items.insert(position) {
                    repeated.push(position);
                    ensure(repeated.len() <= MOVING_MAX, || {
                        format!("bucket {number}: too many entries lead to other buckets' items")
                    })?;
                }
            }
        }
        self.check_moving(repeated)?;
        self.check_gaps(&items)
    }

    /// Iterates over the entries of a bucket's chain, and the positions of their items.
    fn positions(&self, number: u64) -> impl Iterator<Item = (Entry, usize)> {
        let chain = self.chain(self.main_bucket(number));
        let entries = chain.flat_map(Bucket::entries).map(Entry);
        entries.filter_map(|entry| Some((entry, self.place(entry)?.position)))
    }

    /// Checks items that several entries lead to: a killed process was moving them.
    fn check_moving(&self, mut repeated: Vec<usize>) -> Checked {
        if repeated.is_empty() {
            return Ok(());
        }
        repeated.sort_unstable();
        let mut entries = Vec::new();
        for number in 0..self.buckets() {
            let all = self.positions(number);
            let moving = all.filter(|(_, position)| repeated.binary_search(position).is_ok());
            entries.extend(moving.map(|(entry, position)| (position, entry.0, number)));
        }
        entries.sort_unstable();
        entries.dedup_by(|repeated, once| {
            (repeated.0, repeated.1) == (once.0, once.1) && self.is_moving(repeated.0, once.2, repeated.2)
        });
        let same = entries.windows(2).find(|two| two[0].0 == two[1].0);
        ensure(same.is_none(), || {
            let position = same.map_or(0, |two| two[0].0);
            format!("items overlap at word {position}")
        })
    }

    /// Checks that items, in order of their positions, leave gaps between them that can be free
    /// blocks.
    fn check_gaps(&self, items: &Starts) -> Checked {
        let mut reached = self.layout.heap_first();
        let last = self.data_end(self.buckets()) as usize - 1;
        let units = |position| (position, self.header(position).units() as usize);
        for (position, units) in items.iter().map(units).chain([(last, 1)]) {
            let fits = match position.checked_sub(reached) {
                Some(gap) => gap == 0 || gap >= BLOCK_UNITS_MIN || position == last,
                None => false,
            };
            ensure(fits, || format!("items overlap at word {position}"))?;
            reached = position + units;
        }
        Ok(())
    }

    /// Returns whether a killed process can have left an entry in both of these buckets: in one
    /// chain, or in the last bucket that was split and the one that it was split into.
    fn is_moving(&self, position: usize, one: u64, other: u64) -> bool {
        let buckets = self.all_buckets();
        let place = Place { log: LogKind::Small, offset: position as u64, position };
        let by_split = || {
            (Some(one), other) == (buckets.last_split_from(), buckets.count() - 1)
                && self.holds(position, self.header(position))
                && self.is_in_last(&place, buckets)
        };
        one == other || by_split()
    }
}
