//! Datagrams that wait for their replies, each in a slot that its request id names.

use std::collections::VecDeque;

use super::Stamp;
use super::in_flight::Pending;
use crate::run::recorder::{Kind, Recorder};

/// The longest body of a datagram that belongs to a reply of several.
const PART_BYTES_MAX: usize = 1 << 14;
/// The most datagrams of one reply.
const PARTS_MAX: u16 = 2048;

/// A window of requests. The low bits of an id are the slot, the others count how often it has been
/// used, so that a reply that comes too late is not taken for that of the next request.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    /// `items_each` for each slot.
    items: Box<[u64]>,
    items_each: usize,
    /// First in, first out: a slot rests as long as possible.
    free: VecDeque<u16>,
    slot_bits: u32,
}

#[derive(Debug, Default)]
struct Slot {
    /// Id of the request that waits, if one does.
    id: Option<u16>,
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
        Self {
            slots: (0..window).map(|_| Slot::default()).collect(),
            items: vec![0; window * items_each].into(),
            items_each,
            free: (0..window).map(|slot| slot as u16).collect(),
            slot_bits,
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

    /// Takes a slot for a request and returns its id; there must be room.
    #[inline]
    pub fn take(&mut self, kind: Kind, items: &[u64], stamp: Stamp) -> u16 {
        let Some(number) = self.free.pop_front() else {
            unreachable!("callers look for room first");
        };
        let slot = &mut self.slots[usize::from(number)];
        slot.uses = slot.uses.wrapping_add(1);
        let id = number | slot.uses.checked_shl(self.slot_bits).unwrap_or(0);
        slot.id = Some(id);
        slot.pending = Pending::new(kind, items, stamp);
        let start = usize::from(number) * self.items_each;
        self.items[start..start + items.len()].copy_from_slice(items);
        id
    }

    /// The slot whose request has this id and still waits.
    #[inline]
    pub fn find(&self, id: u16) -> Option<usize> {
        let number = usize::from(id) & ((1 << self.slot_bits) - 1);
        let slot = self.slots.get(number)?;
        (slot.id == Some(id)).then_some(number)
    }

    /// The request of a slot, its items, and the body of its reply if that came in parts.
    #[inline]
    pub fn open(&mut self, slot: usize) -> (&mut Pending, &[u64], &[u8]) {
        let start = slot * self.items_each;
        let slot = &mut self.slots[slot];
        let items = &self.items[start..start + slot.pending.answer.operations as usize];
        (&mut slot.pending, items, &slot.parts.whole)
    }

    /// Frees a slot.
    #[inline]
    pub fn release(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        slot.id = None;
        slot.parts.clear();
        self.free.push_back(number as u16);
    }

    /// Makes room for the datagrams of a further value.
    pub fn forget_parts(&mut self, slot: usize) {
        self.slots[slot].parts.clear();
    }

    /// Keeps one of several datagrams of a reply; returns whether it is complete.
    pub fn keep_part(&mut self, slot: usize, (part, parts): (u16, u16), body: &[u8]) -> Result<bool, String> {
        if part >= parts || parts > PARTS_MAX || body.len() > PART_BYTES_MAX || body.is_empty() {
            return Err(format!("a datagram that says it is number {part} of {parts}"));
        }
        Ok(self.slots[slot].parts.keep(usize::from(part), parts, body))
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
        for number in 0..self.slots.len() {
            let slot = &self.slots[number];
            if slot.id.is_none() || slot.pending.sent_ns >= sent_before_ns {
                continue;
            }
            if let (Some(items), false) = (&mut recorder.resend, slot.pending.answer.kind == Kind::Read) {
                items.push(self.items[number * self.items_each]);
            }
            let start = number * self.items_each;
            let operations = slot.pending.answer.operations as usize;
            recorder.held_updates.read_ended(&self.items[start..][..operations]);
            recorder.lost(slot.pending.scheduled_ns, now_ns);
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
    fn impossible_parts() {
        let mut slots = Slots::new(1, 1);
        slots.take(Kind::Read, &[1], stamp(0));
        for (part, parts) in [(2, 2), (0, u16::MAX), (5, 3)] {
            assert!(slots.keep_part(0, (part, parts), b"x").is_err());
        }
        assert!(slots.keep_part(0, (0, 2), b"").is_err());
    }
}
