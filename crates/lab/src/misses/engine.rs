//! The engine's cache, modelled: item headers, index, spare buckets and both logs share one
//! capacity, and ghosts live in index entries until an insertion needs the slot.

use std::cmp::Reverse;

use micanite_wire::hash::KeyHash;

use super::index::{Entry, Index, Slot, Which, Worth};
use super::log::{Item, Log};
use super::policy::{Cache, Policy};

/// Bytes of an item without flags and expiry, besides key and value.
const HEADER_BYTES: u32 = 8;
/// Items begin at multiples of this.
const ITEM_ALIGN: u32 = 8;
/// An item above the small log's capacity over this goes straight to the main log.
const SMALL_ITEM_SHARE: u64 = 8;
/// The buckets that an empty index has.
const BUCKETS_MIN: u64 = 2;

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Parameters {
    pub policy: Policy,
    /// Live items per entry at which the index grows.
    pub load: f64,
    /// How long an entry stays a ghost: bytes appended to the small log, in units of the main.
    pub ghost_window: f64,
    /// The largest hit count.
    pub count_max: u8,
    /// Items that the main log writes again per insertion.
    pub reappends_max: u32,
    /// Ghosts in a table of their own, which costs nothing: to see what the buckets cost.
    pub perfect_ghosts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    log: Which,
    position: u64,
}

/// What happened in the index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IndexCounts {
    /// Live items that left because their bucket was full.
    pub lost: u64,
    /// Misses that matched a ghost, and those of them that were another key's.
    pub ghosts: u64,
    pub false_ghosts: u64,
}

pub(crate) struct Engine<'a> {
    sizes: &'a [u32],
    hashes: &'a [KeyHash],
    parameters: Parameters,
    capacity: u64,
    index: Index,
    small: Log,
    main: Log,
    place: Vec<Option<Place>>,
    count: Vec<u8>,
    /// With perfect ghosts, the small log's position past which each object is a ghost.
    left: Vec<Option<u64>>,
    live: u64,
    evicted: bool,
    reappends_left: u32,
    moves: u64,
    pub counts: IndexCounts,
}

impl<'a> Engine<'a> {
    pub fn new(
        parameters: Parameters,
        capacity: u64,
        sizes: &'a [u32],
        hashes: &'a [KeyHash],
    ) -> Self {
        let index = Index::new(BUCKETS_MIN);
        let data = capacity.saturating_sub(index.bytes());
        let share = match parameters.policy {
            Policy::TwoLogs { small, .. } => small,
            _ => 0.0,
        };
        let small = (data as f64 * share) as u64;
        Self {
            sizes,
            hashes,
            parameters,
            capacity,
            index,
            small: Log::in_laps(small),
            main: Log::in_laps(data - small),
            place: vec![None; sizes.len()],
            count: vec![0; sizes.len()],
            left: vec![None; sizes.len()],
            live: 0,
            evicted: false,
            reappends_left: 0,
            moves: 0,
            counts: IndexCounts::default(),
        }
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    pub fn live(&self) -> u64 {
        self.live
    }

    fn item_bytes(&self, object: u32) -> u32 {
        (HEADER_BYTES + self.sizes[object as usize]).next_multiple_of(ITEM_ALIGN)
    }

    fn window_bytes(&self) -> u64 {
        (self.main.capacity as f64 * self.parameters.ghost_window) as u64
    }

    fn worth(&self, entry: Entry) -> Worth {
        let log = match entry.log {
            Which::Small => &self.small,
            Which::Main => &self.main,
        };
        if entry.position >= log.head {
            // A dropped item is no longer live before the head reaches it.
            let place = Place {
                log: entry.log,
                position: entry.position,
            };
            if self.place[entry.object as usize] == Some(place) {
                return Worth::Live;
            }
            return Worth::Nothing;
        }
        let age = self.small.head - entry.position.min(self.small.head);
        let ghost = entry.log == Which::Small
            && !self.parameters.perfect_ghosts
            && age <= self.window_bytes();
        if ghost {
            Worth::Ghost(Reverse(age))
        } else {
            Worth::Nothing
        }
    }

    fn insert(&mut self, object: u32) {
        let bytes = self.item_bytes(object);
        let hash = self.hashes[object as usize];
        self.reappends_left = self.parameters.reappends_max;
        let ghost = self.ghost_of(object, hash);
        let Policy::TwoLogs { warm_up, .. } = self.parameters.policy else {
            return self.append(Which::Main, object, bytes, ghost);
        };
        let overflow = warm_up && !self.evicted && !self.small.has_room(bytes);
        let large = u64::from(bytes) > self.small.capacity / SMALL_ITEM_SHARE;
        let known = ghost.is_some() || self.is_perfect_ghost(object);
        let log = if known || overflow || large {
            Which::Main
        } else {
            Which::Small
        };
        self.append(log, object, bytes, ghost);
    }

    /// The slot of the ghost that the key matches, by tag.
    fn ghost_of(&mut self, object: u32, hash: KeyHash) -> Option<Slot> {
        let tag = hash.tag() as u16;
        let (slot, entry) = self
            .index
            .chain(hash)
            .filter_map(|(slot, entry)| entry.map(|entry| (slot, entry)))
            .find(|&(_, entry)| {
                entry.tag == tag && matches!(self.worth(entry), Worth::Ghost(_))
            })?;
        self.counts.ghosts += 1;
        self.counts.false_ghosts += u64::from(entry.object != object);
        // It is used up, whether or not its slot will serve for the new item.
        self.index.set(slot, None);
        Some(slot)
    }

    fn is_perfect_ghost(&mut self, object: u32) -> bool {
        let left = self.left[object as usize].take();
        self.parameters.perfect_ghosts
            && left.is_some_and(|left| self.small.head - left <= self.window_bytes())
    }

    fn append(&mut self, log: Which, object: u32, bytes: u32, slot: Option<Slot>) {
        if !self.make_room(log, bytes) {
            return;
        }
        let hash = self.hashes[object as usize];
        let slot = slot.unwrap_or_else(|| self.free_slot(hash));
        let position = self.log(log).append(object, bytes);
        self.index.set(
            slot,
            Some(Entry {
                position,
                object,
                tag: hash.tag() as u16,
                log,
            }),
        );
        self.place[object as usize] = Some(Place { log, position });
        self.count[object as usize] = 0;
        self.live += 1;
        self.grow_if_full();
    }

    fn log(&mut self, log: Which) -> &mut Log {
        match log {
            Which::Small => &mut self.small,
            Which::Main => &mut self.main,
        }
    }

    /// A slot for a new entry: an empty or worthless one, the oldest ghost's, one in another
    /// spare bucket, that of the live item with the fewest hits.
    fn free_slot(&mut self, hash: KeyHash) -> Slot {
        let of = |entry: Option<Entry>| entry.map_or(Worth::Nothing, |entry| self.worth(entry));
        let (slot, worth) = self
            .index
            .chain(hash)
            .map(|(slot, entry)| (slot, of(entry)))
            .min_by_key(|&(_, worth)| worth)
            .expect("a bucket has entries");
        if worth != Worth::Live {
            return slot;
        }
        if let Some(slot) = self.index.extend(hash) {
            return slot;
        }
        let (slot, victim) = self
            .index
            .chain(hash)
            .filter_map(|(slot, entry)| entry.map(|entry| (slot, entry)))
            .min_by_key(|(_, entry)| self.count[entry.object as usize])
            .expect("every entry is live");
        self.counts.lost += 1;
        self.drop_item(victim.object);
        slot
    }

    fn drop_item(&mut self, object: u32) {
        self.place[object as usize] = None;
        self.live -= 1;
        self.evicted = true;
    }

    fn make_room(&mut self, log: Which, bytes: u32) -> bool {
        if u64::from(bytes) > self.log(log).capacity {
            return false;
        }
        while !self.log(log).has_room(bytes) {
            match log {
                Which::Small => self.advance_small(),
                Which::Main => self.advance_main(),
            }
        }
        true
    }

    fn is_live(&self, log: Which, item: Item) -> bool {
        let place = Place {
            log,
            position: item.position,
        };
        self.place[item.object as usize] == Some(place)
    }

    /// The oldest item of the small log leaves it: for the main log, or as a ghost.
    fn advance_small(&mut self) {
        let Some(item) = self.small.pop() else { return };
        if !self.is_live(Which::Small, item) {
            return;
        }
        let threshold = match self.parameters.policy {
            Policy::TwoLogs { threshold, .. } => threshold,
            _ => u8::MAX,
        };
        if self.count[item.object as usize] >= threshold && self.make_room(Which::Main, item.bytes)
        {
            self.move_to_main(Which::Small, item);
            self.count[item.object as usize] = 0;
        } else {
            self.left[item.object as usize] = Some(item.position);
            self.drop_item(item.object);
        }
    }

    /// The oldest item of the main log gets another lap, or leaves.
    fn advance_main(&mut self) {
        let Some(item) = self.main.pop() else { return };
        if !self.is_live(Which::Main, item) {
            return;
        }
        let count = self.count[item.object as usize];
        if count > 0 && self.reappends_left > 0 && self.main.has_room(item.bytes) {
            self.reappends_left -= 1;
            self.count[item.object as usize] = count - 1;
            self.move_to_main(Which::Main, item);
        } else {
            self.drop_item(item.object);
        }
    }

    fn move_to_main(&mut self, from: Which, item: Item) {
        let hash = self.hashes[item.object as usize];
        let slot = self
            .index
            .slot_of(hash, from, item.position)
            .expect("a live item has an entry");
        let position = self.main.append(item.object, item.bytes);
        let entry = Entry {
            position,
            object: item.object,
            tag: hash.tag() as u16,
            log: Which::Main,
        };
        self.index.set(slot, Some(entry));
        self.place[item.object as usize] = Some(Place {
            log: Which::Main,
            position,
        });
        self.moves += 1;
    }

    /// Splits buckets while the index is too full; the main log gives the space.
    fn grow_if_full(&mut self) {
        while self.live as f64 > self.parameters.load * self.index.entries() as f64 {
            let hashes = self.hashes;
            let mut index = std::mem::replace(&mut self.index, Index::new(BUCKETS_MIN));
            index.split(hashes, |entry| self.worth(entry));
            self.index = index;
            let logs = self.capacity.saturating_sub(self.index.bytes());
            self.main.capacity = logs.saturating_sub(self.small.capacity);
            while self.main.used() > self.main.capacity {
                self.advance_main();
            }
        }
    }
}

impl Cache for Engine<'_> {
    fn request(&mut self, object: u32) -> bool {
        let number = object as usize;
        let Some(place) = self.place[number] else {
            self.insert(object);
            return false;
        };
        self.count[number] = self.parameters.count_max.min(self.count[number] + 1);
        if let Policy::ApproximateLru { oldest } = self.parameters.policy
            && (self.main.tail - place.position) as f64
                > self.main.capacity as f64 * (1.0 - oldest)
        {
            self.drop_item(object);
            self.insert(object);
            self.moves += 1;
        }
        true
    }

    fn moves(&self) -> u64 {
        self.moves
    }
}
