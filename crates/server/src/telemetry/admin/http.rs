//! The thread: connections that never block, each with one request and a deadline; samples once a second.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use micanite_net::{Interest, Listener, Poller, Stream, Transport, Waker};
use nix::errno::Errno;
use nix::sys::signal::SigSet;

use super::connection::Connection;
use super::console::Console;
use super::hosts::Hosts;
use super::state::State;
use crate::configuration::ListenTls;
use crate::security::tls::TlsShared;
use crate::telemetry::log::error;

/// Connections at the same time; one more takes the place of the oldest.
pub(super) const CONNECTIONS_MAX: usize = 32;
/// The longest request, headers and body included.
pub(super) const REQUEST_BYTES_MAX: usize = 8192;
/// A connection's time for its request and reply together, without that of an action.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
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
    thread: JoinHandle<Left>,
}

/// For another program in this process.
#[derive(Debug)]
pub(crate) struct Left {
    pub listener: Listener,
    /// The console's history and events.
    pub history: Vec<u8>,
}

/// TLS of the listener, if it is spoken.
type Tls = Option<(Arc<TlsShared>, ListenTls)>;

impl AdminThread {
    /// Serves at a listener that is bound already. `deadline` is that of connections, `left` the history of
    /// the previous program.
    ///
    /// # Errors
    /// The kernel has no more descriptors or threads.
    pub fn start(
        listener: Listener,
        state: &Arc<State>,
        tls: Tls,
        hosts: Hosts,
        deadline: Duration,
        left: Option<File>,
    ) -> io::Result<Self> {
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
            console: Console::new(state, hosts, (address, is_encrypted), &ending, left),
            deadline,
            ending: Arc::clone(&ending),
            connections: VecDeque::with_capacity(CONNECTIONS_MAX),
            next: FIRST,
        };
        let thread = Builder::new().name("admin".into()).spawn(move || {
            // Signals are for the main thread, which may not have taken them yet. Blocking all
            // of them cannot fail.
            let _ = SigSet::all().thread_block();
            server.run();
            let history = server.console.end();
            Left { listener: server.listener, history }
        })?;
        Ok(Self { address, is_encrypted, ending, thread })
    }

    /// Lets it look at the server's state at once.
    pub fn wake(&self) {
        self.ending.0.wake();
    }

    /// Ends it, and the action that it executes. What it leaves is for another program in this process.
    pub fn end(self) -> Option<Left> {
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
    deadline: Duration,
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
                Err(error) => return error!("no admin side any more: {error}"),
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
            self.connections.retain(|connection| !connection.is_late(now));
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
            // Few wait for an action: one at a time of each sort is executed.
            let oldest = self.connections.iter().position(|connection| !connection.waits);
            self.connections.remove(oldest.unwrap_or(0));
        }
        let token = self.next;
        self.next += 1;
        let peer = stream.peer_ip();
        if self.poller.add(&stream, token, Interest::Read).is_err() {
            return;
        }
        if let Some(stream) = self.transport(stream) {
            self.connections.push_back(Connection::new(stream, token, peer, self.deadline));
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::control::Executor;
    use crate::shared::clock::Clock;
    use crate::testing::Bench;
    use crate::worker::Post;

    const DEADLINE_OF_TEST: Duration = Duration::from_secs(1);

    fn post(address: SocketAddr, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        let text = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n{headers}\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    fn rest(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Returns the headers that prove a login.
    fn log_in(address: SocketAddr) -> String {
        let reply = rest(post(address, "/login", "", r#"{"user":"ada","password":"secret"}"#));
        let behind =
            |text: &str, end: char| reply.split_once(text).unwrap().1.split(end).next().unwrap().to_owned();
        let (cookie, token) = (behind("Set-Cookie: ", ';'), behind("\"token\":\"", '"'));
        format!("Cookie: {cookie}\r\nX-Micanite-Token: {token}\r\n")
    }

    #[test]
    fn an_action_longer_than_the_deadline_is_answered() {
        let users = std::env::temp_dir().join(format!("micanite-admin-users-{}", std::process::id()));
        std::fs::write(&users, "ada:secret\n").unwrap();
        let bench = Bench::new(&format!("auth-file = '{}'", users.display()));
        std::fs::remove_file(users).unwrap();
        let (worker, posts) = channel();
        let state = Arc::new(State::default());
        state.set_running(Executor { server: Arc::clone(&bench.server), clock: Clock::start(), worker });
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let admin =
            AdminThread::start(listener, &state, None, Hosts::default(), DEADLINE_OF_TEST, None).unwrap();
        let login = log_in(admin.address);
        let action = post(admin.address, "/control", &login, r#"{"action":"flush","namespace":"user"}"#);
        let Ok(Post::Invalidate { answer, .. }) = posts.recv() else { panic!("no order for the worker") };
        // A connection that comes later says nothing, and is closed at its deadline.
        let idle = TcpStream::connect(admin.address).unwrap();
        assert_eq!(rest(idle), "");
        answer.send(Ok(())).unwrap();
        let reply = rest(action);
        assert!(reply.starts_with("HTTP/1.1 200 OK"), "{reply}");
        admin.end().unwrap();
    }
}
