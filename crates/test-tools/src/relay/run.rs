//! The loop: receives, decides, keeps until the time has come, sends.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use serde::Serialize;

use super::faults::Faults;
use super::ports::{Ports, receive};
use super::queue::{Queue, Way};
use crate::Result;

/// The longest datagram that IP can carry.
const DATAGRAM_BYTES_MAX: usize = 64 * 1024;
/// The most taken from a socket before the others have their turn.
const BURST: usize = 64;
/// Owner of the ready socket: a number of a port, or of a client above this, or the signals.
const OF_CLIENT: u64 = 1 << 32;
const OF_SIGNALS: u64 = u64::MAX;

/// Counts of datagrams.
#[derive(Debug, Default, Serialize)]
struct Counters {
    from_clients: u64,
    from_server: u64,
    sent: u64,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    /// The network did not take them, or too many were waiting.
    unsent: u64,
    /// Datagrams from a client too many, or from an unknown sender.
    refused: u64,
    /// Ports of the server that clients reach past the relay.
    ports_not_relayed: u64,
    clients: usize,
}

pub(super) struct Relay {
    ports: Ports,
    faults: Faults,
    queue: Queue,
    counters: Counters,
    signals: SignalFd,
    ready: Epoll,
    /// Clients whose sockets are waited for.
    clients: usize,
}

impl Relay {
    pub fn new(ports: Ports, faults: Faults) -> Result<Self> {
        let mut ending = SigSet::empty();
        ending.add(Signal::SIGTERM);
        ending.add(Signal::SIGINT);
        ending.thread_block()?;
        let signals = SignalFd::with_flags(&ending, SfdFlags::SFD_NONBLOCK)?;
        let ready = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        ready.add(&signals, EpollEvent::new(EpollFlags::EPOLLIN, OF_SIGNALS))?;
        for (number, socket) in (0..).zip(&ports.listening) {
            ready.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
        }
        Ok(Self {
            ports,
            faults,
            queue: Queue::default(),
            counters: Counters::default(),
            signals,
            ready,
            clients: 0,
        })
    }

    /// Relays until a signal.
    pub fn run(mut self) -> Result<()> {
        println!("relay: listening on {}", self.ports.address()?);
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        let mut events = [EpollEvent::empty(); 64];
        while self.signals.read_signal()?.is_none() {
            let ready = self.wait(&mut events)?;
            for event in &events[..ready] {
                match event.data() {
                    OF_SIGNALS => {}
                    client @ OF_CLIENT.. => {
                        self.receive_from_server((client - OF_CLIENT) as usize, &mut buffer)?;
                    }
                    port => self.receive_from_clients(port as usize, &mut buffer)?,
                }
            }
            self.send_due();
        }
        self.counters.clients = self.clients;
        println!("{}", serde_json::to_string(&self.counters)?);
        Ok(())
    }

    /// Waits until something has come, or a datagram's time has; returns how many sockets are ready.
    fn wait(&self, events: &mut [EpollEvent]) -> Result<usize> {
        let timeout = match self.queue.next_time() {
            None => EpollTimeout::NONE,
            // Rounded up: too early would be a turn in vain.
            Some(time) => {
                let left = time.saturating_duration_since(Instant::now());
                (left + Duration::from_micros(999)).try_into()?
            }
        };
        match self.ready.wait(events, timeout) {
            Ok(ready) => Ok(ready),
            Err(Errno::EINTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn receive_from_clients(&mut self, number: usize, buffer: &mut [u8]) -> Result<()> {
        for _ in 0..BURST {
            let received = receive(&self.ports.listening[number], buffer)?;
            let Some((bytes, client)) = received else {
                break;
            };
            self.counters.from_clients += 1;
            match self.ports.way_to_server(number, client)? {
                Some(way) => self.pass(way, &buffer[..bytes]),
                None => self.counters.refused += 1,
            }
        }
        // A new client has a socket of its own.
        for (client, (_, socket)) in self.ports.upstream.iter().enumerate().skip(self.clients) {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, OF_CLIENT + client as u64);
            self.ready.add(socket, event)?;
        }
        self.clients = self.ports.upstream.len();
        Ok(())
    }

    fn receive_from_server(&mut self, client: usize, buffer: &mut [u8]) -> Result<()> {
        for _ in 0..BURST {
            let received = receive(&self.ports.upstream[client].1, buffer)?;
            let Some((bytes, sender)) = received else {
                break;
            };
            self.counters.from_server += 1;
            let Some(way) = self.ports.way_to_client(client, sender) else {
                self.counters.refused += 1;
                continue;
            };
            let mut datagram = buffer[..bytes].to_vec();
            let past = self.ports.map.rewrite(&mut datagram);
            self.counters.ports_not_relayed += past as u64;
            self.pass(way, &datagram);
        }
        Ok(())
    }

    /// Loses the datagram, or sends it once or twice, now or later.
    fn pass(&mut self, way: Way, datagram: &[u8]) {
        let decision = self.faults.decide();
        self.counters.lost += u64::from(decision.copies().is_empty());
        self.counters.duplicated += u64::from(decision.copies().len() == 2);
        self.counters.reordered += u64::from(decision.reordered);
        for delay in decision.copies() {
            if delay.is_zero() {
                self.send(way, datagram);
            } else if !self.queue.push(Instant::now() + *delay, way, datagram) {
                self.counters.unsent += 1;
            }
        }
    }

    fn send(&mut self, way: Way, datagram: &[u8]) {
        if self.ports.send(way, datagram) {
            self.counters.sent += 1;
        } else {
            self.counters.unsent += 1;
        }
    }

    fn send_due(&mut self) {
        let now = Instant::now();
        while let Some(one) = self.queue.pop(now) {
            self.send(one.way, &one.datagram);
        }
    }
}
