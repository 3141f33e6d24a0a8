//! The thread: connections that never block, each with one request and a deadline; samples once a second.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use micanite_control::log;
use micanite_net::{Interest, Listener, Poller, Stream, Transport, Waker};
use nix::errno::Errno;
use nix::sys::signal::SigSet;

use super::connection::Connection;
use super::console::Console;
use super::hosts::Hosts;
use super::state::State;
use crate::configuration::ListenTls;
use crate::security::tls::TlsShared;

/// Connections at the same time; one more takes the place of the oldest.
pub(super) const CONNECTIONS_MAX: usize = 32;
/// The longest request, headers and body included.
pub(super) const REQUEST_BYTES_MAX: usize = 8192;
/// A connection's time for its request and reply together.
const DEADLINE: Duration = Duration::from_secs(10);
/// Interval between two checks of deadlines while there are connections.
const DEADLINE_CHECK_MS: u16 = 500;
/// Pause of accepting when descriptors have run out.
const SHORTAGE: Duration = Duration::from_millis(100);

const LISTENER: u64 = 0;
const WAKER: u64 = 1;
const FIRST: u64 = 2;

/// The running thread.
#[derive(Debug)]
pub(crate) struct AdminThread {
    pub address: SocketAddr,
    pub is_encrypted: bool,
    ending: Arc<(Waker, AtomicBool)>,
    thread: JoinHandle<Listener>,
}

/// TLS of the listener, if it is spoken.
type Tls = Option<(Arc<TlsShared>, ListenTls)>;

impl AdminThread {
    /// Serves at a listener that is bound already.
    ///
    /// # Errors
    /// The kernel has no more descriptors or threads.
    pub fn start(listener: Listener, state: &Arc<State>, tls: Tls, hosts: Hosts) -> io::Result<Self> {
        let address = listener.address().ok_or(ErrorKind::Unsupported)?;
        let tls = tls.filter(|(_, mark)| *mark != ListenTls::Plain);
        let is_encrypted = tls.is_some();
        let ending = Arc::new((Waker::new()?, AtomicBool::new(false)));
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, Interest::Read)?;
        poller.add(&ending.0, WAKER, Interest::Read)?;
        let mut server = Server {
            listener,
            tls,
            poller,
            console: Console::new(state, hosts, (address, is_encrypted), &ending),
            ending: Arc::clone(&ending),
            connections: VecDeque::with_capacity(CONNECTIONS_MAX),
            next: FIRST,
        };
        let thread = Builder::new().name("admin".into()).spawn(move || {
            // Signals are for the main thread, which may not have taken them yet. Blocking all
            // of them cannot fail.
            let _ = SigSet::all().thread_block();
            server.run();
            server.listener
        })?;
        Ok(Self { address, is_encrypted, ending, thread })
    }

    /// Lets it look at the server's state at once.
    pub fn wake(&self) {
        self.ending.0.wake();
    }

    /// Ends it. The listener stays for another program in this process.
    pub fn end(self) -> Option<Listener> {
        self.ending.1.store(true, Ordering::Release);
        self.ending.0.wake();
        // A panic ends the process before this.
        self.thread.join().ok()
    }
}

struct Server {
    listener: Listener,
    tls: Tls,
    poller: Poller,
    console: Console,
    ending: Arc<(Waker, AtomicBool)>,
    /// The oldest first.
    connections: VecDeque<Connection>,
    next: u64,
}

impl Server {
    fn run(&mut self) {
        while !self.ending.1.load(Ordering::Acquire) {
            let tick_ms = self.console.tick();
            let is_idle = self.connections.is_empty();
            let wait_ms = if is_idle { tick_ms } else { tick_ms.min(DEADLINE_CHECK_MS) };
            let count = match self.poller.wait(wait_ms) {
                Ok(count) => count,
                Err(error) => return log!("no admin side any more: {error}"),
            };
            for number in 0..count {
                let event = self.poller.event(number);
                match event.token {
                    LISTENER => self.accept(),
                    WAKER => self.ending.0.take(),
                    token => self.go_on(token, event.broken),
                }
            }
            self.send_answers();
            let now = Instant::now();
            self.connections.retain(|connection| now < connection.until);
        }
    }

    /// Takes one connection; the poller tells of the next one.
    fn accept(&mut self) {
        let stream = match self.listener.accept() {
            Ok(Some(stream)) => stream,
            // It has left again.
            Ok(None) => return,
            // Not a loop that takes a whole core.
            Err(error) if is_shortage(&error) => return sleep(SHORTAGE),
            Err(_) => return,
        };
        if self.connections.len() == CONNECTIONS_MAX {
            self.connections.pop_front();
        }
        let token = self.next;
        self.next += 1;
        let peer = stream.peer_ip();
        if self.poller.add(&stream, token, Interest::Read).is_err() {
            return;
        }
        if let Some(stream) = self.transport(stream) {
            self.connections.push_back(Connection::new(stream, token, peer, Instant::now() + DEADLINE));
        }
    }

    /// Returns the stream, with TLS where it is spoken; none where TLS is impossible.
    fn transport(&self, stream: Stream) -> Option<Transport<Stream>> {
        let Some((tls, mark)) = &self.tls else {
            return Some(Transport::Plain(stream));
        };
        let tls = micanite_net::tls::Tls::new(stream, tls.config(*mark)?).ok()?;
        Some(Transport::Tls(Box::new(tls)))
    }

    fn go_on(&mut self, token: u64, is_broken: bool) {
        let find = |connection: &Connection| connection.token == token;
        let Some(place) = self.connections.iter().position(find) else {
            return;
        };
        let connection = &mut self.connections[place];
        let is_over = is_broken && connection.waits;
        if is_over || connection.go_on(&self.poller, &mut self.console).is_none() {
            self.connections.remove(place);
        }
    }

    /// Replies to those whose action has been done.
    fn send_answers(&mut self) {
        while let Some((token, reply)) = self.console.answer() {
            if let Some(connection) = self.connections.iter_mut().find(|it| it.token == token) {
                connection.set_reply(reply);
                self.go_on(token, false);
            }
        }
    }
}

/// Returns whether accepting failed for lack of a resource, and not because of the peer.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM];
    let number = error.raw_os_error();
    shortages.iter().any(|errno| number == Some(*errno as i32))
}
