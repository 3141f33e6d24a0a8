//! What the modelled engine knows about items: the two logs, and where each object lies.

use std::cmp::Reverse;

use super::index::{Entry, Which, Worth};
use crate::misses::log::{Item, Log};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub log: Which,
    pub position: u64,
}

#[derive(Debug)]
pub(crate) struct Items {
    pub small: Log,
    pub main: Log,
    /// The place of each object that is in the cache.
    pub place: Vec<Option<Place>>,
    /// Hits of each object that is in the cache, up to a limit.
    pub count: Vec<u8>,
    pub live: u64,
    /// An entry is a ghost for so many bytes appended to the small log, in units of the main.
    pub ghost_window: f64,
}

impl Items {
    pub fn new(objects: usize, small: u64, main: u64, ghost_window: f64) -> Self {
        Self {
            small: Log::in_laps(small),
            main: Log::in_laps(main),
            place: vec![None; objects],
            count: vec![0; objects],
            live: 0,
            ghost_window,
        }
    }

    pub fn log(&mut self, log: Which) -> &mut Log {
        match log {
            Which::Small => &mut self.small,
            Which::Main => &mut self.main,
        }
    }

    /// Whether what was appended there is the item, and not a copy it left behind.
    pub fn is_live(&self, log: Which, item: Item) -> bool {
        let position = item.position;
        self.place[item.object as usize] == Some(Place { log, position })
    }

    /// Whether an item that was appended there to the small log left it not long ago.
    pub fn is_recent(&self, position: u64) -> bool {
        self.age(position)
            .is_some_and(|age| age as f64 <= self.main.capacity as f64 * self.ghost_window)
    }

    /// Bytes between a position that has left the small log and its head.
    fn age(&self, position: u64) -> Option<u64> {
        self.small.head.checked_sub(position).filter(|&age| age > 0)
    }

    pub fn worth(&self, entry: Entry) -> Worth {
        let Entry { log, position, .. } = entry;
        if self.place[entry.object as usize] == Some(Place { log, position }) {
            return Worth::Live;
        }
        match self.age(position) {
            Some(age) if log == Which::Small && self.is_recent(position) => {
                Worth::Ghost(Reverse(age))
            }
            _ => Worth::Nothing,
        }
    }

    pub fn forget(&mut self, object: u32) {
        self.place[object as usize] = None;
        self.live -= 1;
    }
}
