//! The control thread: one client at a time, a line in, text out. A client that says nothing, or
//! does not read, holds it up for a second at most.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use micanite_control::Request;
use micanite_control::answer::text;
use micanite_net::{ByteStream, Interest, Listener, Poller, Stream, Waker, is_shortage};

use super::execute::Executor;
use super::socket::Socket;
use crate::control::restart;
use crate::limits::ACCEPT_SHORTAGE_TIME;
use crate::shared::Server;
use crate::shared::clock::Clock;
use crate::telemetry::log::error;
use crate::worker::Post;

/// Deadline for a client's line, and for sending the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest line.
const LINE_BYTES_MAX: usize = 4096;
const IDLE_MS: u16 = 60_000;

const LISTENER: u64 = 0;
const WAKER: u64 = 1;
const CLIENT: u64 = 2;

/// The running thread, and where it is reached.
#[derive(Debug)]
pub(crate) struct ControlThread {
    /// The path of the socket.
    pub path: PathBuf,
    listener: Arc<Listener>,
    ending: Arc<Ending>,
    thread: JoinHandle<()>,
}

/// Tells the thread that it is to end.
#[derive(Debug)]
struct Ending {
    waker: Waker,
    is_ending: AtomicBool,
}

impl ControlThread {
    /// Serves a socket. What is for a worker goes to `worker`, the first.
    ///
    /// # Errors
    /// The kernel has no more descriptors or threads.
    pub fn start(
        socket: Socket,
        server: &Arc<Server>,
        clock: Clock,
        worker: Sender<Post>,
    ) -> io::Result<Self> {
        let listener = Arc::new(socket.listener);
        let ending = Arc::new(Ending { waker: Waker::new()?, is_ending: AtomicBool::new(false) });
        let poller = Poller::new()?;
        poller.add(&*listener, LISTENER, Interest::Read)?;
        poller.add(&ending.waker, WAKER, Interest::Read)?;
        let mut service = Service {
            listener: Arc::clone(&listener),
            ending: Arc::clone(&ending),
            poller,
            executor: Executor { server: Arc::clone(server), clock, worker },
        };
        let thread = Builder::new().name("control".into());
        Ok(Self { path: socket.path, listener, ending, thread: thread.spawn(move || service.run())? })
    }

    /// Ends it, and removes the socket.
    pub fn end(self) {
        self.listener.remove_file();
        self.ending.is_ending.store(true, Ordering::Release);
        self.ending.waker.wake();
        // A panic ends the process before this.
        let _ = self.thread.join();
    }
}

struct Service {
    listener: Arc<Listener>,
    ending: Arc<Ending>,
    poller: Poller,
    executor: Executor,
}

impl Service {
    fn run(&mut self) {
        while !self.ending.has_come() {
            if let Err(error) = self.poller.wait(IDLE_MS) {
                return error!("no control any more: {error}");
            }
            loop {
                let stream = match self.listener.accept() {
                    Ok(Some(stream)) => stream,
                    Ok(None) => break,
                    Err(error) if is_shortage(&error) => {
                        sleep(ACCEPT_SHORTAGE_TIME);
                        break;
                    }
                    // The client has left before it was accepted.
                    Err(_) => break,
                };
                if let Ok(conversation) = Conversation::new(stream, &self.ending) {
                    self.answer(conversation);
                }
                if self.ending.has_come() {
                    return;
                }
            }
        }
    }

    /// A client that is too slow, or leaves, gets no answer.
    fn answer(&self, mut conversation: Conversation<'_>) {
        let Some(line) = conversation.line() else {
            return;
        };
        let request = match line {
            Ok(line) => line.parse::<Request>(),
            Err(what) => Err(what.into()),
        };
        let answer = match request {
            Ok(request @ Request::Snapshot { .. }) => {
                return self.snapshot(request, conversation.stream);
            }
            Ok(Request::Restart { force }) => {
                let server = &self.executor.server;
                return restart::begin(server, force, Some(conversation.stream));
            }
            Ok(request) => self.executor.execute(&request),
            Err(what) => Err(what),
        };
        conversation.send(&text(&answer));
    }

    /// A copy takes its time, in a thread of its own.
    fn snapshot(&self, request: Request, mut stream: Stream) {
        let executor = self.executor.clone();
        let run = move || {
            let text = text(&executor.execute(&request));
            // The answer is one line: it fits the empty buffer of the socket.
            let _ = stream.send(text.as_bytes());
        };
        if let Err(error) = Builder::new().name("snapshot".into()).spawn(run) {
            error!("no snapshot: cannot start a thread: {error}");
        }
    }
}

impl Ending {
    fn has_come(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }
}

/// One client.
struct Conversation<'a> {
    stream: Stream,
    poller: Poller,
    ending: &'a Ending,
}

impl<'a> Conversation<'a> {
    fn new(stream: Stream, ending: &'a Ending) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&ending.waker, WAKER, Interest::Read)?;
        poller.add(&stream, CLIENT, Interest::Read)?;
        Ok(Self { stream, poller, ending })
    }

    /// The client's line, without its end; `None` when it sends none.
    fn line(&mut self) -> Option<Result<String, &'static str>> {
        let mut bytes = Vec::with_capacity(LINE_BYTES_MAX);
        let is_whole = self.until_done(|stream| {
            let mut piece = [0; 512];
            let count = stream.recv(&mut piece)?;
            bytes.extend_from_slice(&piece[..count]);
            let ends = bytes.contains(&b'\n') || bytes.len() > LINE_BYTES_MAX;
            Ok(if count == 0 { None } else { Some(ends) })
        });
        if !is_whole {
            return None;
        }
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            return Some(Err("the line is too long"));
        };
        bytes.truncate(end);
        Some(String::from_utf8(bytes).map_err(|_| "the line is not UTF-8"))
    }

    fn send(&mut self, text: &str) {
        let mut rest = text.as_bytes();
        if self.poller.change(&self.stream, CLIENT, Interest::Write).is_ok() {
            self.until_done(|stream| {
                let count = stream.send(rest)?;
                rest = &rest[count..];
                Ok(Some(rest.is_empty()))
            });
        }
    }

    /// Goes on whenever the stream is ready, until `step` says that all is done. Returns false
    /// when it cannot be: the client left, it is too slow, or the server ends.
    fn until_done(&mut self, mut step: impl FnMut(&mut Stream) -> io::Result<Option<bool>>) -> bool {
        let end = Instant::now() + CLIENT_TIMEOUT;
        loop {
            match step(&mut self.stream) {
                Ok(Some(true)) => return true,
                Ok(Some(false)) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(None) | Err(_) => return false,
            }
            let left_ms = end.saturating_duration_since(Instant::now()).as_millis() as u16;
            if left_ms == 0 || self.ending.has_come() || self.poller.wait(left_ms).is_err() {
                return false;
            }
        }
    }
}
