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

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests that hit in a log of three items of ten bytes.
    fn hits(policy: &str, requests: &[u32]) -> (Vec<u32>, u64) {
        let policy = policy.parse().expect("a policy");
        let mut cache = OneLog::new(policy, 30, &[10; 20], 0).expect("one log");
        let hits = requests.iter().copied().filter(|&o| cache.request(o));
        (hits.collect(), cache.moves())
    }

    #[test]
    fn fifo_takes_no_notice_of_hits() {
        assert_eq!(hits("fifo", &[0, 1, 2, 0, 3, 1, 0]), (vec![0, 1], 0));
    }

    #[test]
    fn lru_by_appending_leaves_stale_copies_in_the_log() {
        // The log holds 1, 2, 0; 3 pushes out 1, which plain LRU, too, would have done.
        assert_eq!(hits("lru", &[0, 1, 2, 0, 3, 2, 0]), (vec![0, 2, 0], 3));
        // After four hits on 0 nothing but copies of it are left.
        assert_eq!(hits("lru", &[0, 1, 2, 0, 0, 0, 1]), (vec![0, 0, 0], 3));
    }

    #[test]
    fn approximate_lru_appends_only_what_is_in_the_oldest_part() {
        // 1 is 20 bytes from the tail and stays; 0, 30 bytes from it, is appended.
        assert_eq!(hits("alru:0.5", &[0, 1, 2, 2, 3, 0]), (vec![2], 0));
        assert_eq!(hits("alru:0.5", &[0, 1, 2, 0, 3, 3]), (vec![0, 3], 1));
    }

    #[test]
    fn clock_gives_a_lap_per_counted_hit() {
        // 0 is appended again when 3 needs room, and leaves when its count is used up.
        assert_eq!(hits("clock:1", &[0, 0, 1, 2, 3, 0]), (vec![0, 0], 1));
        assert_eq!(
            hits("clock:1", &[0, 0, 0, 1, 2, 3, 4, 5, 0]),
            (vec![0, 0], 1)
        );
        assert_eq!(
            hits("clock:2", &[0, 0, 0, 1, 2, 3, 4, 5, 0]),
            (vec![0, 0, 0], 2)
        );
    }

    #[test]
    fn clock_appends_no_more_than_allowed_per_insertion() {
        let requests = [0, 1, 2, 0, 1, 2, 3, 0];
        // All are counted: each gets a lap, which brings 0 back to the head, and it leaves.
        assert_eq!(hits("clock:1", &requests), (vec![0, 1, 2], 3));
        // Only 0 may be appended: 1 leaves instead.
        assert_eq!(hits("clock:1:1", &requests), (vec![0, 1, 2, 0], 1));
    }

    #[test]
    fn what_is_larger_than_the_log_is_never_in_it() {
        let mut cache = OneLog::new(Policy::Fifo, 30, &[31, 30], 0).expect("one log");
        assert!(!cache.request(0) && !cache.request(0));
        assert!(!cache.request(1) && cache.request(1));
        let mut cache = OneLog::new(Policy::Fifo, 30, &[31, 30], 1).expect("one log");
        assert!(!cache.request(1) && !cache.request(1));
    }
}
