//! The worker's end of its endpoint.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use micanite_fabric::{Buffer, Endpoint, Error, GiveUp, Peer};
use rtrb::{Consumer, Producer, RingBuffer};

use super::bell::Bell;
use super::calls::{Calls, Watch};
use super::messages::{Action, Command, Event, Lot, Post};
use super::thread::EndpointThread;
use crate::limits::{FABRIC_END_MS, FABRIC_HELLOS, FABRIC_STRANGERS_MAX};

/// Pause between two looks whether a thread has ended.
const END_PAUSE: Duration = Duration::from_millis(1);

/// State that both threads look at.
#[derive(Debug)]
pub(super) struct Common {
    pub calls: Calls,
    /// Wakes the worker.
    pub worker: Bell,
    /// Wakes the endpoint's thread.
    pub thread: Bell,
    /// The endpoint's thread is to end.
    pub is_ending: AtomicBool,
    /// It looks more often while there are clients.
    pub has_clients: AtomicBool,
    /// Polls that have failed, for no transfer in particular.
    pub polls_failed: AtomicU64,
}

/// The worker's end of its endpoint. Dropping it closes the endpoint, unless a call of the provider stands.
#[derive(Debug)]
pub struct Link {
    commands: Producer<Command>,
    events: Consumer<Event>,
    common: Arc<Common>,
    thread: Option<JoinHandle<()>>,
    right: GiveUp,
    watch: Watch,
    /// There are commands that the thread was not woken for.
    is_unsaid: bool,
    /// A command found no room, so the thread has taken none for long.
    is_overrun: bool,
}

/// Commands that may wait at a time. Each buffer is in one transfer, which may be cancelled or given up, and
/// whose end brings no more than another transfer, a peer to forget and a buffer to free.
const fn commands_max(transfers_max: u32) -> usize {
    4 * transfers_max as usize + FABRIC_STRANGERS_MAX
}

/// Events that may wait at a time: one of each buffer, and of each hello another one.
const fn events_max(transfers_max: u32) -> usize {
    transfers_max as usize + 4 * FABRIC_HELLOS
}

impl Link {
    /// Starts a thread for an endpoint.
    ///
    /// # Errors
    /// The kernel refuses a thread or a descriptor.
    pub fn start(worker: usize, endpoint: Endpoint, transfers_max: u32, spins: bool) -> Result<Self, Error> {
        let refused = |error: std::io::Error| Error::Unavailable(error.to_string());
        let (commands, of_worker) = RingBuffer::new(commands_max(transfers_max));
        let (to_worker, events) = RingBuffer::new(events_max(transfers_max));
        let common = Arc::new(Common {
            calls: Calls::default(),
            worker: Bell::new().map_err(refused)?,
            thread: Bell::new().map_err(refused)?,
            is_ending: AtomicBool::new(false),
            has_clients: AtomicBool::new(false),
            polls_failed: AtomicU64::new(0),
        });
        let right = endpoint.giver_up();
        let body = EndpointThread::new(endpoint, of_worker, to_worker, Arc::clone(&common), spins);
        let thread = std::thread::Builder::new().name(format!("fabric-{worker}"));
        let thread = thread.spawn(move || body.run()).map_err(refused)?;
        let (watch, thread) = (Watch::default(), Some(thread));
        Ok(Self { commands, events, common, thread, right, watch, is_unsaid: false, is_overrun: false })
    }

    /// Bytes of both rings.
    pub const fn bytes(transfers_max: u32) -> usize {
        commands_max(transfers_max) * size_of::<Command>() + events_max(transfers_max) * size_of::<Event>()
    }

    /// Returns the descriptor that becomes readable when there are events, after [`Link::falls_asleep`].
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.common.worker.as_fd()
    }

    /// Takes an event.
    #[inline]
    pub fn take(&mut self) -> Option<Event> {
        self.events.pop().ok()
    }

    /// Returns whether there are no events, so that the worker may sleep on the descriptor.
    pub fn falls_asleep(&mut self) -> bool {
        self.common.worker.fall_asleep();
        self.events.is_empty()
    }

    /// Notes that the worker is awake.
    #[inline]
    pub fn wake_up(&self) {
        self.common.worker.wake_up();
    }

    /// Clears the descriptor.
    pub fn clear(&self) {
        self.common.worker.clear();
    }

    /// Wakes the thread for the commands since the last call.
    #[inline]
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.is_unsaid) {
            self.common.thread.ring();
        }
    }

    #[inline]
    fn command(&mut self, command: Command) {
        self.is_unsaid = true;
        if let Err(rtrb::PushError::Full(command)) = self.commands.push(command) {
            // Nobody frees what it has: the provider may know of it.
            std::mem::forget(command);
            self.is_overrun = true;
        }
    }

    fn start_transfer(&mut self, action: Action, buffer: Buffer, token: u64) {
        self.command(Command::Start(Post { action, buffer, token }));
    }

    /// Posts a buffer for a message or a greeting of anybody.
    pub fn receive(&mut self, buffer: Buffer, token: u64) {
        self.start_transfer(Action::Receive, buffer, token);
    }

    /// Posts a buffer for a message with a tag. Later messages to clients wait until it is posted.
    pub fn receive_tagged(&mut self, buffer: Buffer, tag: u64, token: u64) {
        self.start_transfer(Action::ReceiveTagged { tag }, buffer, token);
    }

    /// Sends the first bytes of a buffer to a peer.
    pub fn send(&mut self, peer: Peer, buffer: Buffer, bytes: usize, token: u64) {
        self.start_transfer(Action::Send { peer, bytes }, buffer, token);
    }

    /// Sends the first bytes of a buffer to the buffer of a peer that was posted for this tag.
    pub fn send_tagged(&mut self, peer: Peer, buffer: Buffer, bytes: usize, tag: u64, token: u64) {
        self.start_transfer(Action::SendTagged { peer, bytes, tag }, buffer, token);
    }

    /// Ends receives of a token, as [`Endpoint::cancel`] does.
    pub fn cancel(&mut self, token: u64) {
        self.command(Command::Cancel(token));
    }

    /// Gives up transfers of a token, as [`Endpoint::give_up`] does. Those that were not started fail.
    pub fn give_up(&mut self, token: u64) {
        self.command(Command::GiveUp(token));
    }

    /// Forgets a peer, as [`Endpoint::forget`] does.
    pub fn forget(&mut self, peer: Peer) {
        self.command(Command::Forget(peer));
    }

    /// Registers memory. An event brings it.
    pub fn register(&mut self, lot: Lot) {
        self.command(Command::Register(lot));
    }

    /// Frees a buffer: the end of its registration is a call of the provider, too.
    pub fn free(&mut self, buffer: Buffer) {
        self.command(Command::Free(buffer));
    }

    /// Tells the thread whether there are clients. Returns the number of polls that have failed since.
    pub fn maintain(&mut self, has_clients: bool) -> u64 {
        self.common.has_clients.store(has_clients, Ordering::Relaxed);
        self.flush();
        self.common.polls_failed.swap(0, Ordering::Relaxed)
    }

    /// Returns whether the thread stands within a call of the provider. To be asked every 10 ms or so.
    pub fn stands(&mut self, now_ms: u64) -> bool {
        self.watch.stands(&self.common.calls, now_ms) || self.is_overrun
    }

    /// Gives the endpoint up: nobody waits for its thread, and the memory that it may use stays.
    pub fn abandon(&mut self) {
        self.right.give_up();
        self.common.is_ending.store(true, Ordering::Relaxed);
        self.thread = None;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.common.is_ending.store(true, Ordering::Relaxed);
        self.common.thread.ring();
        let end = Instant::now() + Duration::from_millis(FABRIC_END_MS);
        while !thread.is_finished() {
            if Instant::now() > end {
                return self.abandon();
            }
            std::thread::sleep(END_PAUSE);
        }
        // A panic ends the process before this.
        let _ = thread.join();
    }
}
