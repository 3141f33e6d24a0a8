//! The engine's index, modelled: buckets of seven entries that grow by linear hashing, spare
//! buckets behind full ones, and entries that outlive their item.

use micanite_wire::hash::KeyHash;

/// Bytes of a bucket: a version word and seven entries.
pub(crate) const BUCKET_BYTES: u64 = 64;
pub(crate) const BUCKET_ENTRIES: usize = 7;
/// One spare bucket for so many buckets.
pub(crate) const BUCKETS_PER_SPARE: u64 = 10;

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
    buckets: Vec<Bucket>,
    spares: Vec<Bucket>,
    spares_free: Vec<u32>,
}

impl Index {
    /// Two or more buckets.
    pub fn new(buckets: u64) -> Self {
        let mut index = Self {
            buckets: vec![Bucket::EMPTY; buckets as usize],
            spares: Vec::new(),
            spares_free: Vec::new(),
        };
        index.add_spares();
        index
    }

    fn add_spares(&mut self) {
        let wanted = self.buckets.len().div_ceil(BUCKETS_PER_SPARE as usize);
        while self.spares.len() < wanted {
            self.spares_free.push(self.spares.len() as u32);
            self.spares.push(Bucket::EMPTY);
        }
    }

    pub fn bytes(&self) -> u64 {
        (self.buckets.len() + self.spares.len()) as u64 * BUCKET_BYTES
    }

    pub fn entries(&self) -> u64 {
        (self.buckets.len() * BUCKET_ENTRIES) as u64
    }

    pub fn spares_used(&self) -> usize {
        self.spares.len() - self.spares_free.len()
    }

    fn first(&self, hash: KeyHash) -> u32 {
        hash.bucket(self.buckets.len() as u64) as u32
    }

    /// The slots of the chain of a key, with what is in them.
    pub fn chain(&self, hash: KeyHash) -> impl Iterator<Item = (Slot, Option<Entry>)> {
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
    pub fn slot_of(&self, hash: KeyHash, log: Which, position: u64) -> Option<Slot> {
        self.chain(hash)
            .find(|(_, entry)| entry.is_some_and(|e| e.log == log && e.position == position))
            .map(|(slot, _)| slot)
    }

    /// Chains a spare bucket behind the last one of a key's chain.
    pub fn extend(&mut self, hash: KeyHash) -> Option<Slot> {
        let spare = self.spares_free.pop()?;
        self.spares[spare as usize] = Bucket::EMPTY;
        let first = self.first(hash);
        let mut last = &mut self.buckets[first as usize];
        while last.next != NO_SPARE {
            last = &mut self.spares[last.next as usize];
        }
        last.next = spare;
        Some(Slot {
            bucket: spare,
            spare: true,
            place: 0,
        })
    }

    /// Adds a bucket and moves to it what belongs there. The hash of a ghost's key is gone with
    /// its item: ghosts stay where they are, or end when there is no slot for them.
    pub fn split(&mut self, hashes: &[KeyHash], worth: impl Fn(Entry) -> Worth) {
        let number = self.buckets.len() as u64;
        let source = KeyHash::split_from(number) as u32;
        let mut entries: Vec<Entry> = self.chain_of(source).filter_map(|(_, e)| e).collect();
        entries.retain(|&entry| worth(entry) > Worth::Nothing);
        entries.sort_by_key(|&entry| std::cmp::Reverse(worth(entry)));
        let mut line = std::mem::replace(&mut self.buckets[source as usize], Bucket::EMPTY);
        while line.next != NO_SPARE {
            self.spares_free.push(line.next);
            line = std::mem::replace(&mut self.spares[line.next as usize], Bucket::EMPTY);
        }
        self.buckets.push(Bucket::EMPTY);
        self.add_spares();
        for entry in entries {
            let live = worth(entry) == Worth::Live;
            let hash = hashes[entry.object as usize];
            let target = if live { self.first(hash) } else { source };
            let empty = self.chain_of(target).find(|(_, e)| e.is_none());
            let slot = match empty {
                Some((slot, _)) => Some(slot),
                None if live => self.extend(hash),
                None => None,
            };
            if let Some(slot) = slot {
                self.set(slot, Some(entry));
            }
        }
    }
}
