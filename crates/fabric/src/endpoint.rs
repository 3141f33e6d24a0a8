//! Endpoints: peers, completions, the end.

use std::net::IpAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use micanite_memory::Region;

use crate::address::FabricAddress;
use crate::domain::{Domain, Finished};
use crate::error::Error;
use crate::limits::EndpointOptions;
use crate::limits::{BATCH, GIVEN_UP_MAX};
use crate::memory::{Area, Buffer};
use crate::peers::{GREETING, Peer, Peers, read_greeting};
use crate::provider::{Addressing, Provider};
use crate::slots::{Ended, NO_SLOT, Slots};
use crate::transfer::{Completion, Completions, Operation, Transfer};

/// The number of libfabric's error for what was cancelled.
const CANCELLED: i32 = nix::errno::Errno::ECANCELED as i32;
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
    /// Ranges of one read.
    pub ranges_max: u32,
}

/// One thread's end of a fabric: it sends and receives messages, and reads areas of its peers.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) domain: Arc<Domain>,
    provider: &'static Provider,
    descriptor: Option<RawFd>,
    pub(crate) name: Vec<u8>,
    server: Option<Peer>,
    message_bytes_max: u64,
    pub(crate) ranges_max: u32,
    pub(crate) peers: Peers,
    pub(crate) slots: Slots,
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
        let transfers_max = options.transfers_max.clamp(1, NO_SLOT - 1 - GIVEN_UP_MAX);
        let peers_max = options.peers_max.clamp(1, address.provider.peers_max);
        let options = EndpointOptions { transfers_max, peers_max, ..*options };
        let Opened { domain, descriptor, name, server, message_bytes_max, ranges_max } =
            Domain::open(address, listens, &options)?;
        let mut endpoint = Self {
            domain: Arc::new(domain),
            provider: address.provider,
            descriptor,
            name,
            server: None,
            message_bytes_max,
            ranges_max,
            peers: Peers::new(&options),
            slots: Slots::new(transfers_max),
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
            match self.slots.end(one.slot, one.error) {
                Ended::Transfer(transfer, _) if transfer.is_given_up => drop(transfer),
                Ended::Transfer(transfer, error) => {
                    completions.push(self.complete(transfer, &Finished { error, ..*one }));
                }
                Ended::Nothing => {}
                Ended::Unknown => result = Err(Error::Unattributed(one.error)),
            }
        }
        result
    }

    fn complete(&mut self, transfer: Transfer, finished: &Finished) -> Completion {
        let Transfer { operation, token, peer, bytes, buffer, is_cancelled, .. } = transfer;
        let completion = Completion { operation, token, peer, buffer, result: Ok(bytes) };
        match finished.error {
            0 if operation == Operation::Receive => self.received(completion, finished),
            0 if operation == Operation::ReceiveTagged => {
                let bytes = (finished.bytes as usize).min(bytes);
                Completion { result: Ok(bytes), peer: self.peers.at(finished.peer), ..completion }
            }
            0 => completion,
            CANCELLED if is_cancelled => Completion { result: Err(Error::Cancelled), ..completion },
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
            Some(name) => Self::introduce(&self.domain, &mut self.peers, &mut self.slots, name),
            None => Err(Error::Stranger),
        };
        completion.operation = Operation::Greeting;
        completion.peer = greeter.as_ref().ok().copied();
        completion.result = greeter.map(|_| bytes);
        completion
    }

    fn introduce(domain: &Domain, peers: &mut Peers, slots: &mut Slots, name: &[u8]) -> Result<Peer, Error> {
        // SAFETY: a greeting's name has the form of this endpoint's own, which is the provider's. The
        // endpoint's owner calls this.
        let insert = || unsafe { domain.insert(name) };
        let remove = |place: u32| {
            let is_used = |transfer: &Transfer| transfer.peer.is_some_and(|peer| peer.number == place);
            if slots.transfers().any(|(_, transfer)| is_used(transfer)) {
                return false;
            }
            // SAFETY: the place is a known peer's, and no transfer to it is under way. The endpoint's owner
            // calls this.
            unsafe { domain.remove(place.into()) }.is_ok()
        };
        peers.greeted(name, insert, remove)
    }

    /// Returns the IP address with which a peer has greeted. Where a provider attributes messages by their
    /// connections (`ofi_rxm`), a peer's messages come from there.
    pub fn ip_of(&self, peer: Peer) -> Option<IpAddr> {
        self.peers.ip_of(peer)
    }

    /// Forgets a peer. Transfers to it fail from now on; those under way finish. Its messages are a
    /// stranger's until it greets again. Its address counts as one of `peers_max` until another one takes its
    /// place.
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
            self.slots.leak();
            std::mem::forget(Arc::clone(&self.domain));
        }
    }
}
