//! Items that are asked for in turn.

use crate::Random;

/// Items in a circle: a part of them for each thread.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    first: u64,
    len: u64,
}

impl Ring {
    /// A thread's part of the items `first..first + items`; at least one.
    pub fn part(first: u64, items: u64, (thread, threads): (usize, usize)) -> Self {
        let len = (items / threads as u64).max(1);
        let first = first + len * thread as u64;
        Self { first, len }
    }

    /// The item whose turn this is.
    #[inline]
    pub const fn at(&self, turn: u64) -> u64 {
        self.first + turn % self.len
    }
}

/// Items that are asked for again and again, and deleted before each time.
#[derive(Clone, Debug)]
pub(super) struct Invalidated {
    ring: Ring,
    /// Items are deleted so far ahead of their GETs.
    lead: u64,
    deleted: u64,
    read: u64,
}

impl Invalidated {
    pub fn new(ring: Ring) -> Self {
        Self { lead: (ring.len / 4).max(1), ring, deleted: 0, read: 0 }
    }

    /// The next item to be deleted: one that may be there, or, when enough are gone, again one
    /// that has been deleted and not been asked for since.
    #[inline]
    pub fn delete(&mut self, random: &mut Random) -> u64 {
        let gone = self.deleted - self.read;
        if gone < self.lead {
            self.deleted += 1;
            return self.ring.at(self.deleted - 1);
        }
        self.ring.at(self.read + random.below(gone))
    }

    /// The item that was deleted longest ago, unless all of those have been asked for.
    #[inline]
    pub fn read(&mut self) -> Option<u64> {
        if self.read == self.deleted {
            return None;
        }
        self.read += 1;
        Some(self.ring.at(self.read - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn reads_follow_deletes_of_their_items() {
        let mut items = Invalidated::new(Ring::part(100, 40, (0, 1)));
        let mut random = Random::new(2);
        let mut gone = HashSet::new();
        let (mut first, mut again) = (0, 0);
        for _ in 0..10_000 {
            if random.chance(0.6) {
                let fresh = gone.insert(items.delete(&mut random));
                *(if fresh { &mut first } else { &mut again }) += 1;
            } else if let Some(item) = items.read() {
                assert!(gone.remove(&item) && (100..140).contains(&item));
            }
            assert!(gone.len() <= 10);
        }
        assert!(first > 3000 && again > 1000, "{first} {again}");
    }

    #[test]
    fn threads_have_parts_of_their_own() {
        let parts = [0, 1, 2].map(|thread| Ring::part(7, 10, (thread, 3)));
        let items: Vec<_> = parts.iter().flat_map(|ring| (0..3).map(|turn| ring.at(turn))).collect();
        assert_eq!(items, (7..16).collect::<Vec<_>>());
        assert_eq!(parts[0].at(3), 7);
    }
}
