//! S3-FIFO on two circular logs with a perfect index and a perfect table of ghosts (Yang, Zhang,
//! Qiu, Yue, Rashmi: FIFO queues are all you need for cache eviction, SOSP 2023).

use super::log::Log;
use super::policy::Cache;

/// The largest hit count of an item.
const COUNT_MAX: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Nowhere,
    Ghost,
    Small,
    Main,
}

/// How the two logs are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// The small log's share of the capacity.
    pub small: f64,
    /// Hits from which an item is promoted when it leaves the small log.
    pub threshold: u8,
    /// Until the first eviction, what does not fit into the small log goes to the main log.
    pub warm_up: bool,
    pub header_bytes: u32,
}

/// Two logs and a queue of ghosts that has as many bytes as the main log.
pub(crate) struct TwoLogs<'a> {
    sizes: &'a [u32],
    setup: Setup,
    small: Log,
    main: Log,
    ghosts: Log,
    /// Where an object is, and the position there: a ghost queue entry of another position is
    /// out of date.
    place: Vec<(Place, u64)>,
    count: Vec<u8>,
    evicted: bool,
    moves: u64,
}

impl<'a> TwoLogs<'a> {
    pub fn new(setup: Setup, capacity: u64, sizes: &'a [u32]) -> Self {
        let small = (capacity as f64 * setup.small) as u64;
        let main = capacity - small;
        Self {
            sizes,
            setup,
            small: Log::exact(small),
            main: Log::exact(main),
            ghosts: Log::exact(main),
            place: vec![(Place::Nowhere, 0); sizes.len()],
            count: vec![0; sizes.len()],
            evicted: false,
            moves: 0,
        }
    }

    fn insert(&mut self, object: u32) {
        let bytes = self.sizes[object as usize] + self.setup.header_bytes;
        let known = self.place[object as usize].0 == Place::Ghost;
        let overflow = self.setup.warm_up && !self.evicted && !self.small.has_room(bytes);
        self.count[object as usize] = 0;
        if known || overflow || u64::from(bytes) > self.small.capacity {
            self.append_main(object, bytes);
        } else {
            while !self.small.has_room(bytes) {
                self.evict_small();
            }
            let position = self.small.append(object, bytes);
            self.place[object as usize] = (Place::Small, position);
        }
    }

    fn evict_small(&mut self) {
        let Some(item) = self.small.pop() else { return };
        let number = item.object as usize;
        if self.count[number] >= self.setup.threshold {
            self.count[number] = 0;
            self.moves += 1;
            self.append_main(item.object, item.bytes);
        } else {
            self.evicted = true;
            self.remember(item.object, item.bytes);
        }
    }

    fn remember(&mut self, object: u32, bytes: u32) {
        if u64::from(bytes) > self.ghosts.capacity {
            self.place[object as usize] = (Place::Nowhere, 0);
            return;
        }
        while !self.ghosts.has_room(bytes) {
            let Some(old) = self.ghosts.pop() else { break };
            let place = &mut self.place[old.object as usize];
            if *place == (Place::Ghost, old.position) {
                *place = (Place::Nowhere, 0);
            }
        }
        let position = self.ghosts.append(object, bytes);
        self.place[object as usize] = (Place::Ghost, position);
    }

    fn append_main(&mut self, object: u32, bytes: u32) {
        if u64::from(bytes) > self.main.capacity {
            self.place[object as usize] = (Place::Nowhere, 0);
            return;
        }
        while !self.main.has_room(bytes) {
            let Some(item) = self.main.pop() else { break };
            let number = item.object as usize;
            if self.count[number] > 0 {
                self.count[number] -= 1;
                self.moves += 1;
                let position = self.main.append(item.object, item.bytes);
                self.place[number] = (Place::Main, position);
            } else {
                self.evicted = true;
                self.place[number] = (Place::Nowhere, 0);
            }
        }
        let position = self.main.append(object, bytes);
        self.place[object as usize] = (Place::Main, position);
    }
}

impl Cache for TwoLogs<'_> {
    fn request(&mut self, object: u32) -> bool {
        let number = object as usize;
        if matches!(self.place[number].0, Place::Small | Place::Main) {
            self.count[number] = COUNT_MAX.min(self.count[number] + 1);
            return true;
        }
        self.insert(object);
        false
    }

    fn moves(&self) -> u64 {
        self.moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(setup: Setup, capacity: u64, requests: &[u32]) -> Vec<bool> {
        let mut cache = TwoLogs::new(setup, capacity, &[10; 20]);
        requests.iter().map(|&o| cache.request(o)).collect()
    }

    /// A small log of two items and a main log of three.
    const SETUP: Setup = Setup {
        small: 0.4,
        threshold: 2,
        warm_up: false,
        header_bytes: 0,
    };

    #[test]
    fn two_hits_promote_one_makes_a_ghost_that_returns() {
        // 0 with two hits moves to the main log, 1 with one hit leaves; 2 and 3 fill the small
        // log. 1 comes back as a known ghost: to the main log, where 4 to 6 do not reach it.
        let requests = [0, 0, 0, 1, 1, 2, 3, 0, 1, 4, 5, 6, 1, 0];
        let expected = [0, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1].map(|hit| hit == 1);
        assert_eq!(hits(SETUP, 50, &requests), expected);
    }

    #[test]
    fn a_ghost_is_forgotten_when_more_have_left_than_the_main_log_holds() {
        // 0 and 1 are filled in; 2 to 4 push out 0 to 2, three ghosts: 0 is the oldest of them.
        let mut requests = vec![0, 1, 2, 3, 4];
        requests.extend([0, 5, 6, 0]);
        assert!(hits(SETUP, 50, &requests)[8], "it returned to the main log");
        // One more pushes it out of the ghosts: it returns to the small log and leaves again.
        let mut requests = vec![0, 1, 2, 3, 4, 5];
        requests.extend([0, 6, 7, 0]);
        assert!(
            !hits(SETUP, 50, &requests)[9],
            "it returned to the small log"
        );
    }

    #[test]
    fn during_warm_up_the_overflow_goes_to_the_main_log() {
        let requests = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4];
        let warm_up = Setup {
            warm_up: true,
            ..SETUP
        };
        let all = hits(warm_up, 50, &requests);
        assert_eq!(all.iter().filter(|&&hit| hit).count(), 5);
        assert!(!hits(SETUP, 50, &requests[..6])[5]);
    }

    #[test]
    fn an_item_larger_than_the_small_log_goes_to_the_main_log() {
        let mut cache = TwoLogs::new(SETUP, 50, &[30, 10, 31]);
        assert!(!cache.request(0) && cache.request(0));
        assert!(!cache.request(2) && !cache.request(2), "it fits nowhere");
        assert!(cache.request(0));
    }
}
