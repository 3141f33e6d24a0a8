//! Endpoints: transfers, peers, completions.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use micanite_memory::Region;

use crate::address::FabricAddress;
use crate::domain::{Domain, Finished};
use crate::error::Error;
use crate::limits::BATCH;
use crate::memory::{Area, Buffer, RemoteArea};
use crate::peers::{GREETING, Peer, Peers, read_greeting, write_greeting};
use crate::provider::{Addressing, Provider};
use crate::transfer::{Action, Completion, Completions, EndpointOptions, Operation, Transfer, Unposted};

/// A slot that stands for no transfer.
const NO_SLOT: u32 = u32::MAX;
/// Port of the address of an IPv4 or IPv6 endpoint: the third and fourth byte, in network order.
const PORT_AT: usize = 2;

/// Facts of a newly opened domain.
pub(crate) struct Opened {
    pub domain: Domain,
    pub descriptor: Option<RawFd>,
    /// The address at which others reach the endpoint.
    pub name: Vec<u8>,
    /// Place of the server that was connected to.
    pub server: Option<u64>,
    pub message_bytes_max: u64,
}

/// One thread's end of a fabric: it sends and receives messages, and reads areas of its peers.
#[derive(Debug)]
pub struct Endpoint {
    domain: Arc<Domain>,
    provider: &'static Provider,
    descriptor: Option<RawFd>,
    name: Vec<u8>,
    server: Option<Peer>,
    message_bytes_max: u64,
    peers: Peers,
    /// By slot.
    transfers: Vec<Option<Transfer>>,
    free: Vec<u32>,
}

impl Endpoint {
    /// Opens an endpoint that others reach at an address.
    pub fn listen(address: &FabricAddress, options: &EndpointOptions) -> Result<Self, Error> {
        Self::open(address, true, options)
    }

    /// Opens an endpoint whose first peer is the server at an address. This does not wait for the server.
    pub fn connect(address: &FabricAddress, options: &EndpointOptions) -> Result<Self, Error> {
        if address.provider.addressing == Addressing::Internet && address.port.is_none() {
            return Err(Error::Unavailable(format!("{address}: the server's port is missing")));
        }
        Self::open(address, false, options)
    }

    fn open(address: &FabricAddress, listens: bool, options: &EndpointOptions) -> Result<Self, Error> {
        let transfers_max = options.transfers_max.clamp(1, NO_SLOT - 1);
        let peers_max = options.peers_max.clamp(1, address.provider.peers_max);
        let options = EndpointOptions { transfers_max, peers_max, ..*options };
        let Opened { domain, descriptor, name, server, message_bytes_max } =
            Domain::open(address, listens, &options)?;
        let mut endpoint = Self {
            domain: Arc::new(domain),
            provider: address.provider,
            descriptor,
            name,
            server: None,
            message_bytes_max,
            peers: Peers::new(&options),
            transfers: (0..transfers_max).map(|_| None).collect(),
            free: (0..transfers_max).rev().collect(),
        };
        endpoint.server = server.map(|place| endpoint.peers.add(place)).transpose()?;
        Ok(endpoint)
    }

    /// Returns the provider.
    pub fn provider(&self) -> &'static Provider {
        self.provider
    }

    /// Returns the server that this was connected to.
    pub fn server(&self) -> Option<Peer> {
        self.server
    }

    /// Returns the port that it listens on, for providers with ports.
    pub fn port(&self) -> Option<u16> {
        let bytes = self.name.get(PORT_AT..PORT_AT + 2)?;
        let port = u16::from_be_bytes([bytes[0], bytes[1]]);
        (self.provider.addressing == Addressing::Internet).then_some(port)
    }

    /// Returns the length of the longest message.
    pub fn message_bytes_max(&self) -> u64 {
        self.message_bytes_max
    }

    /// Allocates and registers a buffer for the transfers of this endpoint.
    pub fn buffer(&self, bytes: usize) -> Result<Buffer, Error> {
        Buffer::new(&self.domain, bytes)
    }

    /// Registers memory that peers may read.
    pub fn area(&self, region: Arc<Region>) -> Result<Area, Error> {
        Area::new(&self.domain, region)
    }

    /// Sends the endpoint's own address to the server, which can then answer. The buffer's contents are
    /// overwritten.
    pub fn greet(&mut self, mut buffer: Buffer, token: u64) -> Result<(), Unposted> {
        let Some(server) = self.server else {
            return Err(Unposted { buffer, error: Error::PeerGone });
        };
        match write_greeting(&self.name, &mut buffer) {
            Some(bytes) => self.post_to(Operation::Send, server, token, bytes, buffer),
            None => Err(Unposted { buffer, error: Error::OutOfRange }),
        }
    }

    /// Posts a buffer for a message or a greeting of anybody.
    pub fn receive(&mut self, buffer: Buffer, token: u64) -> Result<(), Unposted> {
        let bytes = buffer.len();
        self.post(Operation::Receive, None, token, bytes, buffer, Action::Receive)
    }

    /// Sends the first bytes of a buffer to a peer.
    pub fn send(&mut self, peer: Peer, buffer: Buffer, bytes: usize, token: u64) -> Result<(), Unposted> {
        let error = match buffer.get(..bytes) {
            None => Error::OutOfRange,
            Some(message) if message.starts_with(&GREETING) => Error::Reserved,
            Some(_) => return self.post_to(Operation::Send, peer, token, bytes, buffer),
        };
        Err(Unposted { buffer, error })
    }

    fn post_to(
        &mut self,
        operation: Operation,
        peer: Peer,
        token: u64,
        bytes: usize,
        buffer: Buffer,
    ) -> Result<(), Unposted> {
        let action = Action::Send { peer: u64::from(peer.number) };
        self.post(operation, Some(peer), token, bytes, buffer, action)
    }

    /// Reads bytes of a peer's area, from an offset on, to the beginning of a buffer.
    pub fn read(
        &mut self,
        peer: Peer,
        area: &RemoteArea,
        offset: u64,
        bytes: usize,
        buffer: Buffer,
        token: u64,
    ) -> Result<(), Unposted> {
        let from = match area.address_of(offset, bytes) {
            Ok(from) if bytes <= buffer.len() => from,
            _ => return Err(Unposted { buffer, error: Error::OutOfRange }),
        };
        let action = Action::Read { peer: u64::from(peer.number), from, key: area.key };
        self.post(Operation::Read, Some(peer), token, bytes, buffer, action)
    }

    /// Writes the first bytes of a buffer to a peer's area, which a peer has to refuse.
    #[cfg(feature = "testing")]
    pub fn write(
        &mut self,
        peer: Peer,
        area: &RemoteArea,
        offset: u64,
        bytes: usize,
        buffer: Buffer,
        token: u64,
    ) -> Result<(), Unposted> {
        let to = match area.address_of(offset, bytes) {
            Ok(to) if bytes <= buffer.len() => to,
            _ => return Err(Unposted { buffer, error: Error::OutOfRange }),
        };
        let action = Action::Write { peer: u64::from(peer.number), to, key: area.key };
        self.post(Operation::Write, Some(peer), token, bytes, buffer, action)
    }

    fn post(
        &mut self,
        operation: Operation,
        peer: Option<Peer>,
        token: u64,
        bytes: usize,
        buffer: Buffer,
        action: Action,
    ) -> Result<(), Unposted> {
        if peer.is_some_and(|peer| !self.peers.knows(peer)) {
            return Err(Unposted { buffer, error: Error::PeerGone });
        }
        if !buffer.is_of(&self.domain) {
            return Err(Unposted { buffer, error: Error::OutOfRange });
        }
        let Some(slot) = self.free.pop() else {
            return Err(Unposted { buffer, error: Error::Full });
        };
        // SAFETY: the slot was free; the buffer is of this domain, and goes into the slot, which keeps it
        // until the transfer has finished or the endpoint is shut; the peer is known. Self is the endpoint's
        // owner.
        let started = unsafe { self.domain.start(slot, buffer.place(bytes), action) };
        match started {
            Ok(()) => {
                peer.inspect(|peer| self.peers.took(*peer));
                self.transfers[slot as usize] = Some(Transfer { operation, token, peer, bytes, buffer });
                Ok(())
            }
            Err(error) => {
                self.free.push(slot);
                let error = match (error, peer) {
                    (Error::Busy, Some(peer)) => self.peers.is_busy(peer),
                    (error, _) => error,
                };
                Err(Unposted { buffer, error })
            }
        }
    }

    /// Takes finished transfers, as many as there is room for.
    ///
    /// # Errors
    /// [`Error::Unattributed`]: a transfer failed, and the provider does not say which. What finished besides
    /// is in `completions` nevertheless.
    pub fn poll(&mut self, completions: &mut Completions) -> Result<(), Error> {
        let mut finished = [Finished::default(); BATCH];
        // SAFETY: self is the endpoint's owner, and open.
        let count = unsafe { self.domain.poll(&mut finished, completions.remaining_capacity()) }?;
        let mut result = Ok(());
        for one in &finished[..count] {
            let transfer = self.transfers.get_mut(one.slot as usize).and_then(Option::take);
            match transfer {
                Some(transfer) => {
                    self.free.push(one.slot);
                    completions.push(self.complete(transfer, one));
                }
                None => result = Err(Error::Unattributed(one.error)),
            }
        }
        result
    }

    fn complete(&mut self, transfer: Transfer, finished: &Finished) -> Completion {
        let Transfer { operation, token, peer, bytes, buffer } = transfer;
        let completion = Completion { operation, token, peer, buffer, result: Ok(bytes) };
        match finished.error {
            0 if operation == Operation::Receive => self.received(completion, finished),
            0 => completion,
            number => Completion { result: Err(Error::from_number(number)), ..completion },
        }
    }

    fn received(&mut self, mut completion: Completion, finished: &Finished) -> Completion {
        let bytes = (finished.bytes as usize).min(completion.buffer.len());
        let message = &completion.buffer[..bytes];
        if !message.starts_with(&GREETING) {
            completion.peer = self.peers.at(finished.peer);
            completion.result = completion.peer.map(|_| bytes).ok_or(Error::Stranger);
            return completion;
        }
        let are_names = self.provider.addressing == Addressing::Name;
        let greeter = match read_greeting(message, &self.name, are_names) {
            Some(name) => Self::introduce(&self.domain, &mut self.peers, name),
            None => Err(Error::Stranger),
        };
        completion.operation = Operation::Greeting;
        completion.peer = greeter.as_ref().ok().copied();
        completion.result = greeter.map(|_| bytes);
        completion
    }

    fn introduce(domain: &Domain, peers: &mut Peers, name: &[u8]) -> Result<Peer, Error> {
        // SAFETY: a greeting's name has the form of this endpoint's own, which is the provider's. The
        // endpoint's owner calls this.
        peers.greeted(name, || unsafe { domain.insert(name) })
    }

    /// Forgets a peer. Transfers to it fail from now on; those under way finish. Its messages are a
    /// stranger's until it greets again. Its address counts as one of `peers_max` as long as the endpoint is
    /// open.
    pub fn forget(&mut self, peer: Peer) {
        self.peers.forget(peer);
    }

    /// Returns the descriptor that is readable when there may be completions.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is open as long as the endpoint.
        self.descriptor.map(|descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// Returns whether a thread may sleep on the descriptor now without missing a completion. It has to poll
    /// otherwise.
    pub fn may_sleep(&mut self) -> bool {
        // SAFETY: self is the endpoint's owner.
        self.descriptor.is_some() && unsafe { self.domain.may_sleep() }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: once, by the owner. The transfers' buffers are dropped afterwards.
        if unsafe { !self.domain.shut() } {
            // Transfers may go on, so their memory stays, and that of areas with the domain.
            std::mem::forget(std::mem::take(&mut self.transfers));
            std::mem::forget(Arc::clone(&self.domain));
        }
    }
}
