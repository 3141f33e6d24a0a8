//! The engine's cache, modelled: item headers, index, spare buckets and both logs share one
//! capacity, and ghosts live in index entries until an insertion needs the slot.
//!
//! What the model leaves out: deletes, overwrites and expiry, which the traces do not have; and
//! the moment at which the main log gives space to the index (here: at once).

mod index;
mod items;

use micanite_engine::IndexHash;

use self::index::{BUCKET_ENTRIES, Entry, Index, Slot, Which, Worth};
use self::items::{Items, Place};
use super::log::Item;
use super::policy::{Cache, Policy};

/// Bytes of an item without flags and expiry, besides key and value.
const HEADER_BYTES: u32 = 8;
/// Items begin at multiples of this.
const ITEM_ALIGN: u32 = 8;
/// An item above the small log's capacity over this goes straight to the main log.
const SMALL_PER_ITEM: u64 = 8;
/// Buckets that an insertion splits at most in search of a spare one.
const SPLITS_MAX: u32 = 8;
/// The largest hit count of an item with two logs.
const COUNT_MAX: u8 = 3;

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Parameters {
    /// Live items per entry at which the index grows.
    pub load: f64,
    /// Whether it grows, too, when an insertion finds no spare bucket.
    pub grow_on_shortage: bool,
    /// One spare bucket for so many buckets.
    pub buckets_per_spare: usize,
    /// The index begins with one bucket for so many bytes of the capacity.
    pub bytes_per_bucket: u64,
    /// Bytes appended to the small log for which an entry is a ghost, in units of the main log.
    pub ghost_window: f64,
    /// Ghosts in a table of their own that costs nothing: to see what those in buckets cost.
    pub perfect_ghosts: bool,
    /// Items that the main log appends again per insertion.
    pub reappends_max: u32,
    /// The cache is divided into two to the power of this.
    pub partition_bits: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            load: 0.8,
            grow_on_shortage: true,
            buckets_per_spare: 5,
            bytes_per_bucket: 6100,
            ghost_window: 1.0,
            perfect_ghosts: false,
            reappends_max: 32,
            partition_bits: 0,
        }
    }
}

/// What happened in the index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Insertions that found no slot: a live item left for them.
    pub lost: u64,
    /// Misses that matched a ghost, and those of them that were another key's.
    pub ghosts: u64,
    pub false_ghosts: u64,
}

/// One partition.
pub(crate) struct Engine<'a> {
    sizes: &'a [u32],
    hashes: &'a [IndexHash],
    policy: Policy,
    parameters: Parameters,
    count_max: u8,
    capacity: u64,
    index: Index,
    items: Items,
    /// With perfect ghosts: where in the small log each object was.
    was: Vec<Option<u64>>,
    /// Until a log's head evicts something, what does not fit into the small log goes to the
    /// main one.
    warm: bool,
    reappends_left: u32,
    moves: u64,
    counts: Counts,
}

impl<'a> Engine<'a> {
    pub fn new(
        policy: Policy,
        parameters: Parameters,
        capacity: u64,
        sizes: &'a [u32],
        hashes: &'a [IndexHash],
    ) -> Self {
        let first = (capacity / parameters.bytes_per_bucket).max(1);
        let index = Index::new(first, parameters.buckets_per_spare);
        let data = capacity.saturating_sub(index.bytes());
        let (share, count_max) = match policy {
            Policy::TwoLogs { small, .. } => (small, COUNT_MAX),
            Policy::Clock { bits, .. } => (0.0, ((1u32 << bits) - 1) as u8),
            _ => (0.0, 0),
        };
        let small = (data as f64 * share) as u64;
        let window = parameters.ghost_window;
        Self {
            sizes,
            hashes,
            policy,
            parameters,
            count_max,
            capacity,
            index,
            items: Items::new(sizes.len(), small, data - small, window),
            was: vec![None; sizes.len()],
            warm: !matches!(policy, Policy::TwoLogs { warm_up: false, .. }),
            reappends_left: 0,
            moves: 0,
            counts: Counts::default(),
        }
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn index_bytes(&self) -> u64 {
        self.index.bytes()
    }

    pub fn live(&self) -> u64 {
        self.items.live
    }

    fn insert(&mut self, object: u32) {
        let item_bytes = HEADER_BYTES + self.sizes[object as usize];
        let bytes = item_bytes.next_multiple_of(ITEM_ALIGN);
        let hash = self.hashes[object as usize];
        self.reappends_left = match self.policy {
            Policy::Clock { reappends_max, .. } => reappends_max.min(self.parameters.reappends_max),
            _ => self.parameters.reappends_max,
        };
        let mut ghost = None;
        let mut log = Which::Main;
        if let Policy::TwoLogs { .. } = self.policy {
            let known = if self.parameters.perfect_ghosts {
                let was = self.was[object as usize].take();
                was.is_some_and(|position| self.items.is_recent(position))
            } else {
                ghost = self.take_ghost(object, hash);
                ghost.is_some()
            };
            let overflow = self.warm && !self.items.small.has_room(bytes);
            let large = u64::from(bytes) > self.items.small.capacity / SMALL_PER_ITEM;
            if !(known || overflow || large) {
                log = Which::Small;
            }
        }
        if !self.make_room(log, bytes) {
            return;
        }
        let slot = ghost.unwrap_or_else(|| self.free_slot(hash));
        // The index may have taken some of the room.
        if self.make_room(log, bytes) {
            self.append(log, object, bytes, slot);
            self.items.count[object as usize] = 0;
            self.items.live += 1;
            self.grow_if_full();
        }
    }

    /// The slot of the ghost that the key matches, by tag; it is one no more.
    fn take_ghost(&mut self, object: u32, hash: IndexHash) -> Option<Slot> {
        let is_ghost = |entry: Entry| matches!(self.items.worth(entry), Worth::Ghost(_));
        let tag = hash.tag() as u16;
        let (slot, entry) = self
            .index
            .chain(hash)
            .filter_map(|(slot, entry)| Some((slot, entry?)))
            .find(|&(_, entry)| entry.tag == tag && is_ghost(entry))?;
        self.counts.ghosts += 1;
        self.counts.false_ghosts += u64::from(entry.object != object);
        self.index.set(slot, None);
        Some(slot)
    }

    fn append(&mut self, log: Which, object: u32, bytes: u32, slot: Slot) {
        let position = self.items.log(log).append(object, bytes);
        let tag = self.hashes[object as usize].tag() as u16;
        let entry = Entry {
            position,
            object,
            tag,
            log,
        };
        self.index.set(slot, Some(entry));
        self.items.place[object as usize] = Some(Place { log, position });
    }

    /// A slot for a new entry: an empty or worthless one, the oldest ghost's, one in a spare
    /// bucket, that of the live item with the fewest hits.
    fn free_slot(&mut self, hash: IndexHash) -> Slot {
        let items = &self.items;
        self.index.shorten(hash, |entry| items.worth(entry));
        let mut splits_left = if self.parameters.grow_on_shortage {
            SPLITS_MAX
        } else {
            0
        };
        loop {
            let items = &self.items;
            if let Some(slot) = self.index.free_slot(hash, |entry| items.worth(entry)) {
                return slot;
            }
            if splits_left == 0 || !self.grow() {
                return self.evict_from_bucket(hash);
            }
            splits_left -= 1;
        }
    }

    fn evict_from_bucket(&mut self, hash: IndexHash) -> Slot {
        let (slot, entry) = self
            .index
            .chain(hash)
            .filter_map(|(slot, entry)| Some((slot, entry?)))
            .min_by_key(|(_, entry)| self.items.count[entry.object as usize])
            .expect("a bucket without a free slot has entries");
        self.counts.lost += 1;
        self.items.forget(entry.object);
        slot
    }

    fn make_room(&mut self, log: Which, bytes: u32) -> bool {
        if u64::from(bytes) > self.items.log(log).capacity {
            return false;
        }
        while !self.items.log(log).has_room(bytes) {
            match log {
                Which::Small => self.advance_small(),
                Which::Main => self.advance_main(),
            }
        }
        true
    }

    /// The oldest item of the small log leaves it: for the main log, or as a ghost.
    fn advance_small(&mut self) {
        let Some(item) = self.items.small.pop() else {
            return;
        };
        if !self.items.is_live(Which::Small, item) {
            return;
        }
        let number = item.object as usize;
        let promoted = matches!(self.policy, Policy::TwoLogs { threshold, .. }
            if self.items.count[number] >= threshold);
        if promoted && self.make_room(Which::Main, item.bytes) {
            self.move_to_main(Which::Small, item);
            self.items.count[number] = 0;
        } else {
            self.was[number] = Some(item.position);
            self.items.forget(item.object);
            self.warm = false;
        }
    }

    /// The oldest item of the main log gets another lap, or leaves.
    fn advance_main(&mut self) {
        let Some(item) = self.items.main.pop() else {
            return;
        };
        if !self.items.is_live(Which::Main, item) {
            return;
        }
        let count = self.items.count[item.object as usize];
        if count > 0 && self.reappends_left > 0 && self.items.main.has_room(item.bytes) {
            self.reappends_left -= 1;
            self.items.count[item.object as usize] = count - 1;
            self.move_to_main(Which::Main, item);
        } else {
            self.items.forget(item.object);
            self.warm = false;
        }
    }

    fn move_to_main(&mut self, from: Which, item: Item) {
        let hash = self.hashes[item.object as usize];
        let slot = self
            .index
            .slot_of(hash, from, item.position)
            .expect("a live item has an entry");
        self.append(Which::Main, item.object, item.bytes, slot);
        self.moves += 1;
    }

    fn grow_if_full(&mut self) {
        let full = |engine: &Self| {
            let entries = engine.index.buckets() * BUCKET_ENTRIES;
            engine.items.live as f64 > engine.parameters.load * entries as f64
        };
        while full(self) && self.grow() {}
    }

    /// Splits a bucket, for whose line the main log gives the space, if it has more than that.
    fn grow(&mut self) -> bool {
        let logs = self.capacity.saturating_sub(self.index.bytes_after_split());
        if logs <= self.items.small.capacity {
            return false;
        }
        let items = &self.items;
        self.index.split(self.hashes, |entry| items.worth(entry));
        self.items.main.capacity = logs - self.items.small.capacity;
        while self.items.main.used() > self.items.main.capacity {
            self.advance_main();
        }
        true
    }
}

impl Cache for Engine<'_> {
    fn request(&mut self, object: u32) -> bool {
        let number = object as usize;
        let Some(place) = self.items.place[number] else {
            self.insert(object);
            return false;
        };
        self.items.count[number] = self.count_max.min(self.items.count[number] + 1);
        let oldest = match self.policy {
            Policy::Lru => 1.0,
            Policy::ApproximateLru { oldest } => oldest,
            _ => return true,
        };
        let main = &self.items.main;
        if (main.tail - place.position) as f64 > main.capacity as f64 * (1.0 - oldest) {
            self.items.forget(object);
            self.insert(object);
            self.moves += 1;
        }
        true
    }

    fn moves(&self) -> u64 {
        self.moves
    }
}

#[cfg(test)]
mod tests;
