//! Requests that wait for their replies, in order.

use super::Stamp;
use crate::run::recorder::{Answer, Kind};

/// A request that was handed over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pending {
    pub scheduled_ns: u64,
    pub sent_ns: u64,
    /// The reply as far as it has been seen.
    pub answer: Answer,
    /// Operations of a reading request whose outcome is known.
    pub settled: u32,
}

impl Pending {
    #[inline]
    pub fn new(kind: Kind, items: &[u64], stamp: Stamp) -> Self {
        Self {
            scheduled_ns: stamp.scheduled_ns,
            sent_ns: stamp.now_ns,
            answer: Answer { kind, operations: items.len() as u32, ..Answer::default() },
            settled: 0,
        }
    }
}

/// A ring of requests, each with its items.
#[derive(Debug)]
pub(super) struct InFlight {
    requests: Box<[Pending]>,
    /// `items_each` for each request.
    items: Box<[u64]>,
    items_each: usize,
    head: usize,
    len: usize,
}

impl InFlight {
    /// Room for `requests` with `items_each` items at most.
    pub fn new(requests: usize, items_each: usize) -> Self {
        Self {
            requests: vec![Pending::default(); requests].into(),
            items: vec![0; requests * items_each].into(),
            items_each,
            head: 0,
            len: 0,
        }
    }

    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub const fn room(&self) -> usize {
        self.requests.len() - self.len
    }

    /// Adds a request; there must be room.
    #[inline]
    pub fn push(&mut self, pending: Pending, items: &[u64]) {
        let mut at = self.head + self.len;
        if at >= self.requests.len() {
            at -= self.requests.len();
        }
        self.requests[at] = pending;
        let start = at * self.items_each;
        self.items[start..start + items.len()].copy_from_slice(items);
        self.len += 1;
    }

    /// The request whose reply comes next, and its items.
    #[inline]
    pub fn front(&mut self) -> Option<(&mut Pending, &[u64])> {
        if self.len == 0 {
            return None;
        }
        let pending = &mut self.requests[self.head];
        let start = self.head * self.items_each;
        let items = &self.items[start..start + pending.answer.operations as usize];
        Some((pending, items))
    }

    /// Takes the request off whose reply is complete.
    #[inline]
    pub fn pop(&mut self) -> Option<Pending> {
        let pending = *self.front()?.0;
        self.head += 1;
        if self.head == self.requests.len() {
            self.head = 0;
        }
        self.len -= 1;
        Some(pending)
    }

    /// The items of the request at the front.
    pub fn front_items(&self) -> &[u64] {
        let start = self.head * self.items_each;
        let count = self.requests[self.head].answer.operations as usize;
        &self.items[start..start + if self.len == 0 { 0 } else { count }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out() {
        let mut ring = InFlight::new(3, 2);
        let pending = |number, operations| Pending {
            scheduled_ns: number,
            answer: Answer { operations, ..Answer::default() },
            ..Pending::default()
        };
        let mut taken = Vec::new();
        for number in 0..10 {
            if ring.room() == 0 {
                let items = ring.front().unwrap().1.to_vec();
                taken.push((ring.pop().unwrap().scheduled_ns, items));
            }
            let items = [number, number + 100];
            let count = 1 + number as usize % 2;
            ring.push(pending(number, count as u32), &items[..count]);
        }
        assert_eq!(ring.len(), 3);
        assert_eq!(taken[0], (0, vec![0]));
        assert_eq!(taken[1], (1, vec![1, 101]));
        assert_eq!(taken[6], (6, vec![6]));
    }
}
