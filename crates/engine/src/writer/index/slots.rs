//! Entries of a chain: an entry for a new item, and the removal of entries.

use micanite_memory::sync::Ordering::{Relaxed, Release};

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::index::hash::IndexHash;
use crate::limits::{BUCKET_ENTRIES, BUCKET_WORDS, CHAIN_BUCKETS_MAX, CHAIN_TAG_ITEMS_MAX};
use crate::log::LogKind;
use crate::partition::Place;
use crate::region::Field;
use crate::writer::Writer;
use crate::writer::index::dangling::Judged;

impl Writer<'_> {
    /// Returns an entry for a new item with a tag: that of its ghost, if there is one, or a free
    /// one. A chain that has as many items of the tag as a lookup compares gets no more: a cache
    /// evicts the oldest of them, and a store returns none. The version of `bucket` must be odd.
    #[inline]
    pub fn slot_for(&self, bucket: Bucket<'_>, tag: u64, ghost: Option<usize>) -> Option<usize> {
        if self.is_full_of(bucket, tag) {
            let is_store = self.partition.is_store();
            return (!is_store).then(|| self.evict_oldest(bucket, Some(tag)));
        }
        ghost.or_else(|| self.free_slot(bucket))
    }

    /// Returns whether no entry in the chain of a key has its tag: the key has neither an item nor a ghost.
    #[inline]
    pub fn is_absent(&self, hash: IndexHash) -> bool {
        let p = self.partition;
        p.chain(p.bucket(hash)).all(|bucket| bucket.matches(hash.tag()) == 0)
    }

    /// Returns whether a chain has as many items of a tag as a lookup compares.
    #[inline]
    fn is_full_of(&self, bucket: Bucket<'_>, tag: u64) -> bool {
        let buckets = self.partition.chain(bucket);
        let of_tag = buckets.map(|bucket| bucket.matches(tag).count_ones());
        of_tag.sum::<u32>() as usize >= CHAIN_TAG_ITEMS_MAX && self.has_items_of(bucket, tag)
    }

    /// Returns whether a chain has so many items of a tag, without dangling entries.
    #[cold]
    fn has_items_of(&self, bucket: Bucket<'_>, tag: u64) -> bool {
        let entries = self.partition.chain(bucket).flat_map(Bucket::entries);
        let items = entries.map(Entry).filter(|entry| {
            let is_there = || self.partition.place(*entry).is_some();
            entry.has_tag(tag) && is_there()
        });
        items.count() >= CHAIN_TAG_ITEMS_MAX
    }

    /// Returns an entry for a new item, as the word of the region that holds it: an empty or
    /// dangling one; else one of a new spare bucket; else, in a cache, that of the oldest item,
    /// which is evicted (MICA 4.3.2). Returns `None` in a store without free spare buckets, or if
    /// the chain has its longest length. The version of `bucket` must be odd.
    pub fn free_slot(&self, bucket: Bucket<'_>) -> Option<usize> {
        let evicts = !self.partition.is_store();
        self.slot_without_eviction(bucket).or_else(|| evicts.then(|| self.evict_oldest(bucket, None)))
    }

    /// Returns an entry like [`Self::free_slot`], but none whose item would have to leave.
    pub fn slot_without_eviction(&self, bucket: Bucket<'_>) -> Option<usize> {
        if self.partition.is_store() {
            return self.empty_slot(bucket).or_else(|| self.slot_of_new_spare(bucket));
        }
        if bucket.next_spare().is_none()
            && let Some(word) = self.empty_slot(bucket)
        {
            return Some(word);
        }
        let judged = self.judge(bucket, (LogKind::Main, 0));
        self.slot_of_judged(bucket, &judged)
    }

    /// Returns whether a chain of a cache has an entry for a new item without an eviction.
    pub fn has_slot(&self, judged: &Judged) -> bool {
        let may_grow = judged.buckets < CHAIN_BUCKETS_MAX && self.partition.get(Field::SpareFree) != 0;
        judged.cheapest != 0 || may_grow
    }

    /// Returns an entry for a new item in a chain of a cache, if it has one without an eviction
    /// ([`Self::has_slot`]). The version of `bucket` must be odd.
    pub fn slot_of_judged(&self, bucket: Bucket<'_>, judged: &Judged) -> Option<usize> {
        if judged.has_needless_bucket() {
            self.drop_dangling(bucket);
            return self.empty_slot(bucket).or_else(|| self.slot_of_new_spare(bucket));
        }
        match judged.cheapest {
            0 => self.slot_of_new_spare(bucket),
            word => Some(word),
        }
    }

    fn empty_slot(&self, bucket: Bucket<'_>) -> Option<usize> {
        let mut words = self.partition.chain(bucket).flat_map(|bucket| {
            let is_empty = move |slot: &usize| bucket.entry(*slot).is_empty();
            (0..BUCKET_ENTRIES).filter(is_empty).map(move |slot| bucket.slot_word(slot))
        });
        words.next()
    }

    /// Chains a spare bucket, if one is free and the chain may become longer, and returns its first entry.
    fn slot_of_new_spare(&self, bucket: Bucket<'_>) -> Option<usize> {
        let p = self.partition;
        let (buckets, last) = p.chain(bucket).fold((0, bucket), |(buckets, _), last| (buckets + 1, last));
        if buckets >= CHAIN_BUCKETS_MAX {
            return None;
        }
        let number = p.allocate_spare()?;
        last.set_next_spare(Some(number));
        Some(p.spare_bucket(number).slot_word(0))
    }

    /// Evicts the item of a full chain that is farthest behind its tail, among those of a tag, or
    /// all.
    #[cold]
    fn evict_oldest(&self, bucket: Bucket<'_>, tag: Option<u64>) -> usize {
        let p = self.partition;
        let mut oldest: Option<(u64, Place, usize)> = None;
        for bucket in p.chain(bucket) {
            for (slot, entry) in bucket.entries().into_iter().map(Entry).enumerate() {
                if tag.is_some_and(|tag| !entry.has_tag(tag)) {
                    continue;
                }
                let Some(place) = p.place(entry) else {
                    continue;
                };
                let behind = p.log(place.log).distance(place.offset);
                if oldest.is_none_or(|(most, ..)| behind > most) {
                    oldest = Some((behind, place, bucket.slot_word(slot)));
                }
            }
        }
        let Some((_, place, word)) = oldest else {
            return bucket.slot_word(0); // a chain has entries
        };
        if !p.holds(place.position, p.header(place.position)) {
            self.kill_chunk(place.position);
            return word;
        }
        self.note_eviction(&place);
        if !p.header(place.position).is_fetched() {
            p.add(Field::EvictedUnfetched, 1);
        }
        self.kill_chunk(place.position);
        p.word(word).store(0, Relaxed);
        self.retire(&place, false);
        p.add(Field::EvictedBucket, 1);
        word
    }

    /// Empties an entry, and fills the gap with the last entry of the chain, so that a spare bucket
    /// that is no longer needed becomes free. The version must be odd.
    pub fn clear_slot(&self, bucket: Bucket<'_>, word: usize) {
        let p = self.partition;
        p.word(word).store(0, Relaxed);
        if bucket.next_spare().is_none() {
            return;
        }
        p.add(Field::Moves, 1);
        let mut before = bucket;
        let mut last = bucket;
        for next in p.chain(bucket).skip(1) {
            before = last;
            last = next;
        }
        let filled = (0..BUCKET_ENTRIES).rfind(|slot| !last.entry(*slot).is_empty());
        if let Some(slot) = filled {
            let from = last.slot_word(slot);
            // An entry before the gap stays where it is.
            let is_behind = from > word || !(last.first_word..last.first_word + BUCKET_WORDS).contains(&word);
            if is_behind {
                // The copy comes first: a process that is killed between the stores leaves the
                // entry twice.
                p.word(word).store(last.entry(slot).0, Release);
                p.word(from).store(0, Release);
            }
        }
        if (0..BUCKET_ENTRIES).all(|slot| last.entry(slot).is_empty())
            && let Some(number) = before.next_spare()
        {
            before.set_next_spare(None);
            p.free_spare(number);
            p.subtract(Field::SparesUsed, 1);
        }
    }

    /// Moves the entries of a chain to its front, and frees the spare buckets left over.
    pub fn close_gaps(&self, main: Bucket<'_>) {
        let p = self.partition;
        let (mut to, mut to_slot) = (main, 0);
        for from in p.chain(main) {
            for slot in 0..BUCKET_ENTRIES {
                let entry = from.entry(slot);
                if entry.is_empty() {
                    continue;
                }
                if to_slot == BUCKET_ENTRIES {
                    to = p.next_bucket(to).unwrap_or(to); // it is at most as far as `from`
                    to_slot = 0;
                }
                let (at, free) = (from.slot_word(slot), to.slot_word(to_slot));
                if at != free {
                    // The copy comes first: a process that is killed between the stores leaves the
                    // entry twice.
                    p.word(free).store(entry.0, Release);
                    p.word(at).store(0, Release);
                }
                to_slot += 1;
            }
        }
        let mut unused = to.next_spare();
        to.set_next_spare(None);
        while let Some(number) = unused {
            unused = p.spare_bucket(number).next_spare();
            p.free_spare(number);
            p.subtract(Field::SparesUsed, 1);
        }
    }

    /// Iterates over the words of a chain's entries, the last one first. A caller that clears an
    /// entry moves the last one there, which it has visited already. So it visits every entry once.
    pub fn words_backwards(&self, main: Bucket<'_>) -> impl Iterator<Item = usize> {
        let mut first_words = [0; CHAIN_BUCKETS_MAX];
        let mut buckets = 0;
        for bucket in self.partition.chain(main) {
            first_words[buckets] = bucket.first_word;
            buckets += 1;
        }
        let backwards = first_words.into_iter().take(buckets).rev();
        backwards.flat_map(|first_word| (1..=BUCKET_ENTRIES).rev().map(move |slot| first_word + slot))
    }

    /// Returns the word of an entry, dirty or not, if its chain holds it.
    #[inline]
    pub fn slot_of(&self, hash: IndexHash, entry: Entry) -> Option<usize> {
        for bucket in self.partition.chain(self.partition.bucket(hash)) {
            let slot = bucket.entries().iter().position(|word| Entry(*word).with_dirty(false) == entry);
            if let Some(slot) = slot {
                return Some(bucket.slot_word(slot));
            }
        }
        None
    }
}
