//! The streams of a set, by number.

use std::os::fd::RawFd;

use super::pool::Inbox;
use crate::Interest;

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = size_of::<Entry>();

/// The multishot receive of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receive {
    /// There is none.
    Idle,
    /// It is with the kernel, or will be at the next enter.
    Armed,
    /// So is its cancellation; its last completion is to come.
    Cancelled,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer sends no more.
    Closed,
    /// It is broken: the number of the error.
    Broken(i32),
}

/// A stream and what the kernel was told of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub token: u64,
    /// Valid while the entry is open.
    pub descriptor: RawFd,
    pub inbox: Inbox,
    /// What comes after the inbox.
    pub end: Option<End>,
    pub interest: Interest,
    pub receive: Receive,
    /// What the epoll set watches it for, if it is in there.
    pub polled: Option<Interest>,
    /// It stands in the list of streams that something happened to.
    pub touched: bool,
    /// Its [`super::UringStream`] lives.
    pub open: bool,
    /// It stands in the list of free places.
    free: bool,
}

impl Entry {
    /// Whether reading brings something without the kernel.
    pub fn has_received(&self) -> bool {
        !self.inbox.is_empty() || self.end.is_some()
    }

    /// Whether the place may be another stream's: nothing refers to it any more.
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
    /// A stream that waits for nothing yet.
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

    /// Places that are not free.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Lets the place be used again, if nothing refers to it any more.
    pub fn free_if_unused(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        if entry.is_unused() && !entry.free {
            entry.free = true;
            self.free.push(index);
        }
    }
}
