//! Policies on one circular log with a perfect index: FIFO, LRU, approximate LRU, CLOCK.

use super::log::Log;
use super::policy::{Cache, Policy};

/// The place of an object that is not in the cache.
const NOWHERE: u64 = u64::MAX;

/// One log. Payload bytes and so many bytes of header per item count against the capacity.
pub(crate) struct OneLog<'a> {
    sizes: &'a [u32],
    header_bytes: u32,
    log: Log,
    place: Vec<u64>,
    count: Vec<u8>,
    count_max: u8,
    reappends_max: u32,
    /// A hit further than this from the tail appends the item again.
    refresh_beyond: Option<u64>,
    moves: u64,
}

impl<'a> OneLog<'a> {
    /// None for a policy that needs two logs.
    pub fn new(policy: Policy, capacity: u64, sizes: &'a [u32], header_bytes: u32) -> Option<Self> {
        let mut cache = Self {
            sizes,
            header_bytes,
            log: Log::exact(capacity),
            place: vec![NOWHERE; sizes.len()],
            count: vec![0; sizes.len()],
            count_max: 0,
            reappends_max: 0,
            refresh_beyond: None,
            moves: 0,
        };
        match policy {
            Policy::Fifo => {}
            Policy::Lru => cache.refresh_beyond = Some(0),
            Policy::ApproximateLru { oldest } => {
                cache.refresh_beyond = Some((capacity as f64 * (1.0 - oldest)) as u64);
            }
            Policy::Clock {
                bits,
                reappends_max,
            } => {
                cache.count_max = ((1u32 << bits) - 1) as u8;
                cache.reappends_max = reappends_max;
            }
            Policy::TwoLogs { .. } => return None,
        }
        Some(cache)
    }

    fn insert(&mut self, object: u32) {
        let bytes = self.sizes[object as usize] + self.header_bytes;
        if u64::from(bytes) > self.log.capacity {
            return;
        }
        let mut reappends_left = self.reappends_max;
        while !self.log.has_room(bytes) {
            let Some(item) = self.log.pop() else { return };
            let number = item.object as usize;
            if self.place[number] != item.position {
                continue; // a stale copy
            }
            if self.count[number] > 0 && reappends_left > 0 {
                reappends_left -= 1;
                self.count[number] -= 1;
                self.place[number] = self.log.append(item.object, item.bytes);
                self.moves += 1;
            } else {
                self.place[number] = NOWHERE;
            }
        }
        self.place[object as usize] = self.log.append(object, bytes);
        self.count[object as usize] = 0;
    }
}

impl Cache for OneLog<'_> {
    fn request(&mut self, object: u32) -> bool {
        let number = object as usize;
        let place = self.place[number];
        if place == NOWHERE {
            self.insert(object);
            return false;
        }
        self.count[number] = self.count_max.min(self.count[number] + 1);
        if self
            .refresh_beyond
            .is_some_and(|distance| self.log.tail - place > distance)
        {
            self.place[number] = NOWHERE;
            self.insert(object);
            self.moves += 1;
        }
        true
    }

    fn moves(&self) -> u64 {
        self.moves
    }
}
