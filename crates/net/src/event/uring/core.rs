//! State of a set's streams, and completions of the ring.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};
use nix::errno::Errno;
use nix::sys::socket::{Shutdown, shutdown};

use super::pool::{GROUP, Pool};
use super::ring::Ring;
use super::table::{End, Receive, Table};
use crate::{Event, Interest, Poller, Stream};

/// Kind of a completion: the upper half of its user data. The lower half is the stream.
const RECEIVE: u64 = 0;
const CANCEL: u64 = 1;
const POLL: u64 = 2;
/// Tokens of the epoll set: a stream's number, or this plus the number of another descriptor.
const WATCHED: u64 = 1 << 32;

/// State of a set.
#[derive(Debug)]
pub(super) struct Core {
    /// Dropped before the buffers that it receives into.
    ring: Ring,
    pool: Pool,
    table: Table,
    /// Streams with new events. They are reported at the next wait, and settled at the one after
    /// it.
    touched: Vec<u32>,
    /// Watches everything but receiving.
    poller: Poller,
    /// The ring watches `poller`.
    poller_armed: bool,
    /// Tokens of descriptors that are no streams.
    watched: Vec<u64>,
    /// The last enter returned nothing, so nothing is left over from it either.
    quiet: bool,
}

impl Core {
    pub fn new() -> io::Result<Self> {
        let ring = Ring::new()?;
        let mut pool = Pool::new();
        // SAFETY: both become fields of one `Core`, and its fields are dropped in their order: the
        // ring first. Nothing is received after that, because only an enter of this thread receives
        // (`DEFER_TASKRUN`).
        unsafe { pool.register(&ring.submitter())? };
        Ok(Self {
            ring,
            pool,
            table: Table::default(),
            touched: Vec::new(),
            poller: Poller::new()?,
            poller_armed: false,
            watched: Vec::new(),
            quiet: false,
        })
    }

    pub fn insert(&mut self, descriptor: RawFd) -> u32 {
        self.table.insert(descriptor)
    }

    pub fn set_token(&mut self, index: u32, token: u64) {
        self.table.get(index).token = token;
    }

    pub fn set_interest(&mut self, index: u32, interest: Interest) -> io::Result<()> {
        self.table.get(index).interest = interest;
        self.settle(index)?;
        if self.table.look(index).has_received() {
            self.touch(index);
        }
        Ok(())
    }

    pub fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let number = self.watched.len() as u64;
        self.poller.add(descriptor, WATCHED | number, Interest::Read)?;
        self.watched.push(token);
        Ok(())
    }

    pub fn has_received(&self, index: u32) -> bool {
        self.table.look(index).has_received()
    }

    /// Returns whether the kernel has a buffer left.
    #[cfg(test)]
    pub fn can_receive(&self) -> bool {
        self.pool.can_receive()
    }

    /// Returns how many places of streams, and how many buffers, are in use.
    #[cfg(test)]
    pub fn in_use(&self) -> (usize, usize) {
        (self.table.used(), self.pool.ours())
    }

    /// Reads received bytes; `None` if there are none.
    #[inline]
    pub fn read(&mut self, index: u32, into: &mut [u8]) -> Option<io::Result<usize>> {
        let entry = self.table.get(index);
        if !entry.inbox.is_empty() {
            return Some(Ok(self.pool.read(&mut entry.inbox, into)));
        }
        Some(match entry.end? {
            End::Closed => Ok(0),
            End::Broken(errno) => Err(io::Error::from_raw_os_error(errno)),
        })
    }

    /// Closes a stream. The caller closes its socket. The kernel closes it at the next enter, when
    /// the cancelled receive releases it.
    pub fn close(&mut self, index: u32, socket: &Stream) {
        let entry = self.table.get(index);
        entry.open = false;
        self.pool.discard(&mut entry.inbox);
        if entry.polled.take().is_some() {
            // The socket has left already if it is missing.
            let _ = self.poller.remove(socket);
        }
        if entry.receive == Receive::Armed {
            entry.receive = Receive::Cancelled;
            // A queued receive has to find this socket: after it is closed, another connection may
            // get its number.
            if self.push(&cancel(index)).and_then(|()| self.submit()).is_err() {
                // The cancellation could not be queued. Shutting the connection down ends the
                // receive, too.
                let _ = shutdown(socket.as_fd().as_raw_fd(), Shutdown::Both);
            }
        }
        self.table.free_if_unused(index);
    }

    /// Updates the kernel's view of a stream's interest.
    fn settle(&mut self, index: u32) -> io::Result<()> {
        let entry = self.table.look(index);
        let (receive, descriptor) = (entry.receive, entry.descriptor);
        let reads = entry.interest == Interest::Read;
        let mut polled = (!reads).then_some(entry.interest);
        match receive {
            Receive::Idle if reads && entry.end.is_none() => {
                if self.pool.can_receive() {
                    let receive = opcode::RecvMulti::new(Fd(descriptor), GROUP);
                    self.push(&receive.build().user_data(data(RECEIVE, index)))?;
                    self.table.get(index).receive = Receive::Armed;
                } else {
                    polled = Some(Interest::Read);
                }
            }
            Receive::Armed if !reads => {
                self.push(&cancel(index))?;
                let entry = self.table.get(index);
                if entry.receive == Receive::Armed {
                    entry.receive = Receive::Cancelled;
                }
            }
            _ => {}
        }
        let entry = self.table.get(index);
        if polled == entry.polled {
            return Ok(());
        }
        // SAFETY: the stream is open, so its socket is.
        let socket = unsafe { BorrowedFd::borrow_raw(entry.descriptor) };
        let token = u64::from(index);
        match (entry.polled, polled) {
            (None, Some(interest)) => self.poller.add(socket, token, interest)?,
            (Some(_), Some(interest)) => self.poller.change(socket, token, interest)?,
            (_, None) => self.poller.remove(socket)?,
        }
        entry.polled = polled;
        Ok(())
    }

    /// Queues an entry for the next enter.
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        if !self.ring.push(entry) {
            self.submit()?;
            if !self.ring.push(entry) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        Ok(())
    }

    /// Submits between two waits. Completions that this brings are put into inboxes at once, so
    /// that no later read skips them.
    fn submit(&mut self) -> io::Result<()> {
        let submitted = self.ring.submit();
        self.take_completions();
        self.quiet = false;
        submitted
    }

    fn touch(&mut self, index: u32) {
        let entry = self.table.get(index);
        if !entry.touched {
            entry.touched = true;
            self.touched.push(index);
        }
    }

    /// Waits, and appends events.
    pub fn wait(&mut self, timeout_ms: u16, events: &mut Vec<Event>) -> io::Result<()> {
        self.settle_touched()?;
        let timeout_ms = if self.touched.is_empty() { timeout_ms } else { 0 };
        if !self.poller_armed {
            let poll = opcode::PollAdd::new(Fd(self.poller.as_raw_fd()), libc::POLLIN as u32);
            self.push(&poll.build().user_data(data(POLL, 0)))?;
            self.poller_armed = true;
        }
        if timeout_ms > 0 || !self.quiet || self.ring.has_something() {
            self.ring.enter(timeout_ms)?;
            self.quiet = !self.take_completions();
            while self.ring.has_overflown() {
                self.ring.enter(0)?;
                self.take_completions();
            }
        }
        for index in &self.touched {
            let entry = self.table.look(*index);
            if entry.open && entry.interest == Interest::Read {
                events.push(Event { token: entry.token, broken: false });
            }
        }
        if self.poller_armed {
            return Ok(());
        }
        self.take_polled(events)
    }

    /// Settles streams after their turns: those with remaining input are reported again, and
    /// receives that ended are started again.
    fn settle_touched(&mut self) -> io::Result<()> {
        let (mut kept, mut at) = (0, 0);
        // Settling can touch other streams.
        while let Some(index) = self.touched.get(at).copied() {
            at += 1;
            let entry = self.table.look(index);
            let open = entry.open;
            let again = open && entry.interest == Interest::Read && entry.has_received();
            if open {
                self.settle(index)?;
            }
            if again {
                self.touched[kept] = index;
                kept += 1;
            } else {
                self.table.get(index).touched = false;
                self.table.free_if_unused(index);
            }
        }
        self.touched.truncate(kept);
        Ok(())
    }

    /// Processes all completions; returns whether there were any.
    #[inline]
    fn take_completions(&mut self) -> bool {
        let Self { ring, pool, table, touched, poller_armed, .. } = self;
        let mut any = false;
        for completion in ring.completions() {
            any = true;
            match completion.user_data() >> 32 {
                RECEIVE => {
                    let index = completion.user_data() as u32;
                    received(&completion, index, table, pool);
                    let entry = table.get(index);
                    if !entry.open {
                        table.free_if_unused(index);
                    } else if !entry.touched {
                        entry.touched = true;
                        touched.push(index);
                    }
                }
                POLL => *poller_armed = false,
                _ => {}
            }
        }
        any
    }

    /// Reports the events of the epoll set.
    fn take_polled(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        let count = self.poller.wait(0)?;
        for number in 0..count {
            let Event { token, broken } = self.poller.event(number);
            let token = if token & WATCHED != 0 {
                self.watched[(token & !WATCHED) as usize]
            } else {
                let index = token as u32;
                // It may have waited for a buffer.
                self.touch(index);
                self.table.look(index).token
            };
            events.push(Event { token, broken });
        }
        Ok(())
    }
}

/// Processes a completion of a stream's receive.
#[inline]
fn received(completion: &cqueue::Entry, index: u32, table: &mut Table, pool: &mut Pool) {
    let entry = table.get(index);
    let (result, flags) = (completion.result(), completion.flags());
    if !cqueue::more(flags) {
        entry.receive = Receive::Idle;
    }
    if let Some(buffer) = cqueue::buffer_select(flags) {
        pool.take(buffer, result.max(0) as usize);
        if entry.open && result > 0 {
            pool.push(&mut entry.inbox, buffer);
        } else {
            pool.give_back(buffer);
        }
    }
    match result {
        0 => entry.end = Some(End::Closed),
        1.. => {}
        _ => match Errno::from_raw(-result) {
            // These do not end the stream: it is read in another way, or the receive is started
            // again.
            Errno::ECANCELED | Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR => {}
            errno => entry.end = Some(End::Broken(errno as i32)),
        },
    }
}

const fn data(kind: u64, index: u32) -> u64 {
    kind << 32 | index as u64
}

fn cancel(index: u32) -> squeue::Entry {
    let cancel = opcode::AsyncCancel::new(data(RECEIVE, index)).build();
    cancel.user_data(data(CANCEL, index))
}
