//! A driver with its sockets and a clock: never blocks unless it is told to wait.

use crate::counters::Counters;
use crate::driver::{Driver, SubmitError};
use crate::error::Error;
use crate::operation::{Completion, Operation};
use crate::options::{Options, ServerAddress};
use micanite_net::datagram::{Receiver, Sender, UdpOptions, UdpSocket};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Bursts that one call of [`Link::poll`] receives at most: sending must not wait for long.
const BURSTS_MAX: usize = 4;
/// After a burst of less than this nothing more is expected: the system call is saved.
const BURST_SMALL: usize = 8;

/// A socket for the servers of one address family.
#[derive(Debug)]
struct Port {
    is_v4: bool,
    socket: UdpSocket,
    receiver: Receiver,
    sender: Sender,
}

impl Port {
    fn bind(is_v4: bool, payload_bytes: usize, options: &UdpOptions) -> io::Result<Self> {
        let any = match is_v4 {
            true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            false => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(any, options)?;
        let granted = socket.granted();
        Ok(Self {
            is_v4,
            receiver: Receiver::new(granted.gro, payload_bytes),
            sender: Sender::new(granted.gso, payload_bytes),
            socket,
        })
    }

    /// Takes a datagram to be sent; returns whether there was room.
    #[inline]
    fn push(&mut self, to: SocketAddr, bytes: &[u8]) -> bool {
        if self.sender.is_full() && self.sender.send(&self.socket).is_err() {
            return false;
        }
        let Some(room) = self.sender.begin(to) else {
            return false;
        };
        room[..bytes.len()].copy_from_slice(bytes);
        self.sender.commit(bytes.len());
        true
    }
}

/// The non-blocking client, for callers with many operations in the air: submit, poll, and wait
/// when there is nothing to do. [`crate::Client`] is the one that blocks.
///
/// ```no_run
/// use micanite_client::{Link, Operation, Options, ServerAddress, UdpOptions};
/// # fn main() -> Result<(), micanite_client::Error> {
/// let servers = [ServerAddress::resolve("127.0.0.1:11300")?];
/// let mut link = Link::connect(&servers, Options::default(), &UdpOptions::default())?;
/// let mut ended = 0;
/// while ended < 1000 {
///     let now_ns = link.now_ns();
///     let token = 7; // comes back with the completion
///     let taken = link.submit(now_ns, &Operation::get(b"key"), token);
///     link.poll(now_ns, |_completion| ended += 1)?;
///     if taken.is_err() {
///         link.wait(u64::MAX)?; // windows are full
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Link {
    driver: Driver,
    names: Vec<String>,
    ports: Vec<Port>,
    epoch: Instant,
}

impl ServerAddress {
    /// A server by its `host:port`, which is its name on the continuum too, with weight 1.
    ///
    /// # Errors
    /// The host has no address, or it is no `host:port`.
    pub fn resolve(name: &str) -> Result<Self, Error> {
        let failed = |reason: String| Error::Address {
            name: name.to_owned(),
            reason,
        };
        let mut found = name
            .to_socket_addrs()
            .map_err(|error| failed(error.to_string()))?;
        let address = found
            .next()
            .ok_or_else(|| failed("the name has no address".to_owned()))?;
        Ok(Self {
            address,
            name: name.to_owned(),
            weight: 1,
        })
    }

    /// With a share of the keys, relative to the other servers'.
    pub fn with_weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }
}

impl Link {
    /// Opens sockets and fetches the directories of all servers. Those that do not reply are dead
    /// for now.
    ///
    /// # Errors
    /// No server replies, or all that do speak another version, or the list is empty, or there are
    /// no sockets to be had.
    pub fn connect(
        servers: &[ServerAddress],
        options: Options,
        udp: &UdpOptions,
    ) -> Result<Self, Error> {
        let mut link = Self::open(servers, options, udp)?;
        loop {
            link.poll(link.now_ns(), |_| {})?;
            let all = 0..servers.len();
            if all
                .clone()
                .all(|server| link.driver.is_alive(server) || link.driver.is_dead(server))
            {
                break;
            }
            link.wait(u64::MAX)?;
        }
        if (0..servers.len()).any(|server| link.driver.is_alive(server)) {
            return Ok(link);
        }
        Err(link.down(0))
    }

    /// Opens sockets; the directories are fetched by the calls of [`Link::poll`] that follow.
    ///
    /// # Errors
    /// The list is empty, or there are no sockets to be had.
    pub fn open(
        servers: &[ServerAddress],
        options: Options,
        udp: &UdpOptions,
    ) -> Result<Self, Error> {
        if servers.is_empty() || servers.len() > usize::from(u16::MAX) {
            return Err(Error::Address {
                name: String::new(),
                reason: "a client has 1 to 65,535 servers".to_owned(),
            });
        }
        // Drawn by the standard library from the system's randomness.
        let seed = RandomState::new().hash_one(0_u8);
        let payload_bytes = options.payload_bytes;
        let driver = Driver::new(options, servers, seed);
        let mut ports = Vec::new();
        for is_v4 in [true, false] {
            if servers
                .iter()
                .any(|server| server.address.is_ipv4() == is_v4)
            {
                ports.push(Port::bind(is_v4, payload_bytes, udp)?);
            }
        }
        Ok(Self {
            driver,
            names: servers.iter().map(|server| server.name.clone()).collect(),
            ports,
            epoch: Instant::now(),
        })
    }

    /// The time that the other calls want: nanoseconds since the link was opened.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Takes an operation, which ends with a completion that has this token (any number but the
    /// greatest). It leaves with the next [`Link::poll`], or a little later in company.
    ///
    /// # Errors
    /// It was not taken; there will be no completion.
    #[inline]
    pub fn submit(
        &mut self,
        now_ns: u64,
        operation: &Operation<'_>,
        token: u64,
    ) -> Result<(), SubmitError> {
        self.driver.submit(now_ns, operation, token)
    }

    /// Everything that was submitted leaves with the next [`Link::poll`].
    pub fn flush(&mut self) {
        self.driver.flush();
    }

    /// See [`Driver::cork`].
    pub fn cork(&mut self) {
        self.driver.cork();
    }

    /// Receives what has arrived and sends what may leave; never waits. What has ended goes to the
    /// sink. Returns the number of datagrams received.
    ///
    /// # Errors
    /// The sockets are of no use any more.
    #[inline]
    pub fn poll(&mut self, now_ns: u64, mut sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        let mut received = 0;
        for port in &mut self.ports {
            for _ in 0..BURSTS_MAX {
                let burst = port.receiver.recv(&port.socket)?;
                received += burst;
                for datagram in port
                    .receiver
                    .datagrams()
                    .filter(|datagram| !datagram.truncated)
                {
                    self.driver
                        .on_datagram(now_ns, datagram.bytes, datagram.peer, &mut sink);
                }
                if burst < BURST_SMALL {
                    break;
                }
            }
        }
        self.driver.on_time(now_ns, &mut sink);
        self.send(now_ns)?;
        Ok(received)
    }

    fn send(&mut self, now_ns: u64) -> io::Result<()> {
        loop {
            let ports = &mut self.ports;
            self.driver.transmit(now_ns, |to, bytes| {
                let port = ports.iter_mut().find(|port| port.is_v4 == to.is_ipv4());
                port.is_some_and(|port| port.push(to, bytes))
            });
            for port in &mut self.ports {
                port.sender.send(&port.socket)?;
            }
            if !self.driver.has_more() || self.is_sending_blocked() {
                return Ok(());
            }
        }
    }

    /// Blocks until something has arrived, or something is due, or the time is over.
    ///
    /// # Errors
    /// The sockets are of no use any more.
    pub fn wait(&mut self, at_most_ns: u64) -> io::Result<()> {
        let due_ns = self.driver.next_time().unwrap_or(u64::MAX);
        let until_due = due_ns.saturating_sub(self.now_ns());
        let timeout = match until_due.min(at_most_ns) {
            u64::MAX => None,
            wait_ns => Some(TimeSpec::from_duration(Duration::from_nanos(wait_ns))),
        };
        let interest = |port: &Port| match port.sender.pending() {
            0 => PollFlags::POLLIN,
            _ => PollFlags::POLLIN | PollFlags::POLLOUT,
        };
        let mut waited = [None, None];
        for (place, port) in waited.iter_mut().zip(&self.ports) {
            *place = Some(PollFd::new(port.socket.as_fd(), interest(port)));
        }
        let polled = match waited {
            [Some(one), Some(two)] => ppoll(&mut [one, two], timeout, None),
            [Some(one), _] => ppoll(&mut [one], timeout, None),
            _ => Ok(0),
        };
        match polled {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The driver, for its facts.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// What has been counted so far.
    pub fn counters(&self) -> &Counters {
        self.driver.counters()
    }

    /// The name of a server.
    pub fn name(&self, server: usize) -> &str {
        self.names.get(server).map_or("", String::as_str)
    }

    /// Why a server is down.
    pub(crate) fn down(&self, server: usize) -> Error {
        let name = self.name(server).to_owned();
        match self.driver.other_version(server) {
            Some(version) => Error::Version {
                server: name,
                version,
            },
            None => Error::Unreachable { server: name },
        }
    }

    /// An error of an operation on a key, with its server's name.
    pub(crate) fn named(&self, key: &[u8], error: Error) -> Error {
        let number = self.driver.server_of(key);
        let server = self.name(number).to_owned();
        match error {
            Error::Unreachable { .. } => self.down(number),
            Error::TimedOut { .. } => Error::TimedOut { server },
            Error::Version { version, .. } => Error::Version { server, version },
            other => other,
        }
    }

    /// The TCP port of a server for values that do not fit a datagram.
    pub(crate) fn stream_address(&self, server: usize) -> Result<SocketAddr, Error> {
        let directory = self
            .driver
            .directory(server)
            .ok_or_else(|| self.down(server))?;
        if directory.stream_port == 0 {
            return Err(Error::NoStream {
                server: self.name(server).to_owned(),
            });
        }
        let ip = self.driver.address(server).ip();
        Ok(SocketAddr::new(ip, directory.stream_port))
    }

    /// The sockets, for a caller that waits for more than these.
    pub fn descriptors(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        self.ports.iter().map(|port| port.socket.as_fd())
    }

    /// Whether something could not be sent because a socket's memory is full: wait until it is
    /// writable again.
    pub fn is_sending_blocked(&self) -> bool {
        self.ports.iter().any(|port| port.sender.pending() > 0)
    }
}
