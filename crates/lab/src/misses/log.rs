//! A byte-exact circular log that remembers which object lies where.

use std::collections::VecDeque;

/// The object number of a gap at the end of a lap.
const GAP: u32 = u32::MAX;

/// An item in a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub object: u32,
    pub bytes: u32,
    /// Bytes appended to the log before this item.
    pub position: u64,
}

/// Items from head (oldest) to tail, in at most `capacity` bytes.
#[derive(Debug)]
pub(crate) struct Log {
    items: VecDeque<Item>,
    pub capacity: u64,
    pub head: u64,
    pub tail: u64,
    /// Where the present lap began; none when items may wrap around the end.
    lap: Option<u64>,
}

impl Log {
    /// A log of which every byte can be used.
    pub fn exact(capacity: u64) -> Self {
        Self {
            items: VecDeque::new(),
            capacity,
            head: 0,
            tail: 0,
            lap: None,
        }
    }

    /// A log where an item that does not fit before the end begins the next lap.
    pub fn in_laps(capacity: u64) -> Self {
        Self {
            lap: Some(0),
            ..Self::exact(capacity)
        }
    }

    /// Bytes that an append of `bytes` takes up, with the gap before the end of the lap.
    pub fn need(&self, bytes: u32) -> u64 {
        self.gap(bytes) + u64::from(bytes)
    }

    fn gap(&self, bytes: u32) -> u64 {
        let Some(lap) = self.lap.filter(|_| self.used() > 0) else {
            return 0; // an empty log begins a lap where it is
        };
        let end = lap + self.capacity;
        if self.tail + u64::from(bytes) > end {
            end.saturating_sub(self.tail)
        } else {
            0
        }
    }

    pub fn has_room(&self, bytes: u32) -> bool {
        self.used() + self.need(bytes) <= self.capacity
    }

    pub fn used(&self) -> u64 {
        self.tail - self.head
    }

    /// Appends an item for which there is room, and tells its position.
    pub fn append(&mut self, object: u32, bytes: u32) -> u64 {
        if let Some(lap) = self.lap
            && self.tail + u64::from(bytes) > lap + self.capacity
        {
            let gap = self.gap(bytes);
            if gap > 0 {
                self.push(GAP, gap as u32);
            }
            self.lap = Some(self.tail);
        }
        self.push(object, bytes)
    }

    fn push(&mut self, object: u32, bytes: u32) -> u64 {
        let position = self.tail;
        self.items.push_back(Item {
            object,
            bytes,
            position,
        });
        self.tail += u64::from(bytes);
        position
    }

    /// Takes the oldest item out.
    pub fn pop(&mut self) -> Option<Item> {
        loop {
            let item = self.items.pop_front()?;
            self.head += u64::from(item.bytes);
            if item.object != GAP {
                return Some(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_log_uses_every_byte() {
        let mut log = Log::exact(25);
        assert_eq!((log.append(0, 10), log.append(1, 15)), (0, 10));
        assert!(!log.has_room(1) && log.used() == 25);
        assert_eq!(log.pop().map(|item| item.object), Some(0));
        assert!(log.has_room(10) && !log.has_room(11));
        assert_eq!(log.append(2, 10), 25);
    }

    #[test]
    fn an_item_that_does_not_fit_before_the_end_begins_a_lap() {
        let mut log = Log::in_laps(25);
        log.append(0, 10);
        log.append(1, 10);
        assert_eq!(log.need(10), 15, "five bytes before the end are lost");
        assert!(!log.has_room(10));
        log.pop();
        assert!(log.has_room(10) && !log.has_room(11));
        assert_eq!(log.append(2, 10), 25);
        assert_eq!(log.need(10), 10, "the lap ends at 50");
        assert_eq!(log.pop().map(|item| item.object), Some(1));
        assert_eq!(log.pop().map(|item| item.object), Some(2), "past the gap");
        assert!(log.pop().is_none() && log.used() == 0);
        assert_eq!(log.need(20), 20, "an empty log begins a lap where it is");
        assert_eq!(log.append(3, 20), 35);
        assert_eq!(log.need(10), 15, "the lap ends at 60");
    }
}
