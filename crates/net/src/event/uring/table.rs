//! Streams of a set, by number.

use std::os::fd::RawFd;

use super::pool::Inbox;
use crate::Interest;

pub(super) const ENTRY_BYTES: usize = size_of::<Entry>();

/// State of a stream's multishot receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receive {
    /// No receive exists.
    Idle,
    /// The kernel has it, or gets it at the next enter.
    Armed,
    /// The receive is being cancelled. One last completion is still to come.
    Cancelled,
}

/// End of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer sends no more.
    Closed,
    /// The stream is broken: the error number.
    Broken(i32),
}

/// A stream, and its state in the kernel.
#[derive(Debug)]
pub(super) struct Entry {
    pub token: u64,
    /// Valid while the entry is open.
    pub descriptor: RawFd,
    pub inbox: Inbox,
    /// The stream's end, which follows the inbox.
    pub end: Option<End>,
    pub interest: Interest,
    pub receive: Receive,
    /// Interest in the epoll set, if the stream is in there.
    pub polled: Option<Interest>,
    /// The entry is in the list of streams with new events.
    pub touched: bool,
    /// The stream's [`super::UringStream`] lives.
    pub open: bool,
    /// The entry is in the list of free places.
    free: bool,
}

impl Entry {
    /// Returns whether a read succeeds without the kernel.
    pub fn has_received(&self) -> bool {
        !self.inbox.is_empty() || self.end.is_some()
    }

    /// Returns whether nothing refers to the place any more, so that another stream may use it.
    fn is_unused(&self) -> bool {
        !self.open && self.receive == Receive::Idle && !self.touched
    }
}

/// Entries by number.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Table {
    /// Adds a stream without interest.
    pub fn insert(&mut self, descriptor: RawFd) -> u32 {
        let entry = Entry {
            token: 0,
            descriptor,
            inbox: Inbox::default(),
            end: None,
            interest: Interest::Nothing,
            receive: Receive::Idle,
            polled: None,
            touched: false,
            open: true,
            free: false,
        };
        if let Some(index) = self.free.pop() {
            self.entries[index as usize] = entry;
            return index;
        }
        self.entries.push(entry);
        (self.entries.len() - 1) as u32
    }

    #[inline]
    pub fn get(&mut self, index: u32) -> &mut Entry {
        &mut self.entries[index as usize]
    }

    #[inline]
    pub fn look(&self, index: u32) -> &Entry {
        &self.entries[index as usize]
    }

    /// Returns how many places are in use.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Frees the place if nothing refers to it any more.
    pub fn free_if_unused(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        if entry.is_unused() && !entry.free {
            entry.free = true;
            self.free.push(index);
        }
    }
}
