//! The transport over libfabric.

use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;
use micanite_fabric::{
    Buffer, Completion, Completions, Endpoint, EndpointOptions, Error, FabricAddress, Peer, RemoteArea,
    Unposted,
};
use nix::time::{ClockId, clock_gettime};

use super::reads::READS_MAX;
use super::transport::{BATCH, Ended, Range, Refused, Transport};

/// Transfers of messages, and those of reads, which may be two.
const TRANSFERS_MAX: u32 = 16 + 4 * READS_MAX as u32;

/// An endpoint that is connected to a server.
#[derive(Debug)]
pub(super) struct Fabric {
    endpoint: Endpoint,
    server: Peer,
    completions: Completions,
}

type Posted = Result<(), Refused<Buffer>>;

fn posted(posted: Result<(), Unposted>) -> Posted {
    posted.map_err(|Unposted { buffer, error }| Refused { buffer, error })
}

impl Transport for Fabric {
    type Buffer = Buffer;

    #[inline]
    fn now_ns() -> u64 {
        // It fails for unknown clocks only. Without a clock no read could be accepted.
        let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has CLOCK_BOOTTIME");
        time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
    }

    fn open(address: &FabricAddress) -> Result<Self, Error> {
        let options = EndpointOptions { transfers_max: TRANSFERS_MAX, ..EndpointOptions::default() };
        let endpoint = Endpoint::connect(address, &options)?;
        let server = endpoint.server().ok_or(Error::PeerGone)?;
        Ok(Self { endpoint, server, completions: Completions::new() })
    }

    fn buffer(&self, bytes: usize) -> Result<Buffer, Error> {
        self.endpoint.buffer(bytes)
    }

    fn message_bytes_max(&self) -> u64 {
        self.endpoint.message_bytes_max()
    }

    fn greet(&mut self, buffer: Buffer, token: u64) -> Posted {
        posted(self.endpoint.greet(buffer, token))
    }

    fn receive(&mut self, buffer: Buffer, token: u64) -> Posted {
        posted(self.endpoint.receive(buffer, token))
    }

    fn send(&mut self, buffer: Buffer, bytes: usize, token: u64) -> Posted {
        posted(self.endpoint.send(self.server, buffer, bytes, token))
    }

    fn receive_tagged(&mut self, buffer: Buffer, tag: u64, token: u64) -> Posted {
        posted(self.endpoint.receive_tagged(buffer, tag, token))
    }

    fn send_tagged(&mut self, buffer: Buffer, bytes: usize, tag: u64, token: u64) -> Posted {
        posted(self.endpoint.send_tagged(self.server, buffer, bytes, tag, token))
    }

    #[inline]
    fn read(&mut self, area: &RemoteArea, (offset, bytes): Range, buffer: Buffer, token: u64) -> Posted {
        posted(self.endpoint.read(self.server, area, offset, bytes, buffer, token))
    }

    #[inline]
    fn read_ranges(&mut self, area: &RemoteArea, ranges: [Range; 2], buffer: Buffer, token: u64) -> Posted {
        posted(self.endpoint.read_ranges(self.server, area, ranges, buffer, token))
    }

    #[inline]
    fn poll(&mut self, ended: &mut ArrayVec<Ended<Buffer>, BATCH>) -> Result<(), Error> {
        let polled = self.endpoint.poll(&mut self.completions);
        for Completion { token, buffer, result, .. } in self.completions.drain(..) {
            ended.push(Ended { token, buffer, result });
        }
        polled
    }

    fn sleeper(&mut self) -> Option<BorrowedFd<'_>> {
        if self.endpoint.may_sleep() { self.endpoint.descriptor() } else { None }
    }
}
