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
    /// Bytes of the remembered objects, in units of the main log.
    pub ghosts: f64,
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
            ghosts: Log::exact((main as f64 * setup.ghosts) as u64),
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
