//! The engine's index, modelled: buckets of seven entries that grow by linear hashing, spare
//! buckets behind full ones, and entries that outlive their item.

use micanite_engine::{Buckets, IndexHash};

/// Bytes of a bucket: a version word and seven entries.
pub(crate) const BUCKET_BYTES: u64 = 64;
pub(crate) const BUCKET_ENTRIES: usize = 7;

const NO_SPARE: u32 = u32::MAX;

/// Where an entry points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Small,
    Main,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub position: u64,
    pub object: u32,
    pub tag: u16,
    pub log: Which,
}

/// What an entry is good for, in the order in which an insertion prefers its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Worth {
    /// Its item is gone and nothing is to be learnt from it.
    Nothing,
    /// A ghost, inserted so many bytes of the small log ago (the oldest goes first).
    Ghost(std::cmp::Reverse<u64>),
    Live,
}

#[derive(Clone, Debug)]
struct Bucket {
    entries: [Option<Entry>; BUCKET_ENTRIES],
    next: u32,
}

impl Bucket {
    const EMPTY: Self = Self {
        entries: [None; BUCKET_ENTRIES],
        next: NO_SPARE,
    };
}

/// A slot: bucket or spare bucket, and the place in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    bucket: u32,
    spare: bool,
    place: usize,
}

#[derive(Debug)]
pub(crate) struct Index {
    numbering: Buckets,
    buckets: Vec<Bucket>,
    spares: Vec<Bucket>,
    spares_free: Vec<u32>,
    buckets_per_spare: usize,
}

impl Index {
    /// One bucket or more, and one spare bucket for so many of them.
    pub fn new(buckets: u64, buckets_per_spare: usize) -> Self {
        let mut index = Self {
            numbering: Buckets::new(buckets),
            buckets: vec![Bucket::EMPTY; buckets as usize],
            spares: Vec::new(),
            spares_free: Vec::new(),
            buckets_per_spare,
        };
        index.add_spares();
        index
    }

    fn add_spares(&mut self) {
        while self.spares.len() < self.buckets.len().div_ceil(self.buckets_per_spare) {
            self.spares_free.push(self.spares.len() as u32);
            self.spares.push(Bucket::EMPTY);
        }
    }

    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    pub fn bytes(&self) -> u64 {
        (self.buckets.len() + self.spares.len()) as u64 * BUCKET_BYTES
    }

    pub fn bytes_after_split(&self) -> u64 {
        let buckets = self.buckets.len() + 1;
        (buckets + buckets.div_ceil(self.buckets_per_spare)) as u64 * BUCKET_BYTES
    }

    fn first(&self, hash: IndexHash) -> u32 {
        hash.bucket(self.numbering) as u32
    }

    /// The slots of the chain of a key, with what is in them.
    pub fn chain(&self, hash: IndexHash) -> impl Iterator<Item = (Slot, Option<Entry>)> {
        self.chain_of(self.first(hash))
    }

    fn chain_of(&self, first: u32) -> impl Iterator<Item = (Slot, Option<Entry>)> {
        let mut at = Some((first, false));
        std::iter::from_fn(move || {
            let (bucket, spare) = at?;
            let lines = if spare { &self.spares } else { &self.buckets };
            let line = &lines[bucket as usize];
            at = (line.next != NO_SPARE).then_some((line.next, true));
            Some(line.entries.iter().enumerate().map(move |(place, entry)| {
                let slot = Slot {
                    bucket,
                    spare,
                    place,
                };
                (slot, *entry)
            }))
        })
        .flatten()
    }

    pub fn set(&mut self, slot: Slot, entry: Option<Entry>) {
        let lines = if slot.spare {
            &mut self.spares
        } else {
            &mut self.buckets
        };
        lines[slot.bucket as usize].entries[slot.place] = entry;
    }

    /// The slot of an item that is in the index.
    pub fn slot_of(&self, hash: IndexHash, log: Which, position: u64) -> Option<Slot> {
        self.chain(hash)
            .find(|(_, entry)| entry.is_some_and(|e| e.log == log && e.position == position))
            .map(|(slot, _)| slot)
    }

    /// A slot of the key's chain that holds nothing live, the least worth first; otherwise one in
    /// a new spare bucket.
    pub fn free_slot(&mut self, hash: IndexHash, worth: impl Fn(Entry) -> Worth) -> Option<Slot> {
        let of = |entry: Option<Entry>| entry.map_or(Worth::Nothing, &worth);
        self.chain(hash)
            .map(|(slot, entry)| (slot, of(entry)))
            .filter(|&(_, worth)| worth != Worth::Live)
            .min_by_key(|&(_, worth)| worth)
            .map(|(slot, _)| slot)
            .or_else(|| self.extend(self.first(hash)))
    }

    /// Chains a spare bucket behind the last one of a chain, and tells its first slot.
    fn extend(&mut self, first: u32) -> Option<Slot> {
        let spare = self.spares_free.pop()?;
        self.spares[spare as usize] = Bucket::EMPTY;
        let mut last = &mut self.buckets[first as usize].next;
        while *last != NO_SPARE {
            let next = *last as usize;
            last = &mut self.spares[next].next;
        }
        *last = spare;
        Some(Slot {
            bucket: spare,
            spare: true,
            place: 0,
        })
    }

    /// Gives back the last spare bucket of a key's chain if the others have slots for what is live
    /// in it and one for a new entry.
    pub fn shorten(&mut self, hash: IndexHash, worth: impl Fn(Entry) -> Worth) {
        let chain: Vec<(Slot, Option<Entry>)> = self.chain(hash).collect();
        let lines = chain.len() / BUCKET_ENTRIES;
        let is_live = |entry: &Option<Entry>| entry.is_some_and(|e| worth(e) == Worth::Live);
        let live = chain.iter().filter(|(_, entry)| is_live(entry)).count();
        if lines == 1 || live >= BUCKET_ENTRIES * (lines - 1) {
            return;
        }
        let (kept, last) = chain.split_at(BUCKET_ENTRIES * (lines - 1));
        let mut targets: Vec<_> = kept.iter().filter(|(_, entry)| !is_live(entry)).collect();
        targets.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.map_or(Worth::Nothing, &worth)));
        for (_, entry) in last.iter().filter(|(_, entry)| is_live(entry)) {
            let (slot, _) = targets.pop().expect("slots were counted");
            self.set(*slot, *entry);
        }
        let before = kept[kept.len() - 1].0;
        let line = if before.spare {
            &mut self.spares[before.bucket as usize]
        } else {
            &mut self.buckets[before.bucket as usize]
        };
        line.next = NO_SPARE;
        self.spares_free.push(last[0].0.bucket);
    }

    /// Adds a bucket and moves to it what belongs there. The hash of a ghost's key is gone with
    /// its item: ghosts stay where they are, or end when there is no slot for them.
    pub fn split(&mut self, hashes: &[IndexHash], worth: impl Fn(Entry) -> Worth) {
        let source = self.numbering.split_from() as u32;
        let mut entries: Vec<Entry> = self.chain_of(source).filter_map(|(_, e)| e).collect();
        entries.retain(|&entry| worth(entry) > Worth::Nothing);
        entries.sort_by_key(|&entry| std::cmp::Reverse(worth(entry)));
        let mut line = std::mem::replace(&mut self.buckets[source as usize], Bucket::EMPTY);
        while line.next != NO_SPARE {
            self.spares_free.push(line.next);
            line = std::mem::replace(&mut self.spares[line.next as usize], Bucket::EMPTY);
        }
        self.numbering = self.numbering.grown();
        self.buckets.push(Bucket::EMPTY);
        self.add_spares();
        for entry in entries {
            let live = worth(entry) == Worth::Live;
            let hash = hashes[entry.object as usize];
            let target = if live { self.first(hash) } else { source };
            let empty = self.chain_of(target).find(|(_, e)| e.is_none());
            let slot = match empty {
                Some((slot, _)) => Some(slot),
                None if live => self.extend(target),
                None => None,
            };
            if let Some(slot) = slot {
                self.set(slot, Some(entry));
            }
        }
    }
}
