//! Slots of transfers under way. A slot is the number by which the provider names a transfer.

use crate::limits::GIVEN_UP_MAX;
use crate::transfer::Transfer;

/// The number of libfabric's error for what has to be tried again.
const BUSY: i32 = nix::errno::Errno::EAGAIN as i32;
/// A slot that stands for no transfer.
pub(crate) const NO_SLOT: u32 = u32::MAX;

#[derive(Debug)]
enum Slot {
    Free,
    /// The transfer failed, and a provider may say so a second time.
    Failed,
    /// The second read of the transfer in another slot.
    Second(u32),
    First {
        transfer: Transfer,
        /// The operation of this slot, and that of the second one.
        is_pending: [bool; 2],
        /// Error of the operation that failed first; 0 = none.
        error: i32,
    },
}

/// Meaning of the end of an operation.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The transfer has finished, with an error unless it is 0.
    Transfer(Transfer, i32),
    /// Another operation of the transfer is under way, or it has finished before.
    Nothing,
    /// There is no such transfer.
    Unknown,
}

/// All slots of an endpoint.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    /// The last one is used next.
    free: Vec<u32>,
    /// Slots that transfers that were given up have, or had.
    given_up: u32,
}

impl Slots {
    pub(crate) fn new(count: u32) -> Self {
        let count = count.clamp(1, NO_SLOT - 1 - GIVEN_UP_MAX);
        Self {
            slots: (0..count).map(|_| Slot::Free).collect(),
            free: (0..count).rev().collect(),
            given_up: 0,
        }
    }

    /// Takes a free slot.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Gives back a slot whose operation was not started.
    #[inline]
    pub(crate) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Puts a transfer, whose operation was started, into the slot that was taken for it.
    #[inline]
    pub(crate) fn put(&mut self, slot: u32, transfer: Transfer) {
        self.slots[slot as usize] = Slot::First { transfer, is_pending: [true, false], error: 0 };
    }

    /// Puts the second operation of a transfer into the slot that was taken for it.
    pub(crate) fn put_second(&mut self, slot: u32, first: u32) {
        if let Some(Slot::First { is_pending, .. }) = self.slots.get_mut(first as usize) {
            is_pending[1] = true;
            self.slots[slot as usize] = Slot::Second(first);
        }
    }

    /// Gives back the slot of a second operation that was not started, and has the transfer end as busy.
    pub(crate) fn fail(&mut self, slot: u32, second: u32) {
        self.free.push(second);
        if let Some(Slot::First { error, .. }) = self.slots.get_mut(slot as usize) {
            *error = BUSY;
        }
    }

    /// Ends the operation of a slot.
    #[inline]
    pub(crate) fn end(&mut self, slot: u32, error: i32) -> Ended {
        match self.slots.get_mut(slot as usize) {
            Some(Slot::First { .. }) => self.end_part(slot, 0, error),
            Some(Slot::Second(first)) => {
                let first = *first;
                self.free(slot, error);
                self.end_part(first, 1, error)
            }
            Some(Slot::Failed) => Ended::Nothing,
            Some(Slot::Free) | None => Ended::Unknown,
        }
    }

    #[inline]
    fn end_part(&mut self, slot: u32, part: usize, error: i32) -> Ended {
        let place = &mut self.slots[slot as usize];
        let Slot::First { is_pending, error: before, .. } = place else {
            return Ended::Unknown;
        };
        is_pending[part] = false;
        if *before == 0 {
            *before = error;
        }
        if *is_pending != [false; 2] {
            return Ended::Nothing;
        }
        let Slot::First { transfer, error, .. } = std::mem::replace(place, Slot::Free) else {
            return Ended::Unknown;
        };
        self.free(slot, error);
        Ended::Transfer(transfer, error)
    }

    /// Frees a slot; that of a failed operation is used again last.
    #[inline]
    fn free(&mut self, slot: u32, error: i32) {
        if error == 0 {
            self.slots[slot as usize] = Slot::Free;
            self.free.push(slot);
        } else {
            self.slots[slot as usize] = Slot::Failed;
            self.free.insert(0, slot);
        }
    }

    /// Gives up the transfer in a slot. It keeps the slot, and a further one takes its place.
    pub(crate) fn give_up(&mut self, slot: u32) {
        let Some(Slot::First { transfer, .. }) = self.slots.get_mut(slot as usize) else {
            return;
        };
        transfer.is_given_up = true;
        transfer.buffer.discard();
        if self.given_up < GIVEN_UP_MAX {
            self.given_up += 1;
            self.free.insert(0, self.slots.len() as u32);
            self.slots.push(Slot::Free);
        }
    }

    /// Iterates over the transfers under way, with their slots.
    pub(crate) fn transfers(&mut self) -> impl Iterator<Item = (u32, &mut Transfer)> {
        (0..).zip(&mut self.slots).filter_map(|(number, slot)| match slot {
            Slot::First { transfer, .. } => Some((number, transfer)),
            _ => None,
        })
    }

    /// Leaks the buffers of all transfers under way.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.slots));
    }
}
