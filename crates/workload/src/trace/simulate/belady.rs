//! Belady's MIN by bytes: what is asked for again latest leaves first.

use std::collections::BinaryHeap;

use super::Accounting;
use super::cache::{Cache, Stored};
use super::compact::Compact;
use super::event::Kind;

/// Marks an object that is not asked for again, or only after it was stored anew or removed.
const NEVER: u32 = u32::MAX;
const NONE: u32 = u32::MAX;

/// Returns for each request the number of the next read of its object.
pub(crate) fn next_reads(trace: &Compact) -> Vec<u32> {
    let mut last = vec![NEVER; trace.objects()];
    let mut next = vec![NEVER; trace.events.len()];
    for (number, event) in trace.events.iter().enumerate().rev() {
        let kind = event.kind();
        if kind == Kind::Mark {
            continue;
        }
        let last = &mut last[event.object() as usize];
        next[number] = *last;
        match kind {
            kind if kind.reads() => *last = number as u32,
            Kind::Store | Kind::Delete => *last = NEVER,
            _ => {}
        }
    }
    next
}

#[derive(Debug)]
pub(crate) struct Belady<'a> {
    next: &'a [u32],
    /// Bytes of each object, [`NONE`] if it is not there, and its next read.
    there: Vec<(u32, u32)>,
    expiries_s: Vec<u32>,
    /// Next reads with their objects, some of them out of date.
    queue: BinaryHeap<(u32, u32)>,
    objects: usize,
    capacity: u64,
    used: u64,
    accounting: Accounting,
    event: usize,
    now_s: u32,
}

impl<'a> Belady<'a> {
    pub fn new(trace: &Compact, next: &'a [u32], capacity: u64, accounting: Accounting) -> Self {
        let expiring = !trace.expiries_s.is_empty();
        Self {
            next,
            there: vec![(NONE, NEVER); trace.objects()],
            expiries_s: vec![0; if expiring { trace.objects() } else { 0 }],
            queue: BinaryHeap::new(),
            objects: 0,
            capacity,
            used: 0,
            accounting,
            event: 0,
            now_s: 0,
        }
    }

    fn remove(&mut self, object: u32) {
        let bytes = &mut self.there[object as usize].0;
        self.used -= u64::from(*bytes);
        self.objects -= 1;
        *bytes = NONE;
    }

    /// Notes the next read of an object that is there; it leaves at once if there is none.
    fn await_next(&mut self, object: u32) {
        let next = self.next[self.event];
        if next == NEVER {
            self.remove(object);
            return;
        }
        self.there[object as usize].1 = next;
        if self.queue.len() > 2 * self.objects + 1024 {
            let there = &self.there;
            self.queue.retain(|(next, object)| {
                let (bytes, awaited) = there[*object as usize];
                bytes != NONE && awaited == *next
            });
        }
        self.queue.push((next, object));
    }

    fn evict(&mut self) {
        while let Some((next, object)) = self.queue.pop() {
            let (bytes, awaited) = self.there[object as usize];
            if bytes != NONE && awaited == next {
                self.remove(object);
                return;
            }
        }
    }
}

impl Cache for Belady<'_> {
    fn turn(&mut self, event: usize, now_s: u32) {
        self.event = event;
        self.now_s = now_s;
    }

    fn read(&mut self, object: u32) -> bool {
        let is_there = self.has(object);
        if is_there {
            self.await_next(object);
        }
        is_there
    }

    fn has(&mut self, object: u32) -> bool {
        let is_there = self.there[object as usize].0 != NONE;
        let expiry_s = self.expiries_s.get(object as usize).copied().unwrap_or(0);
        if is_there && expiry_s != 0 && expiry_s <= self.now_s {
            self.remove(object);
            return false;
        }
        is_there
    }

    fn store(&mut self, stored: Stored) {
        let bytes = self.accounting.bytes(&stored);
        if self.has(stored.object) {
            self.remove(stored.object);
        }
        if u64::from(bytes) > self.capacity || self.next[self.event] == NEVER {
            return;
        }
        while self.used + u64::from(bytes) > self.capacity {
            self.evict();
        }
        self.there[stored.object as usize].0 = bytes;
        self.used += u64::from(bytes);
        self.objects += 1;
        if let Some(expiry_s) = self.expiries_s.get_mut(stored.object as usize) {
            *expiry_s = stored.expiry_s;
        }
        self.await_next(stored.object);
    }

    fn delete(&mut self, object: u32) {
        if self.has(object) {
            self.remove(object);
        }
    }

    fn touch(&mut self, object: u32, expiry_s: u32) {
        if self.has(object)
            && let Some(of_object) = self.expiries_s.get_mut(object as usize)
        {
            *of_object = expiry_s;
        }
    }
}
