//! Datagrams that wait for their replies, each in a slot that its request id names.

use std::collections::VecDeque;

use super::Stamp;
use super::in_flight::Pending;
use crate::run::recorder::{Kind, Recorder};

/// The longest body of a datagram that belongs to a reply of several.
const PART_BYTES_MAX: usize = 1 << 14;
/// The most datagrams of one reply.
const PARTS_MAX: u16 = 2048;

/// A window of requests, each in a numbered slot with its items.
#[derive(Debug)]
pub(super) struct Window<S> {
    slots: Box<[S]>,
    is_taken: Box<[bool]>,
    /// `items_each` for each slot.
    items: Box<[u64]>,
    items_each: usize,
    /// First in, first out: a slot rests as long as possible.
    free: VecDeque<u32>,
}

impl<S: Default> Window<S> {
    /// A window of `window` requests with at most `items_each` items each.
    pub fn new(window: usize, items_each: usize) -> Self {
        Self {
            slots: (0..window).map(|_| S::default()).collect(),
            is_taken: vec![false; window].into(),
            items: vec![0; window * items_each].into(),
            items_each,
            free: (0..window as u32).collect(),
        }
    }

    #[inline]
    pub fn room(&self) -> usize {
        self.free.len()
    }

    #[inline]
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a slot for these items and returns its number; there must be room.
    #[inline]
    pub fn take(&mut self, items: &[u64]) -> usize {
        let Some(number) = self.free.pop_front() else {
            unreachable!("callers look for room first");
        };
        let number = number as usize;
        self.is_taken[number] = true;
        let start = self.place(number);
        self.items[start..start + items.len()].copy_from_slice(items);
        number
    }

    /// Place of a slot's first item among those of the window.
    #[inline]
    pub fn place(&self, number: usize) -> usize {
        number * self.items_each
    }

    /// The slot that an item at a place belongs to.
    #[inline]
    pub fn at(&self, place: usize) -> usize {
        place / self.items_each
    }

    /// A slot, and room for its items.
    #[inline]
    pub fn slot(&mut self, number: usize) -> (&mut S, &[u64]) {
        let start = self.place(number);
        (&mut self.slots[number], &self.items[start..start + self.items_each])
    }

    #[inline]
    pub fn release(&mut self, number: usize) {
        self.is_taken[number] = false;
        self.free.push_back(number as u32);
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub fn is_taken(&self, number: usize) -> bool {
        self.is_taken[number]
    }
}

/// Datagrams in slots. The low bits of an id are the slot, the others count its uses, so that a reply that
/// comes too late is not taken for that of the next request.
#[derive(Debug)]
pub(super) struct Slots {
    window: Window<Slot>,
    slot_bits: u32,
}

#[derive(Debug, Default)]
struct Slot {
    /// Id of the last request.
    id: u16,
    uses: u16,
    pending: Pending,
    parts: Parts,
}

/// The datagrams of a reply that needs several.
#[derive(Debug, Default)]
struct Parts {
    bodies: Vec<Vec<u8>>,
    arrived: u16,
    whole: Vec<u8>,
}

impl Slots {
    /// A window of `window` requests, at most 32,768, with at most `items_each` items each.
    pub fn new(window: usize, items_each: usize) -> Self {
        let slot_bits = window.next_power_of_two().ilog2();
        Self { window: Window::new(window, items_each), slot_bits }
    }

    #[inline]
    pub fn room(&self) -> usize {
        self.window.room()
    }

    #[inline]
    pub fn in_flight(&self) -> usize {
        self.window.in_flight()
    }

    /// Takes a slot for a request and returns its id; there must be room.
    #[inline]
    pub fn take(&mut self, kind: Kind, items: &[u64], stamp: Stamp) -> u16 {
        let number = self.window.take(items);
        let (slot, _) = self.window.slot(number);
        slot.uses = slot.uses.wrapping_add(1);
        slot.id = number as u16 | slot.uses.checked_shl(self.slot_bits).unwrap_or(0);
        slot.pending = Pending::new(kind, items, stamp);
        slot.id
    }

    /// The slot whose request has this id and still waits.
    #[inline]
    pub fn find(&self, id: u16) -> Option<usize> {
        let number = usize::from(id) & ((1 << self.slot_bits) - 1);
        let slot = self.window.slots.get(number)?;
        (self.window.is_taken(number) && slot.id == id).then_some(number)
    }

    /// The request of a slot, its items, and the body of its reply if that came in parts.
    #[inline]
    pub fn open(&mut self, slot: usize) -> (&mut Pending, &[u64], &[u8]) {
        let (slot, items) = self.window.slot(slot);
        let items = &items[..slot.pending.answer.operations as usize];
        (&mut slot.pending, items, &slot.parts.whole)
    }

    #[inline]
    pub fn release(&mut self, number: usize) {
        self.forget_parts(number);
        self.window.release(number);
    }

    /// Makes room for the datagrams of a further value.
    pub fn forget_parts(&mut self, slot: usize) {
        self.window.slot(slot).0.parts.clear();
    }

    /// Keeps one of several datagrams of a reply; returns whether it is complete.
    pub fn keep_part(&mut self, slot: usize, (part, parts): (u16, u16), body: &[u8]) -> Result<bool, String> {
        if part >= parts || parts > PARTS_MAX || body.len() > PART_BYTES_MAX || body.is_empty() {
            return Err(format!("a datagram that says it is number {part} of {parts}"));
        }
        Ok(self.window.slot(slot).0.parts.keep(usize::from(part), parts, body))
    }

    /// Gives up what was sent before then; returns how many requests.
    pub fn give_up_sent_before(
        &mut self,
        sent_before_ns: u64,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> usize {
        if self.in_flight() == 0 {
            return 0;
        }
        let mut given_up = 0;
        for number in 0..self.window.len() {
            let is_taken = self.window.is_taken(number);
            let (pending, items, _) = self.open(number);
            if !is_taken || pending.sent_ns >= sent_before_ns {
                continue;
            }
            if let (Some(resend), false) = (&mut recorder.resend, pending.answer.kind == Kind::Read) {
                resend.push(items[0]);
            }
            recorder.held_updates.read_ended(items);
            recorder.lost(pending.answer.kind, pending.scheduled_ns, now_ns);
            self.release(number);
            given_up += 1;
        }
        given_up
    }
}

impl Parts {
    fn keep(&mut self, part: usize, parts: u16, body: &[u8]) -> bool {
        if self.bodies.len() < usize::from(parts) {
            self.bodies.resize(usize::from(parts), Vec::new());
        }
        if self.bodies[part].is_empty() {
            self.bodies[part].extend_from_slice(body);
            self.arrived += 1;
        }
        let complete = self.arrived == parts;
        if complete {
            self.bodies.iter().for_each(|body| self.whole.extend_from_slice(body));
        }
        complete
    }

    /// Forgets all; the memory stays for the next reply.
    fn clear(&mut self) {
        if self.arrived > 0 {
            self.bodies.iter_mut().for_each(Vec::clear);
            self.whole.clear();
            self.arrived = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(now_ns: u64) -> Stamp {
        Stamp { scheduled_ns: now_ns, now_ns }
    }

    #[test]
    fn a_late_reply_is_not_taken_for_the_next_request() {
        for window in [1, 3, 64, 4096] {
            let mut slots = Slots::new(window, 1);
            let mut recorder = Recorder::new(0..u64::MAX);
            let old: Vec<_> =
                (0..window).map(|item| slots.take(Kind::Read, &[item as u64], stamp(0))).collect();
            assert_eq!(slots.room(), 0);
            assert_eq!(slots.give_up_sent_before(1, 9, &mut recorder), window);
            assert_eq!(recorder.counts.lost, window as u64);
            let new: Vec<_> =
                (0..window).map(|item| slots.take(Kind::Read, &[item as u64], stamp(5))).collect();
            assert!(old.iter().all(|id| slots.find(*id).is_none()), "{window}");
            for (item, id) in new.iter().enumerate() {
                let slot = slots.find(*id).unwrap();
                assert_eq!(slots.open(slot).1, [item as u64]);
                slots.release(slot);
                assert_eq!(slots.find(*id), None, "answered twice");
            }
            assert_eq!(slots.in_flight(), 0);
        }
    }

    #[test]
    fn only_what_is_too_old_is_given_up() {
        let mut slots = Slots::new(4, 1);
        let mut recorder = Recorder::new(0..u64::MAX);
        recorder.resend = Some(Vec::new());
        slots.take(Kind::Write, &[7], stamp(10));
        slots.take(Kind::Read, &[8], stamp(10));
        let young = slots.take(Kind::Write, &[9], stamp(20));
        assert_eq!(slots.give_up_sent_before(20, 30, &mut recorder), 2);
        assert!(slots.find(young).is_some());
        assert_eq!(recorder.resend, Some(vec![7]), "written again, not read");
    }

    #[test]
    fn an_update_does_not_wait_for_a_get_that_is_given_up() {
        let (mut slots, item) = (Slots::new(4, 1), u64::MAX);
        let mut recorder = Recorder::new(0..u64::MAX);
        slots.take(Kind::Read, &[item], stamp(10));
        recorder.held_updates.read_sent(&[item]);
        assert!(recorder.held_updates.hold(item));
        assert_eq!(recorder.held_updates.take_due(), None);
        slots.give_up_sent_before(20, 30, &mut recorder);
        assert_eq!(recorder.held_updates.take_due(), Some(item));
        assert!(!recorder.held_updates.hold(item));
    }

    #[test]
    fn parts_in_any_order_and_twice() {
        let mut slots = Slots::new(1, 1);
        let id = slots.take(Kind::Read, &[1], stamp(0));
        let slot = slots.find(id).unwrap();
        for (part, body) in [(2, "c"), (0, "aa"), (2, "c"), (0, "aa")] {
            assert_eq!(slots.keep_part(slot, (part, 3), body.as_bytes()), Ok(false));
        }
        assert_eq!(slots.keep_part(slot, (1, 3), b"bb"), Ok(true));
        assert_eq!(slots.open(slot).2, b"aabbc");
        slots.release(slot);
        slots.take(Kind::Read, &[2], stamp(0));
        assert_eq!(slots.keep_part(slot, (1, 2), b"y"), Ok(false));
        assert_eq!(slots.keep_part(slot, (0, 2), b"x"), Ok(true));
        assert_eq!(slots.open(slot).2, b"xy");
    }

    #[test]
    fn impossible_parts_are_refused() {
        let mut slots = Slots::new(1, 1);
        slots.take(Kind::Read, &[1], stamp(0));
        for (part, parts) in [(2, 2), (0, u16::MAX), (5, 3)] {
            assert!(slots.keep_part(0, (part, parts), b"x").is_err());
        }
        assert!(slots.keep_part(0, (0, 2), b"").is_err());
    }
}
