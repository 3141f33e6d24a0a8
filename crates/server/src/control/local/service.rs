//! The thread that lets readers in and takes their notes. Without readers it sleeps. With idle ones it looks
//! after their notes more and more seldom, once a second at last.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, Builder, JoinHandle};

use micanite_local::header::OWNER_WORD;
use micanite_memory::Owner;
use micanite_net::{Interest, Listener, Poller, Stream, Waker, is_shortage};
use micanite_wire::hash::KeyHash;

use super::reader::{Reader, State, Step};
use super::{LocalCounters, LocalShared};
use crate::limits::{
    ACCEPT_SHORTAGE_TIME, LOCAL_GREETINGS_MAX, LOCAL_HELLO_TIME, LOCAL_INTERVAL_MS_MAX,
    LOCAL_INTERVAL_MS_MIN, LOCAL_NOTES_MANY, LOCAL_NOTES_VISIT_MAX,
};
use crate::shared::Server;
use crate::shared::clock::monotonic_ns;
use crate::telemetry::log::error;

const LISTENER: u64 = u64::MAX;
const WAKER: u64 = u64::MAX - 1;
/// Longest wait without readers.
const IDLE_MS: u16 = 60_000;

/// The running thread.
#[derive(Debug)]
pub(crate) struct LocalThread {
    ending: Arc<Ending>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Ending {
    waker: Waker,
    is_ending: AtomicBool,
}

struct Service {
    listener: Listener,
    server: Arc<Server>,
    poller: Poller,
    ending: Arc<Ending>,
    /// Places of clients; a token is a place.
    clients: Vec<Option<Reader>>,
    attached: usize,
    /// For connections that the acceptor gives to a worker.
    streams: Sender<Stream>,
    interval_ms: u16,
}

impl LocalThread {
    /// Serves readers at a socket. The streams of their requests go to `streams`.
    ///
    /// # Errors
    /// The kernel has no more descriptors or threads.
    pub fn start(listener: Listener, server: &Arc<Server>, streams: Sender<Stream>) -> io::Result<Self> {
        let ending = Arc::new(Ending { waker: Waker::new()?, is_ending: AtomicBool::new(false) });
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, Interest::Read)?;
        poller.add(&ending.waker, WAKER, Interest::Read)?;
        let (begun, begins) = channel();
        let mut service = Service {
            listener,
            server: Arc::clone(server),
            poller,
            ending: Arc::clone(&ending),
            clients: Vec::new(),
            attached: 0,
            streams,
            interval_ms: LOCAL_INTERVAL_MS_MAX,
        };
        let run = move || {
            let server = Arc::clone(&service.server);
            let Some(local) = &server.shared.local else {
                return;
            };
            // Readers see the end of this thread, which ends with the process at the latest. The other end of
            // the channel waits.
            match Owner::new(Arc::clone(local.header.region()), OWNER_WORD) {
                Ok(owner) => {
                    let _ = begun.send(Ok(()));
                    service.run(local);
                    drop(owner);
                }
                Err(error) => drop(begun.send(Err(error))),
            }
            service.listener.remove_file();
        };
        let thread = Builder::new().name("local".into()).spawn(run)?;
        match begins.recv() {
            Ok(Ok(())) => Ok(Self { ending, thread }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Ends it: readers see that the server is gone.
    pub fn end(self) {
        self.ending.is_ending.store(true, Ordering::Release);
        self.ending.waker.wake();
        // A panic ends the process before this.
        let _ = self.thread.join();
    }
}

impl Service {
    fn run(&mut self, local: &LocalShared) {
        while !self.ending.is_ending.load(Ordering::Acquire) {
            let is_alone = self.clients.iter().all(Option::is_none);
            let wait_ms = if is_alone { IDLE_MS } else { self.interval_ms };
            let count = match self.poller.wait(wait_ms) {
                Ok(count) => count,
                Err(error) => return error!("no readers any more (--local): {error}"),
            };
            for number in 0..count {
                match self.poller.event(number).token {
                    LISTENER => self.accept(local),
                    WAKER => self.ending.waker.take(),
                    place => self.step(place as usize, local),
                }
            }
            self.take_notes(local);
            self.dismiss_late();
        }
    }

    fn accept(&mut self, local: &LocalShared) {
        loop {
            let socket = match self.listener.accept() {
                Ok(Some(socket)) => socket,
                Ok(None) => return,
                // Readers that are attached do not need this thread meanwhile.
                Err(error) if is_shortage(&error) => return thread::sleep(ACCEPT_SHORTAGE_TIME),
                // The client has left before it was accepted.
                Err(_) => return,
            };
            let places_max = self.clients_max() + LOCAL_GREETINGS_MAX;
            let free = self.clients.iter().position(Option::is_none);
            let place = free.unwrap_or(self.clients.len());
            if place >= places_max || self.poller.add(&socket, place as u64, Interest::Read).is_err() {
                LocalCounters::add(&local.counters.refused, 1);
                continue;
            }
            if place == self.clients.len() {
                self.clients.push(None);
            }
            self.clients[place] = Some(Reader::new(socket));
        }
    }

    fn clients_max(&self) -> usize {
        self.server.settings.local.as_ref().map_or(0, |settings| settings.clients_max)
    }

    /// Lets a client go on that has sent something, or has left.
    fn step(&mut self, place: usize, local: &LocalShared) {
        let is_full = self.attached >= self.clients_max();
        let Some(reader) = &mut self.clients[place] else {
            return;
        };
        match reader.step(&self.server, local, is_full) {
            Step::Wait => {}
            Step::Attached(stream) => {
                self.attached += 1;
                self.interval_ms = LOCAL_INTERVAL_MS_MIN;
                local.counters.clients.store(self.attached as u64, Ordering::Relaxed);
                LocalCounters::add(&local.counters.attached, 1);
                // The acceptor lives as long as this thread.
                let _ = self.streams.send(stream);
                self.server.main_waker.wake();
            }
            Step::Gone { was_refused } => {
                LocalCounters::add(&local.counters.refused, u64::from(was_refused));
                self.dismiss(place, local);
            }
        }
    }

    fn dismiss(&mut self, place: usize, local: &LocalShared) {
        let Some(Reader { state: State::Attached(mut notes), .. }) = self.clients[place].take() else {
            return;
        };
        self.attached -= 1;
        local.counters.clients.store(self.attached as u64, Ordering::Relaxed);
        local.counters.take(&notes.take(monotonic_ns(), 0, |_| {}));
    }

    /// Takes the notes of all readers, and decides when to look again.
    fn take_notes(&mut self, local: &LocalShared) {
        let now_ns = monotonic_ns();
        let mut count = 0;
        let notes_max = (LOCAL_NOTES_VISIT_MAX / self.attached.max(1) as u64).max(1);
        for reader in self.clients.iter_mut().flatten() {
            if let State::Attached(notes) = &mut reader.state {
                let note = |hash| self.server.shared.cache.note_request(KeyHash(hash));
                let taken = notes.take(now_ns, notes_max, note);
                count += taken.notes;
                local.counters.take(&taken);
            }
        }
        self.interval_ms = match count {
            LOCAL_NOTES_MANY.. => self.interval_ms / 2,
            0 => self.interval_ms * 2,
            _ => self.interval_ms,
        };
        self.interval_ms = self.interval_ms.clamp(LOCAL_INTERVAL_MS_MIN, LOCAL_INTERVAL_MS_MAX);
        local.is_busy.store(count > 0, Ordering::Relaxed);
    }

    /// Dismisses clients whose hello has not come in time.
    fn dismiss_late(&mut self) {
        for client in &mut self.clients {
            let is_late = matches!(client, Some(Reader { state: State::Greeting { since, .. }, .. })
                if since.elapsed() > LOCAL_HELLO_TIME);
            if is_late {
                *client = None;
            }
        }
    }
}
