//! A driver with a clock, and with sockets or a queue of a port. It blocks only in an explicit
//! wait.

mod kernel;
pub(crate) mod timed;

use crate::bypass::{PortCounters, PortQueue};
use crate::counters::Counters;
use crate::driver::{Driver, SubmitError};
use crate::error::Error;
use crate::operation::{Completion, Operation, Outcome};
use crate::options::{Options, ServerAddress};
use crate::random;
use kernel::Socket;
use micanite_memory::ForkMark;
use micanite_net::bypass::PortName;
use micanite_net::datagram::UdpOptions;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Share of a deadline for which an operation waits for dead servers that are tried again: 1/TRY_SHARE.
pub(crate) const TRY_SHARE: u64 = 8;

/// Sockets or a queue of a port. Match it once per burst.
#[derive(Debug)]
enum Ports {
    /// One socket for each address family of the servers.
    Kernel(Vec<Socket>),
    Bypass(PortQueue),
}

/// The non-blocking client, for callers with many operations in flight: submit, poll, and wait when
/// there is nothing to do. [`crate::Client`] is the blocking one.
///
/// It belongs to the process that opened it. In the child of a fork [`Link::poll`] and [`Link::wait`] return
/// an error, because replies would go to either process.
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
///     let submitted = link.submit(now_ns, &Operation::get(b"key"), token);
///     link.poll(now_ns, |_completion| ended += 1)?;
///     if submitted.is_err() {
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
    ports: Ports,
    /// Servers whose TCP port nobody can connect to.
    lost_ports: Vec<Arc<AtomicBool>>,
    epoch: Instant,
    process: ForkMark,
}

impl ServerAddress {
    /// Resolves a server by its `host:port`, which is also its name on the continuum, with weight 1.
    ///
    /// # Errors
    /// The name is no `host:port`, or the host has no address.
    pub fn resolve(name: &str) -> Result<Self, Error> {
        let failed = |reason: String| Error::Address { name: name.to_owned(), reason };
        let mut found = name.to_socket_addrs().map_err(|error| failed(error.to_string()))?;
        let address = found.next().ok_or_else(|| failed("the name has no address".to_owned()))?;
        Ok(Self { address, name: name.to_owned(), weight: 1 })
    }

    /// Sets the server's share of the keys, relative to the other servers.
    pub fn with_weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }
}

impl Link {
    /// Opens sockets and fetches the directories of all servers. Silent servers count as dead for now.
    ///
    /// # Errors
    /// No server replies, or all replying servers speak another version, or the list is empty, or
    /// sockets are not available.
    pub fn connect(servers: &[ServerAddress], options: Options, udp: &UdpOptions) -> Result<Self, Error> {
        Self::open(servers, options, udp)?.introduced()
    }

    /// Connects over a queue of a port instead of the kernel's sockets.
    ///
    /// # Errors
    /// The same as for [`Self::connect`], and a server that is unreachable from that port.
    pub fn connect_on(servers: &[ServerAddress], options: Options, queue: PortQueue) -> Result<Self, Error> {
        Self::open_on(servers, options, queue)?.introduced()
    }

    /// Waits for the directories.
    fn introduced(mut self) -> Result<Self, Error> {
        let servers = self.driver.servers();
        loop {
            self.poll(self.now_ns(), |_| {})?;
            let is_settled = |server| self.driver.is_alive(server) || self.driver.is_dead(server);
            if (0..servers).all(is_settled) {
                break;
            }
            self.wait(u64::MAX)?;
        }
        if (0..servers).any(|server| self.driver.is_alive(server)) {
            return Ok(self);
        }
        Err(self.down(0))
    }

    /// Opens sockets. Later calls of [`Link::poll`] fetch the directories.
    ///
    /// # Errors
    /// The list is empty, or sockets are not available.
    pub fn open(servers: &[ServerAddress], options: Options, udp: &UdpOptions) -> Result<Self, Error> {
        check(servers)?;
        let payload_bytes = options.bounded_payload_bytes();
        let mut sockets = Vec::new();
        for is_v4 in [true, false] {
            if servers.iter().any(|server| server.address.is_ipv4() == is_v4) {
                sockets.push(Socket::bind(is_v4, payload_bytes, udp)?);
            }
        }
        Self::new(servers, options, Ports::Kernel(sockets))
    }

    /// Opens a link over a queue of a port instead of the kernel's sockets. The port limits the length of
    /// datagrams.
    ///
    /// # Errors
    /// The list is empty, or a server is unreachable from that port.
    pub fn open_on(
        servers: &[ServerAddress],
        mut options: Options,
        mut queue: PortQueue,
    ) -> Result<Self, Error> {
        check(servers)?;
        queue.begin(servers)?;
        options.payload_bytes = options.payload_bytes.min(queue.payload_bytes(servers));
        Self::new(servers, options, Ports::Bypass(queue))
    }

    fn new(servers: &[ServerAddress], options: Options, ports: Ports) -> Result<Self, Error> {
        let seed = random::seed();
        Ok(Self {
            driver: Driver::new(options, servers, seed),
            names: servers.iter().map(|server| server.name.clone()).collect(),
            ports,
            lost_ports: servers.iter().map(|_| Arc::default()).collect(),
            epoch: Instant::now(),
            process: ForkMark::new()?,
        })
    }

    /// Refuses the sockets to a child of the process that opened them.
    #[inline]
    fn check_process(&self) -> io::Result<()> {
        if self.process.is_of_this_process() { Ok(()) } else { Err(io::Error::other(Error::Forked)) }
    }

    /// Returns the time for the other calls: nanoseconds since the link was opened.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Accepts an operation, which ends with a completion with this token (any number but the
    /// greatest). It leaves with the next [`Link::poll`], or slightly later together with others.
    ///
    /// # Errors
    /// The operation was refused; there will be no completion.
    #[inline]
    pub fn submit(&mut self, now_ns: u64, operation: &Operation<'_>, token: u64) -> Result<(), SubmitError> {
        if !operation.expires_in_time() {
            return Err(SubmitError::ExpiryTooFar);
        }
        self.driver.submit(now_ns, operation, token)
    }

    /// Lets all submitted operations leave with the next [`Link::poll`].
    pub fn flush(&mut self) {
        self.driver.flush();
    }

    /// Fills datagrams completely before they leave, as in [`Driver::cork`].
    pub fn cork(&mut self) {
        self.driver.cork();
    }

    /// Receives available datagrams and sends those that may leave. Never waits. Completions go to
    /// the sink. Returns the number of received datagrams.
    ///
    /// # Errors
    /// The sockets have become unusable, or belong to the parent of this process.
    #[inline]
    pub fn poll(&mut self, now_ns: u64, mut sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        self.check_process()?;
        let driver = &mut self.driver;
        let received = match &mut self.ports {
            Ports::Kernel(sockets) => kernel::receive(sockets, now_ns, driver, &mut sink)?,
            Ports::Bypass(queue) => queue.receive(now_ns, driver, &mut sink)?,
        };
        driver.on_time(now_ns, &mut sink);
        match &mut self.ports {
            Ports::Kernel(sockets) => kernel::transmit(sockets, now_ns, driver)?,
            Ports::Bypass(queue) => queue.transmit(now_ns, driver)?,
        }
        Ok(received)
    }

    /// Blocks until a datagram arrives, or something is due, or the time is over. With a DPDK port, which
    /// can only be polled, it returns much earlier.
    ///
    /// # Errors
    /// The sockets have become unusable, or belong to the parent of this process.
    pub fn wait(&mut self, at_most_ns: u64) -> io::Result<()> {
        self.check_process()?;
        let due_ns = self.driver.next_time().unwrap_or(u64::MAX);
        let until_due = due_ns.saturating_sub(self.now_ns());
        let timeout = match until_due.min(at_most_ns) {
            u64::MAX => None,
            wait_ns => Some(Duration::from_nanos(wait_ns)),
        };
        match &mut self.ports {
            Ports::Kernel(sockets) => kernel::wait(sockets, timeout),
            Ports::Bypass(queue) => queue.wait(timeout),
        }
    }

    /// Tries those dead servers of some keys again that are due, and waits briefly for their directories. A
    /// link that is polled only while it has operations would hear of them by its next operations.
    pub(crate) fn try_again<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]> + Clone) -> io::Result<()> {
        let servers = 0..self.driver.servers();
        if !servers.clone().any(|server| self.driver.is_dead(server)) {
            return Ok(());
        }
        let end_ns = self.now_ns() + self.driver.options().deadline_ns / TRY_SHARE;
        loop {
            let now_ns = self.now_ns();
            self.poll(now_ns, |_| {})?;
            let is_tried = |key: &[u8]| self.driver.is_tried_again(now_ns, self.driver.server_of(key));
            if now_ns >= end_ns || !keys.clone().any(is_tried) {
                return Ok(());
            }
            self.wait((end_ns - now_ns).min(self.driver.options().resend_ns_first))?;
        }
    }

    /// Ends all operations without a completion, after an error of [`Self::poll`] or [`Self::wait`]. `sent`
    /// gets the tokens of those that may be executed. Datagrams that wait for room in a socket may still
    /// leave.
    pub(crate) fn give_up(&mut self, mut sent: impl FnMut(u64)) {
        self.driver.give_up(&mut |ended| {
            if ended.outcome == Outcome::Unknown {
                sent(ended.token);
            }
        });
    }

    /// Returns the driver, for its state.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        self.driver.counters()
    }

    /// Returns the name of a server.
    pub fn name(&self, server: usize) -> &str {
        self.names.get(server).map_or("", String::as_str)
    }

    /// Returns the error of a server that is down.
    pub(crate) fn down(&self, server: usize) -> Error {
        let name = self.name(server).to_owned();
        match self.driver.other_version(server) {
            Some(version) => Error::Version { server: name, version },
            None => Error::Unreachable { server: name },
        }
    }

    /// Adds the server's name to the error of an operation on a key.
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

    /// Returns the sign that the TCP port of a server cannot be connected to.
    pub(crate) fn has_lost_port(&self, server: usize) -> Arc<AtomicBool> {
        Arc::clone(&self.lost_ports[server])
    }

    /// Asks the servers whose TCP port is missing for their directories: they may have another one since a
    /// restart, of which a client of long values alone would not hear. Returns whether there are any.
    pub(crate) fn follow_ports(&mut self) -> bool {
        let (now_ns, mut any) = (self.now_ns(), false);
        for (server, lost) in self.lost_ports.iter().enumerate() {
            if lost.swap(false, Ordering::AcqRel) {
                self.driver.fetch_directory(server as u16, now_ns);
                any = true;
            }
        }
        any
    }

    /// Returns the TCP address of a server for values that do not fit a datagram.
    pub(crate) fn stream_address(&self, server: usize) -> Result<SocketAddr, Error> {
        if let Some(name @ PortName::Dpdk { .. }) = self.port_name() {
            return Err(Error::Port {
                reason: format!(
                    "the value does not fit a datagram, and {name} has no TCP for such values: \
                     use xdp: or the kernel's sockets for them"
                ),
            });
        }
        let directory = self.driver.directory(server).ok_or_else(|| self.down(server))?;
        if directory.stream_port == 0 {
            self.lost_ports[server].store(true, Ordering::Release);
            return Err(Error::NoStream { server: self.name(server).to_owned() });
        }
        let ip = self.driver.address(server).ip();
        Ok(SocketAddr::new(ip, directory.stream_port))
    }

    /// Returns the name of the port, if the link does not use the kernel's sockets.
    pub fn port_name(&self) -> Option<&PortName> {
        match &self.ports {
            Ports::Kernel(_) => None,
            Ports::Bypass(queue) => Some(queue.name()),
        }
    }

    /// Returns the counters of its queue of a port, since the port was opened.
    pub fn port_counters(&mut self) -> Option<PortCounters> {
        match &mut self.ports {
            Ports::Kernel(_) => None,
            Ports::Bypass(queue) => Some(queue.counters()),
        }
    }

    /// Returns the sockets, for a caller that waits for other descriptors, too; none for a DPDK
    /// port.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (sockets, queue) = match &self.ports {
            Ports::Kernel(sockets) => (sockets.as_slice(), None),
            Ports::Bypass(queue) => (&[][..], queue.descriptor()),
        };
        sockets.iter().map(Socket::descriptor).chain(queue)
    }

    /// Returns whether a datagram could not be sent because a socket's buffer is full. Then wait
    /// until it is writable.
    pub fn is_sending_blocked(&self) -> bool {
        match &self.ports {
            Ports::Kernel(sockets) => kernel::is_blocked(sockets),
            Ports::Bypass(queue) => queue.is_blocked(),
        }
    }
}

fn check(servers: &[ServerAddress]) -> Result<(), Error> {
    if servers.is_empty() || servers.len() > usize::from(u16::MAX) {
        return Err(Error::Address {
            name: String::new(),
            reason: "a client has 1 to 65,535 servers".to_owned(),
        });
    }
    Ok(())
}
