//! The main thread: accepts connections, hands each to the worker that has fewest, and minds the
//! signals.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use micanite_net::datagram::UdpSocket;
use micanite_net::tls::ServerConfig;
use micanite_net::{ByteStream, Interest, Listener, Poller, Stream, Waker, is_shortage};
use micanite_wire::memcache::text::reply;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::supervisor::Supervisor;
use super::threads::Threads;
use super::{Failure, listeners};
use crate::configuration::ListenTls;
use crate::control::restart;
use crate::limits::{REFUSED_MAX, REFUSED_TIME};
use crate::shared::clock::unix_now_s;
use crate::shared::{Ending, Server};
use crate::telemetry::log::{self, error, info, limited, warn};
use crate::telemetry::peer::Peer;
use crate::worker::{Incoming, Post};

const SIGNALS_TOKEN: u64 = u64::MAX;
const WAKER: u64 = u64::MAX - 1;
/// Pause in which the workers of a full server catch up.
const CATCH_UP: Duration = Duration::from_micros(200);
/// Connections accepted before the signals are looked at again.
const BURST_MAX: usize = 64;
/// Longest wait for events while the server ends, or while accepting pauses because files have run out.
const WATCH_MS: u16 = 100;
/// Longest wait for events otherwise.
const IDLE_MS: u16 = 60_000;

/// Accepts connections and handles signals.
#[derive(Debug)]
pub(super) struct Acceptor {
    listeners: Vec<Listener>,
    server: Arc<Server>,
    poller: Poller,
    signals: SignalFd,
    /// Connections handed to each worker so far.
    assigned: Vec<u64>,
    pausing: bool,
    /// Number of the listeners that are the supervisor's. They come first.
    activated: usize,
    supervisor: Supervisor,
    /// Connections that were refused, until their peers have had time to read why.
    refused: VecDeque<(Instant, Stream)>,
    /// Connections that readers on this host have opened for their requests.
    streams: Receiver<Stream>,
}

impl Acceptor {
    /// Watches the listeners, and takes the signals from all threads that are started later.
    pub fn new(
        listeners: Vec<Listener>,
        activated: usize,
        supervisor: Supervisor,
        server: Arc<Server>,
        streams: Receiver<Stream>,
    ) -> io::Result<Self> {
        let mut set = SigSet::empty();
        for (signal, _) in super::SIGNALS {
            set.add(signal);
        }
        set.thread_block()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let poller = Poller::new()?;
        poller.add(&signals, SIGNALS_TOKEN, Interest::Read)?;
        poller.add(&server.main_waker, WAKER, Interest::Read)?;
        for (number, listener) in listeners.iter().enumerate() {
            poller.add(listener, number as u64, Interest::Read)?;
        }
        let assigned = vec![0; server.settings.threads];
        Ok(Self {
            listeners,
            server,
            poller,
            signals,
            assigned,
            pausing: false,
            activated,
            supervisor,
            refused: VecDeque::with_capacity(REFUSED_MAX),
            streams,
        })
    }

    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Publishes the ports of the open sockets.
    pub fn note_ports(&mut self, udp: &[Box<[UdpSocket]>]) -> Result<(), Failure> {
        // The sockets of the other workers are at the same addresses.
        let sockets = udp.iter().take(1).flatten();
        let addresses: Vec<_> = sockets.flat_map(UdpSocket::local_addr).collect();
        if let (Some(udp), Some(address)) = (&self.server.shared.udp, addresses.first()) {
            udp.set_port(address.port());
        }
        let listening = |listener: &Listener| (listener.as_fd().as_raw_fd(), listener.address());
        let listening = self.listeners.iter().map(listening).collect();
        self.server.shared.connection_table.set_listeners(listening);
        if let Some(address) = self.listeners.iter().find_map(Listener::address) {
            self.server.set_tcp_port(address.port());
        }
        if let Some(path) = std::env::var_os("MEMCACHED_PORT_FILENAME") {
            listeners::write_ports(Path::new(&path), &self.listeners, &addresses).map_err(|error| {
                let path = path.display();
                Failure::system(format!("cannot write MEMCACHED_PORT_FILENAME {path}: {error}"))
            })?;
        }
        Ok(())
    }

    /// The listeners that are the supervisor's, and those that are not.
    pub fn split(&self) -> (&[Listener], &[Listener]) {
        self.listeners.split_at(self.activated)
    }

    /// Removes the files of Unix sockets.
    pub fn remove_files(&self) {
        self.split().1.iter().for_each(Listener::remove_file);
    }

    /// Accepts until the server ends.
    pub fn run(&mut self, threads: &Threads) {
        let links = &threads.links;
        self.supervisor.ready();
        while self.server.shared.ending() == Ending::Not {
            self.round(links);
        }
        self.watch(Interest::Nothing);
        self.server.shared.wakers.iter().for_each(Waker::wake);
        self.supervisor.ending(self.server.restart.is_wanted());
        if self.server.shared.ending() == Ending::Gracefully {
            let how = match self.server.restart.is_wanted() {
                true => "restarting",
                false => "ending",
            };
            info!("{how} when {} connections have ended", self.server.connections());
        }
        let deadline = Instant::now() + self.server.settings.drain;
        while self.server.shared.ending() == Ending::Gracefully && self.server.are_working() {
            if Instant::now() >= deadline {
                let connections = self.server.connections();
                warn!("{connections} connections have not ended in time (--drain-seconds)");
                return self.server.cut_off();
            }
            self.round(links);
        }
    }

    fn round(&mut self, links: &[Sender<Post>]) {
        self.supervisor.tick(&self.server);
        log::note_dropped();
        self.look_at_certificates();
        let watching = self.pausing || self.server.shared.ending() != Ending::Not;
        let wait_ms = if watching { WATCH_MS } else { IDLE_MS };
        let wait_ms = self.supervisor.wait_ms_max(wait_ms).min(self.close_refused());
        let count = match self.poller.wait(wait_ms) {
            Ok(count) => count,
            Err(error) => {
                error!("cannot wait for connections: {error}");
                self.server.end(Ending::AtOnce);
                return;
            }
        };
        if self.pausing && count == 0 {
            self.pause(false);
        }
        for number in 0..count {
            match self.poller.event(number).token {
                SIGNALS_TOKEN => self.take_signals(),
                WAKER => self.take_streams(links),
                listener if self.server.shared.ending() == Ending::Not => {
                    self.accept(listener as usize, links);
                }
                _ => {}
            }
        }
    }

    /// Takes the streams of readers, unless the server ends.
    fn take_streams(&mut self, links: &[Sender<Post>]) {
        self.server.main_waker.take();
        while let Ok(stream) = self.streams.try_recv() {
            if self.server.shared.ending() == Ending::Not {
                self.hand_over(stream, None, links);
            }
        }
    }

    fn accept(&mut self, listener: usize, links: &[Sender<Post>]) {
        for _ in 0..BURST_MAX {
            if self.is_full() && self.are_behind() {
                // Some of those that count may have left again: let the workers look at them.
                std::thread::sleep(CATCH_UP);
                return;
            }
            match self.listeners[listener].accept() {
                Ok(Some(stream)) => self.hand_over(stream, self.tls(listener), links),
                Ok(None) => return,
                Err(error) if is_shortage(&error) => {
                    if !self.pausing {
                        limited!(WARN, "cannot accept a connection, trying again shortly", error = %error);
                    }
                    return self.pause(true);
                }
                // The connection has gone before it was accepted.
                Err(_) => {}
            }
        }
    }

    /// Connections of a worker that have not ended.
    fn load(&self, worker: usize) -> u64 {
        let closed = self.server.shared.counters[worker].connections_closed.get();
        self.assigned[worker].saturating_sub(closed)
    }

    fn is_full(&self) -> bool {
        let connections: u64 = (0..self.assigned.len()).map(|worker| self.load(worker)).sum();
        connections >= self.server.settings.connections_max as u64
    }

    /// Returns whether a worker has not yet taken all connections that were handed to it.
    fn are_behind(&self) -> bool {
        let opened = self.server.shared.counters.iter().map(|of| of.connections_opened.get());
        self.assigned.iter().zip(opened).any(|(assigned, opened)| *assigned > opened)
    }

    /// Gives a connection to the worker that has fewest, or refuses it.
    fn hand_over(&mut self, mut stream: Stream, tls: Option<Arc<ServerConfig>>, links: &[Sender<Post>]) {
        if self.is_full() {
            self.server.acceptor.count_rejected();
            let peer = Peer::of(&stream);
            limited!(WARN, "connection refused: the limit of -c is reached", peer = %peer);
            if tls.is_none() && stream.send(reply::TOO_MANY_CONNECTIONS).is_ok() {
                self.keep_refused(stream);
            }
            return;
        }
        let Some(worker) = (0..links.len()).min_by_key(|worker| self.load(*worker)) else {
            return;
        };
        self.assigned[worker] += 1;
        self.server.acceptor.count_accepted();
        if links[worker].send(Post::Connection(Incoming { stream, tls })).is_ok() {
            self.server.shared.wakers[worker].wake();
        }
    }

    /// Ends a connection that was refused. It stays open for a while, because a reset would overtake the
    /// message if the peer has sent something.
    fn keep_refused(&mut self, mut stream: Stream) {
        if self.refused.len() == REFUSED_MAX {
            self.refused.pop_front();
        }
        if stream.end_output().is_ok() {
            self.refused.push_back((Instant::now(), stream));
        }
    }

    /// Closes refused connections whose time is over. Returns the longest wait until there are more.
    fn close_refused(&mut self) -> u16 {
        let now = Instant::now();
        let is_over = |(since, _): &(Instant, Stream)| now.duration_since(*since) >= REFUSED_TIME;
        while self.refused.front().is_some_and(is_over) {
            self.refused.pop_front();
        }
        if self.refused.is_empty() { IDLE_MS } else { WATCH_MS }
    }

    /// Returns the TLS mode of a listener, by the marks of `-l`. Unix sockets are never encrypted.
    pub fn speaks(&self, listener: usize) -> ListenTls {
        if self.server.tls.is_none() || self.listeners[listener].address().is_none() {
            return ListenTls::Plain;
        }
        // The marks are those of the TCP listeners, in their order.
        let before = &self.listeners[..listener];
        let number = before.iter().filter(|it| it.address().is_some()).count();
        let mark = self.server.settings.listen.tls.get(number);
        mark.copied().unwrap_or_default()
    }

    fn tls(&self, listener: usize) -> Option<Arc<ServerConfig>> {
        self.server.tls.as_ref()?.config(self.speaks(listener))
    }

    /// Stops to accept for a moment, or goes on.
    fn pause(&mut self, pausing: bool) {
        self.pausing = pausing;
        self.server.acceptor.set_pausing(pausing);
        self.watch(if pausing { Interest::Nothing } else { Interest::Read });
    }

    fn watch(&self, interest: Interest) {
        for (number, listener) in self.listeners.iter().enumerate() {
            // It cannot fail: the listener was added.
            let _ = self.poller.change(listener, number as u64, interest);
        }
    }

    /// Has certificates and passwords read again.
    fn read_again(&self) {
        match self.server.reloader.get() {
            Some(reloader) => reloader.read_all(),
            None => info!("SIGHUP: there is nothing to be read again"),
        }
    }

    /// Warns of an expired certificate, once a day.
    fn look_at_certificates(&self) {
        let expired = self.server.tls.as_ref().and_then(|tls| tls.expired(unix_now_s()));
        if let Some(what) = expired {
            warn!("{what}");
        }
    }

    fn take_signals(&self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            match Signal::try_from(signal.ssi_signo as i32) {
                Ok(Signal::SIGUSR1) => self.server.end(Ending::Gracefully),
                Ok(Signal::SIGUSR2) => restart::begin(&self.server, false, None),
                Ok(Signal::SIGHUP) => self.read_again(),
                Ok(signal) => {
                    info!("ending on {signal}");
                    self.server.end(Ending::AtOnce);
                }
                Err(_) => {}
            }
        }
    }
}
