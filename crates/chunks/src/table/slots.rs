//! State of each chunk of a table, and lists of chunks.

/// No slot: the end of a list.
pub const NONE: u32 = u32::MAX;

/// State of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does not exist: its page is free, or is being emptied.
    Absent,
    /// In the list of free chunks of its class.
    Free,
    /// In the hands of a caller, who fills it.
    Taken,
    /// In the index, and in the list of living chunks of its class.
    Living,
    /// In the list of dying chunks of the partition, for a lease.
    Dying,
}

/// Chunk, as the table knows it.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Hash of the key while it lives; the moment of its death, in ns, afterwards.
    pub hash_or_death_ns: u64,
    pub version: u64,
    previous: u32,
    next: u32,
    /// Bytes of the item with its header.
    pub bytes: u32,
    pub state: State,
    pub is_dirty: bool,
}

/// Slots of a partition: half a cache line each. Zeros mean absent, so that the pages of memory of slots that
/// were never used are never touched.
#[derive(Debug)]
pub struct Slots(Vec<[u64; 4]>);

impl Slots {
    pub fn new(count: usize) -> Self {
        Self(vec![[0; 4]; count])
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub fn get(&self, slot: u32) -> Slot {
        let [hash_or_death_ns, version, links, rest] = self.0[slot as usize];
        let state = match rest >> 32 & 7 {
            0 => State::Absent,
            1 => State::Free,
            2 => State::Taken,
            3 => State::Living,
            _ => State::Dying,
        };
        Slot {
            hash_or_death_ns,
            version,
            previous: links as u32,
            next: (links >> 32) as u32,
            bytes: rest as u32,
            state,
            is_dirty: rest >> 35 & 1 == 1,
        }
    }

    #[inline]
    pub fn set(&mut self, at: u32, slot: Slot) {
        let links = u64::from(slot.previous) | u64::from(slot.next) << 32;
        let marks = slot.state as u64 | u64::from(slot.is_dirty) << 3;
        let rest = u64::from(slot.bytes) | marks << 32;
        self.0[at as usize] = [slot.hash_or_death_ns, slot.version, links, rest];
    }

    pub fn change(&mut self, at: u32, change: impl FnOnce(&mut Slot)) {
        let mut slot = self.get(at);
        change(&mut slot);
        self.set(at, slot);
    }
}

/// Doubly linked list of slots. A slot is in one list at most.
#[derive(Clone, Copy, Debug)]
pub struct List {
    first: u32,
    last: u32,
    pub count: u32,
}

impl List {
    pub const EMPTY: Self = Self { first: NONE, last: NONE, count: 0 };

    pub fn first(&self) -> Option<u32> {
        Some(self.first).filter(|slot| *slot != NONE)
    }

    pub fn last(&self) -> Option<u32> {
        Some(self.last).filter(|slot| *slot != NONE)
    }

    pub fn push_first(&mut self, slots: &mut Slots, slot: u32) {
        let next = std::mem::replace(&mut self.first, slot);
        slots.change(slot, |slot| (slot.previous, slot.next) = (NONE, next));
        match next {
            NONE => self.last = slot,
            _ => slots.change(next, |next| next.previous = slot),
        }
        self.count += 1;
    }

    pub fn push_last(&mut self, slots: &mut Slots, slot: u32) {
        let previous = std::mem::replace(&mut self.last, slot);
        slots.change(slot, |slot| (slot.previous, slot.next) = (previous, NONE));
        match previous {
            NONE => self.first = slot,
            _ => slots.change(previous, |previous| previous.next = slot),
        }
        self.count += 1;
    }

    /// Removes a slot that is in this list.
    pub fn remove(&mut self, slots: &mut Slots, slot: u32) {
        let Slot { previous, next, .. } = slots.get(slot);
        match previous {
            NONE => self.first = next,
            _ => slots.change(previous, |previous| previous.next = next),
        }
        match next {
            NONE => self.last = previous,
            _ => slots.change(next, |next| next.previous = previous),
        }
        self.count -= 1;
    }

    /// Iterates from the first slot on.
    #[cfg(all(test, not(loom)))]
    pub fn iter<'a>(&self, slots: &'a Slots) -> impl Iterator<Item = u32> + use<'a> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let slot = Some(next).filter(|slot| *slot != NONE)?;
            next = slots.get(slot).next;
            Some(slot)
        })
    }
}
