//! Exact FIFO and LRU: a list of the objects that are there.

use super::Accounting;
use super::cache::{Cache, Stored};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    newer: u32,
    older: u32,
    /// Bytes that it takes; [`NONE`] if it is not there.
    bytes: u32,
    expiry_s: u32,
}

const ABSENT: Node = Node { newer: NONE, older: NONE, bytes: NONE, expiry_s: 0 };

/// FIFO, or LRU if requested objects become the newest.
#[derive(Debug)]
pub(crate) struct Exact {
    nodes: Vec<Node>,
    newest: u32,
    oldest: u32,
    renews: bool,
    capacity: u64,
    used: u64,
    accounting: Accounting,
    now_s: u32,
}

impl Exact {
    pub fn new(renews: bool, objects: usize, capacity: u64, accounting: Accounting) -> Self {
        Self {
            nodes: vec![ABSENT; objects],
            newest: NONE,
            oldest: NONE,
            renews,
            capacity,
            used: 0,
            accounting,
            now_s: 0,
        }
    }

    /// Adds an object that is not there, and returns its number.
    pub fn add_object(&mut self) -> u32 {
        let number = self.nodes.len() as u32;
        self.nodes.push(ABSENT);
        number
    }

    fn remove(&mut self, object: u32) {
        let Node { newer, older, bytes, .. } = self.nodes[object as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        self.nodes[object as usize].bytes = NONE;
        self.used -= u64::from(bytes);
    }

    fn push(&mut self, object: u32, bytes: u32, expiry_s: u32) {
        let older = self.newest;
        self.nodes[object as usize] = Node { newer: NONE, older, bytes, expiry_s };
        match older {
            NONE => self.oldest = object,
            older => self.nodes[older as usize].newer = object,
        }
        self.newest = object;
        self.used += u64::from(bytes);
    }
}

impl Cache for Exact {
    fn turn(&mut self, _: usize, now_s: u32) {
        self.now_s = now_s;
    }

    fn read(&mut self, object: u32) -> bool {
        if !self.has(object) {
            return false;
        }
        if self.renews && self.newest != object {
            let Node { bytes, expiry_s, .. } = self.nodes[object as usize];
            self.remove(object);
            self.push(object, bytes, expiry_s);
        }
        true
    }

    fn has(&mut self, object: u32) -> bool {
        let Node { bytes, expiry_s, .. } = self.nodes[object as usize];
        if bytes != NONE && expiry_s != 0 && expiry_s <= self.now_s {
            self.remove(object);
            return false;
        }
        bytes != NONE
    }

    fn store(&mut self, stored: Stored) {
        let bytes = self.accounting.bytes(&stored);
        if self.has(stored.object) {
            self.remove(stored.object);
        }
        if u64::from(bytes) > self.capacity {
            return;
        }
        while self.used + u64::from(bytes) > self.capacity {
            self.remove(self.oldest);
        }
        self.push(stored.object, bytes, stored.expiry_s);
    }

    fn delete(&mut self, object: u32) {
        if self.has(object) {
            self.remove(object);
        }
    }

    fn touch(&mut self, object: u32, expiry_s: u32) {
        if self.read(object) {
            self.nodes[object as usize].expiry_s = expiry_s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(cache: &mut Exact, object: u32, payload_bytes: u32, expiry_s: u32) {
        cache.store(Stored { object, payload_bytes, key_bytes: 0, expiry_s });
    }

    fn there(cache: &mut Exact) -> Vec<u32> {
        (0..6).filter(|object| cache.has(*object)).collect()
    }

    #[test]
    fn lru_renews_and_fifo_does_not() {
        for (renews, left) in [(false, [1, 2, 3]), (true, [0, 2, 3])] {
            let mut cache = Exact::new(renews, 6, 30, Accounting::Payload);
            for object in 0..3 {
                store(&mut cache, object, 10, 0);
            }
            assert!(cache.read(0) && !cache.read(3));
            store(&mut cache, 3, 10, 0);
            assert_eq!(there(&mut cache), left);
        }
    }

    #[test]
    fn sizes_change_things_expire_and_what_is_too_large_stays_out() {
        let mut cache = Exact::new(true, 6, 30, Accounting::Payload);
        store(&mut cache, 0, 10, 5);
        store(&mut cache, 1, 10, 0);
        store(&mut cache, 1, 20, 0);
        assert_eq!((there(&mut cache), cache.used), (vec![0, 1], 30));
        cache.turn(0, 5);
        assert_eq!((there(&mut cache), cache.used), (vec![1], 20));
        store(&mut cache, 1, 31, 0);
        assert_eq!((there(&mut cache), cache.used), (vec![], 0));
        store(&mut cache, 2, 30, 0);
        cache.touch(2, 6);
        cache.delete(2);
        assert_eq!((there(&mut cache), cache.oldest), (vec![], NONE));
    }
}
