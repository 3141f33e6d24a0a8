//! The thread: connections that never block, each with one request and a deadline.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use micanite_control::log;
use micanite_net::{ByteStream, Interest, Listener, Poller, Stream, Waker};
use nix::errno::Errno;
use nix::sys::signal::SigSet;
use nix::sys::socket::{Shutdown, shutdown};

use super::pages::{self, Reply};
use super::request::Request;
use super::state::State;

/// Connections at the same time; one more takes the place of the oldest.
pub(super) const CONNECTIONS_MAX: usize = 32;
/// The longest request, headers included.
pub(super) const REQUEST_BYTES_MAX: usize = 8192;
/// A connection's time for its request and reply together.
const DEADLINE: Duration = Duration::from_secs(10);
/// Interval between two checks of deadlines while there are connections.
const DEADLINE_CHECK_MS: u16 = 500;
const IDLE_MS: u16 = 60_000;
/// Bytes that are thrown away behind a request, so that its reply is not lost to a reset.
const DRAINED_BYTES_MAX: usize = 1 << 20;
/// Pause of accepting when descriptors have run out.
const SHORTAGE: Duration = Duration::from_millis(100);

const LISTENER: u64 = 0;
const WAKER: u64 = 1;
const FIRST: u64 = 2;

/// The running thread.
#[derive(Debug)]
pub(crate) struct AdminThread {
    pub address: SocketAddr,
    ending: Arc<(Waker, AtomicBool)>,
    thread: JoinHandle<Listener>,
}

impl AdminThread {
    /// Serves at a listener that is bound already.
    ///
    /// # Errors
    /// The kernel has no more descriptors or threads.
    pub fn start(listener: Listener, state: &Arc<State>) -> io::Result<Self> {
        let address = listener.address().ok_or(ErrorKind::Unsupported)?;
        let ending = Arc::new((Waker::new()?, AtomicBool::new(false)));
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, Interest::Read)?;
        poller.add(&ending.0, WAKER, Interest::Read)?;
        let mut server = Server {
            listener,
            address,
            poller,
            state: Arc::clone(state),
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
        Ok(Self { address, ending, thread })
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
    address: SocketAddr,
    poller: Poller,
    state: Arc<State>,
    ending: Arc<(Waker, AtomicBool)>,
    /// The oldest first.
    connections: VecDeque<Connection>,
    next: u64,
}

impl Server {
    fn run(&mut self) {
        while !self.ending.1.load(Ordering::Acquire) {
            let is_idle = self.connections.is_empty();
            let wait_ms = if is_idle { IDLE_MS } else { DEADLINE_CHECK_MS };
            let count = match self.poller.wait(wait_ms) {
                Ok(count) => count,
                Err(error) => return log!("no admin side any more: {error}"),
            };
            for number in 0..count {
                match self.poller.event(number).token {
                    LISTENER => self.accept(),
                    WAKER => self.ending.0.take(),
                    token => self.go_on(token),
                }
            }
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
        if self.poller.add(&stream, token, Interest::Read).is_ok() {
            self.connections.push_back(Connection {
                stream,
                token,
                until: Instant::now() + DEADLINE,
                request: Vec::new(),
                reply: Vec::new(),
                sent: 0,
                drained: 0,
            });
        }
    }

    fn go_on(&mut self, token: u64) {
        let find = |connection: &Connection| connection.token == token;
        let Some(place) = self.connections.iter().position(find) else {
            return;
        };
        let is_loopback = self.address.ip().is_loopback();
        let reply = |request: Request<'_>| pages::reply(&self.state, is_loopback, request);
        if self.connections[place].go_on(&self.poller, reply).is_none() {
            self.connections.remove(place);
        }
    }
}

struct Connection {
    stream: Stream,
    token: u64,
    until: Instant,
    request: Vec<u8>,
    reply: Vec<u8>,
    sent: usize,
    drained: usize,
}

impl Connection {
    /// Goes on as far as it can; `None` when the connection is over.
    fn go_on(&mut self, poller: &Poller, reply: impl Fn(Request<'_>) -> Reply) -> Option<()> {
        if self.reply.is_empty() {
            self.receive(reply)?;
        }
        if self.reply.is_empty() {
            return Some(());
        }
        while self.sent < self.reply.len() {
            match self.stream.send(&self.reply[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return poller.change(&self.stream, self.token, Interest::Write).ok();
                }
                Err(_) => return None,
            }
        }
        self.drain(poller)
    }

    /// Reads until there is a reply, or nothing more to read.
    fn receive(&mut self, reply: impl Fn(Request<'_>) -> Reply) -> Option<()> {
        let mut bytes = [0; 2048];
        while self.reply.is_empty() {
            let count = read(&mut self.stream, &mut bytes)?;
            if count == 0 {
                break;
            }
            self.request.extend_from_slice(&bytes[..count]);
            let too_long = self.request.len() > REQUEST_BYTES_MAX;
            let request = Request::parse(&self.request);
            if let Some(request) = request.or(too_long.then_some(Request::TooLong)) {
                self.reply = reply(request).into_bytes();
            }
        }
        Some(())
    }

    /// All is sent: says so, and waits for the other side to end.
    fn drain(&mut self, poller: &Poller) -> Option<()> {
        shutdown(self.stream.as_fd().as_raw_fd(), Shutdown::Write).ok()?;
        let mut bytes = [0; 2048];
        while self.drained < DRAINED_BYTES_MAX {
            match read(&mut self.stream, &mut bytes)? {
                0 => return poller.change(&self.stream, self.token, Interest::Read).ok(),
                count => self.drained += count,
            }
        }
        None
    }
}

/// Returns whether accepting failed for lack of a resource, and not because of the peer.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM];
    let number = error.raw_os_error();
    shortages.iter().any(|errno| number == Some(*errno as i32))
}

/// Bytes that are there, 0 if there are none now, `None` at the end.
fn read(stream: &mut Stream, bytes: &mut [u8]) -> Option<usize> {
    match stream.recv(bytes) {
        Ok(0) => None,
        Ok(count) => Some(count),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
        Err(_) => None,
    }
}
