//! Endpoint, as a connection needs it. Tests have another one than libfabric's.

use std::ops::DerefMut;
use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;
use micanite_fabric::{Error, FabricAddress, RemoteArea};

/// Most completions that one poll brings.
pub(super) const BATCH: usize = micanite_fabric::limits::BATCH;

/// A finished transfer.
#[derive(Debug)]
pub(super) struct Ended<B> {
    pub(super) token: u64,
    pub(super) buffer: B,
    pub(super) result: Result<usize, Error>,
}

/// A transfer that was not started.
#[derive(Debug)]
pub(super) struct Refused<B> {
    pub(super) buffer: B,
    pub(super) error: Error,
}

/// Bytes of the cache area: offset and length.
pub(super) type Range = (u64, usize);

/// One end of a fabric, whose only peer is a server.
pub(super) trait Transport: Sized {
    /// Registered memory.
    type Buffer: DerefMut<Target = [u8]>;

    /// Returns the time of a clock that goes on while the machine sleeps.
    fn now_ns() -> u64;

    fn open(address: &FabricAddress) -> Result<Self, Error>;

    fn buffer(&self, bytes: usize) -> Result<Self::Buffer, Error>;

    fn message_bytes_max(&self) -> u64;

    /// Tells the server the endpoint's address.
    fn greet(&mut self, buffer: Self::Buffer, token: u64) -> Result<(), Refused<Self::Buffer>>;

    fn receive(&mut self, buffer: Self::Buffer, token: u64) -> Result<(), Refused<Self::Buffer>>;

    fn send(&mut self, buffer: Self::Buffer, bytes: usize, token: u64) -> Result<(), Refused<Self::Buffer>>;

    fn receive_tagged(
        &mut self,
        buffer: Self::Buffer,
        tag: u64,
        token: u64,
    ) -> Result<(), Refused<Self::Buffer>>;

    fn send_tagged(
        &mut self,
        buffer: Self::Buffer,
        bytes: usize,
        tag: u64,
        token: u64,
    ) -> Result<(), Refused<Self::Buffer>>;

    /// Reads one range.
    fn read(
        &mut self,
        area: &RemoteArea,
        range: Range,
        buffer: Self::Buffer,
        token: u64,
    ) -> Result<(), Refused<Self::Buffer>>;

    /// Reads two ranges, which stand one after the other in the buffer.
    fn read_ranges(
        &mut self,
        area: &RemoteArea,
        ranges: [Range; 2],
        buffer: Self::Buffer,
        token: u64,
    ) -> Result<(), Refused<Self::Buffer>>;

    /// Takes finished transfers.
    fn poll(&mut self, ended: &mut ArrayVec<Ended<Self::Buffer>, BATCH>) -> Result<(), Error>;

    /// Returns the descriptor, if a thread may sleep on it now without missing a completion.
    fn sleeper(&mut self) -> Option<BorrowedFd<'_>>;
}
