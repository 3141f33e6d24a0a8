//! Chunks of one partition: which live, which are free, and which wait for the end of a lease.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | lookups, marks, the record |
//! | `life.rs` | take, publish, kill |
//! | `space.rs` | free chunks, eviction, pages, leases, upkeep |
//! | `slots.rs`, `index.rs`, `class.rs` | chunks and lists; hash to chunk; classes and pages |

#[cfg(all(test, not(loom)))]
mod check;
mod class;
mod index;
mod life;
mod slots;
mod space;

pub use life::Taken;

use micanite_wire::hash::KeyHash;

use crate::layout::{UNIT_BYTES, spread};
use crate::{Area, Entry};
use class::{Class, Page};
use index::Index;
use slots::{List, Slots, State};
use space::Emptying;

/// Buckets of the index that one call searches for a dirty chunk.
const BUCKETS_SEARCHED_MAX: usize = 64;

/// Clock and data memory, which a table gets from its caller.
pub trait Host {
    /// Returns nanoseconds that never go back, on whichever CPU, and go on while the machine sleeps. It is
    /// called after a kill, never before.
    fn now_ns(&mut self) -> u64;

    /// Takes the value of a dirty chunk, which still lives, into the data memory, or drops it. Afterwards the
    /// chunk is killed, or, if its value was kept, clean. A call of the table copies back at most one chunk.
    fn copy_back(&mut self, area: &Area, chunk: &Chunk) -> CopyBack;
}

/// Fate of the value of a dirty chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyBack {
    /// The data memory has it.
    Kept,
    /// Nobody has it: no client may read it any more.
    Dropped,
}

/// Order of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Lru,
    Fifo,
}

/// Settings of all tables of an area.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub policy: Policy,
    /// Longest read that a client accepts. Dead chunks wait 1.03 times as long.
    pub lease_ns: u64,
}

/// Living chunk, as it was found.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    pub entry: Entry,
    pub hash: KeyHash,
    /// Only the chunk has the newest value.
    pub is_dirty: bool,
    /// The void count was raised after the chunk was filled: clients do not accept it.
    pub is_void: bool,
    slot: u32,
}

/// Events since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub published: u64,
    /// Items that were not cached: longer than a page.
    pub too_long: u64,
    /// Items that were not cached: no chunk was free.
    pub no_space: u64,
    /// Taken chunks that came back unpublished.
    pub given_back: u64,
    pub killed: u64,
    pub evicted: u64,
    /// Evictions of chunks whose bucket of the index was full. They count as evicted, too.
    pub crowded_out: u64,
    pub copied_back: u64,
    /// Dirty chunks whose value the host dropped.
    pub dropped: u64,
    pub pages_emptied: u64,
    pub voids: u64,
}

/// Present use of a partition's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub living: u64,
    /// Bytes of living chunks, with what their items leave unused.
    pub living_bytes: u64,
    pub dying: u64,
    pub dirty: u64,
    pub free_pages: u64,
}

/// Chunk table of one partition. Only who may write the partition uses it.
#[derive(Debug)]
pub struct Table {
    area: Area,
    partition: usize,
    config: Config,
    slots: Slots,
    index: Index,
    classes: Vec<Class>,
    pages: Vec<Page>,
    free_pages: Vec<u32>,
    /// In the order of death.
    dying: List,
    emptying: Option<Emptying>,
    first_page: usize,
    slots_per_page: u32,
    /// Count of the last version. It grows by the number of partitions, so that no two share a version.
    versions: u64,
    voids: u64,
    dirty: u64,
    /// Positions at which the next searches go on: for a page to empty, a dirty chunk, a class to evict from.
    next_page: usize,
    next_bucket: u64,
    next_class: usize,
    counters: Counters,
}

impl Table {
    /// Makes the table of a partition of a new area. Returns `None` if there is no such partition, or if it
    /// has more chunks than 32 bits count, or if the lease is 0, as no read ends within it. An area has one
    /// table for each partition.
    pub fn new(area: &Area, partition: usize, config: Config) -> Option<Self> {
        let geometry = area.geometry();
        if partition >= geometry.partitions() || config.lease_ns == 0 {
            return None;
        }
        let pages = geometry.pages_of(partition);
        let slots_per_page = geometry.page_bytes() / UNIT_BYTES;
        let slots = slots_per_page.checked_mul(pages.len()).filter(|slots| *slots < u32::MAX as usize)?;
        Some(Self {
            area: area.clone(),
            partition,
            config,
            slots: Slots::new(slots),
            index: Index::new(geometry.page_bytes() * pages.len()),
            classes: Class::all(geometry.page_bytes()),
            pages: vec![Page::FREE; pages.len()],
            free_pages: (0..pages.len() as u32).rev().collect(),
            dying: List::EMPTY,
            emptying: None,
            first_page: pages.start,
            slots_per_page: slots_per_page as u32,
            versions: partition as u64,
            voids: 0,
            dirty: 0,
            next_page: 0,
            next_bucket: 0,
            next_class: 0,
            counters: Counters::default(),
        })
    }

    pub fn area(&self) -> &Area {
        &self.area
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn usage(&self) -> Usage {
        let living = |class: &Class| (u64::from(class.living.count), u64::from(class.chunk_bytes));
        Usage {
            living: self.classes.iter().map(|class| living(class).0).sum(),
            living_bytes: self.classes.iter().map(living).map(|(count, bytes)| count * bytes).sum(),
            dying: u64::from(self.dying.count),
            dirty: self.dirty,
            free_pages: self.free_pages.len() as u64,
        }
    }

    /// Returns whether a key of this hash may have a chunk, without a cache miss.
    #[inline]
    pub fn may_have(&self, hash: KeyHash) -> bool {
        self.index.may_have(hash.0)
    }

    /// Returns the living chunk of a key.
    #[inline]
    pub fn find(&self, hash: KeyHash, key: &[u8]) -> Option<Chunk> {
        let slot = self.slot_of_hash(hash)?;
        self.area.has_key(self.offset(slot), key).then(|| self.chunk(slot))
    }

    /// Returns the living chunk of a hash, whatever its key is.
    pub fn find_hash(&self, hash: KeyHash) -> Option<Chunk> {
        self.slot_of_hash(hash).map(|slot| self.chunk(slot))
    }

    fn slot_of_hash(&self, hash: KeyHash) -> Option<u32> {
        self.index.find(hash.0, |slot| self.slots.get(slot).hash_or_death_ns == hash.0)
    }

    /// Returns the offset of a slot's chunk. Its page belongs to a class.
    fn offset(&self, slot: u32) -> usize {
        let page = slot / self.slots_per_page;
        let class = &self.classes[self.pages[page as usize].class as usize];
        let start = self.area.geometry().page_start(self.first_page + page as usize);
        start + (slot % self.slots_per_page) as usize * class.chunk_bytes as usize
    }

    fn class_of(&mut self, slot: u32) -> &mut Class {
        let class = self.page_of(slot).class;
        &mut self.classes[class as usize]
    }

    fn page_of(&mut self, slot: u32) -> &mut Page {
        &mut self.pages[(slot / self.slots_per_page) as usize]
    }

    fn chunk(&self, slot: u32) -> Chunk {
        let known = self.slots.get(slot);
        let offset = self.offset(slot);
        Chunk {
            entry: Entry { offset: offset as u64, bytes: known.bytes, version: known.version },
            hash: KeyHash(known.hash_or_death_ns),
            is_dirty: known.is_dirty,
            is_void: self.area.header_at(offset).void != spread(self.voids),
            slot,
        }
    }

    /// Returns whether the chunk still lives.
    fn lives(&self, slot: u32, version: u64) -> bool {
        if slot as usize >= self.slots.len() {
            return false;
        }
        let known = self.slots.get(slot);
        known.state == State::Living && known.version == version
    }

    /// Returns the slot of a chunk that begins at an offset, which may be any number.
    fn slot_at(&self, offset: u64) -> Option<u32> {
        let geometry = self.area.geometry();
        let offset = usize::try_from(offset).ok()?.checked_sub(geometry.page_start(self.first_page))?;
        let index = offset / geometry.page_bytes();
        let page = self.pages.get(index)?;
        let class = self.classes.get(page.class as usize)?;
        let within = offset % geometry.page_bytes();
        let (chunk, rest) = (within / class.chunk_bytes as usize, within % class.chunk_bytes as usize);
        let is_chunk = rest == 0 && chunk < page.carved as usize;
        is_chunk.then_some(index as u32 * self.slots_per_page + chunk as u32)
    }

    /// Marks a living chunk as used last, under LRU. The offset and the version may come from a client.
    /// Returns whether such a chunk lives.
    pub fn touch(&mut self, offset: u64, version: u64) -> bool {
        let Some(slot) = self.slot_at(offset).filter(|slot| self.lives(*slot, version)) else {
            return false;
        };
        if self.config.policy == Policy::Lru {
            let class = self.page_of(slot).class as usize;
            self.classes[class].living.remove(&mut self.slots, slot);
            self.classes[class].living.push_first(&mut self.slots, slot);
        }
        true
    }

    /// Marks that only this chunk has the newest value, or that the data memory has it, too. Returns whether
    /// the chunk still lives.
    pub fn set_dirty(&mut self, chunk: &Chunk, is_dirty: bool) -> bool {
        if !self.lives(chunk.slot, chunk.entry.version) {
            return false;
        }
        self.slots.change(chunk.slot, |slot| {
            self.dirty = self.dirty + u64::from(is_dirty) - u64::from(slot.is_dirty);
            slot.is_dirty = is_dirty;
        });
        true
    }

    /// Returns the number of dirty chunks.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Copies a chunk back, if it lives and is dirty. Then it lives on, clean, or dies if its value was
    /// dropped.
    pub fn clean(&mut self, chunk: &Chunk, host: &mut impl Host) -> CopyBack {
        if !self.lives(chunk.slot, chunk.entry.version) || !self.slots.get(chunk.slot).is_dirty {
            return CopyBack::Kept;
        }
        let fate = self.copy_back(chunk, host);
        match fate {
            CopyBack::Kept => {
                self.set_dirty(chunk, false);
            }
            CopyBack::Dropped => self.kill_slot(chunk.slot, host),
        }
        fate
    }

    /// Makes all chunks void for clients. They stay until they are killed or evicted.
    pub fn raise_void(&mut self) {
        self.voids += 1;
        self.counters.voids += 1;
        self.area.set_void(self.partition, spread(self.voids));
    }

    /// Sets the second from which on clients accept nothing, or removes it.
    pub fn set_flush(&mut self, second: Option<u32>) {
        self.area.set_flush(self.partition, second.map_or(0, u64::from));
    }

    /// Copies a dirty chunk back, which then lives on, clean, or dies if its value was dropped. Searches a
    /// bounded part of the index. Returns whether a dirty chunk is left.
    pub fn copy_back_next(&mut self, host: &mut impl Host) -> bool {
        for _ in 0..BUCKETS_SEARCHED_MAX.min(self.index.buckets()) {
            if self.dirty == 0 {
                break;
            }
            let mut slots = self.index.slots_in(self.next_bucket);
            let Some(slot) = slots.find(|slot| self.slots.get(*slot).is_dirty) else {
                self.next_bucket = self.next_bucket.wrapping_add(1);
                continue;
            };
            let chunk = self.chunk(slot);
            let _ = self.clean(&chunk, host);
            break;
        }
        self.dirty != 0
    }

    fn copy_back(&mut self, chunk: &Chunk, host: &mut impl Host) -> CopyBack {
        let fate = host.copy_back(&self.area, chunk);
        match fate {
            CopyBack::Kept => self.counters.copied_back += 1,
            CopyBack::Dropped => self.counters.dropped += 1,
        }
        fate
    }
}
