//! Raw frames into the server: what the port takes for a datagram, and what becomes of it.

use std::net::SocketAddr;

use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{FramePort, Header as Headers, Local, MacAddress, ReceiveChecksums, parse};

use super::native::next;
use crate::limits::COOKIE_EPOCH_S;
use crate::native::testing::{Arrival, NativeBench, check};
use crate::native::{BypassPort, NativeShared, RingEnds};
use crate::session::Context;

const PAYLOAD_BYTES: usize = 1472;
const CLIENT_MAC: MacAddress = [2, 0, 0, 0, 0, 1];
const SERVER_MAC: MacAddress = [2, 0, 0, 0, 0, 2];
const PORT: u16 = 20_000;
const BUFFERS: usize = 40;

/// Datagrams as of [`super::native`](fn@super::native), in frames, some of which a bit is flipped
/// in: whatever still is a datagram for the port is answered byte for byte as it is without frames,
/// back to where it came from; nothing else is answered; every reply leaves in the frame of its
/// request, and no frame is lost.
pub fn native_frames(data: &[u8]) {
    let mut server = Server::new();
    let mut rest = data;
    while let Some((how, bytes)) = next(&mut rest) {
        if how.time_passes {
            server.round();
            server.pass(COOKIE_EPOCH_S / 2);
        }
        let arrival = how.arrival(&server.twin, bytes);
        server.arrives(&arrival, how.flip);
        if how.ends_burst {
            server.round();
        }
    }
    server.round();
    assert_eq!(server.port.port().queue().free_buffers(), BUFFERS);
}

struct Server {
    bench: NativeBench,
    port: BypassPort<MemoryQueue>,
    /// Gets the same without frames.
    twin: NativeBench,
    burst: Vec<Arrival>,
    frames: u64,
    replies: u64,
}

impl Server {
    fn new() -> Self {
        let fresh = || {
            let over = |native: NativeShared| native.over(Vec::new());
            NativeBench::with("memory-limit = 1", PAYLOAD_BYTES, over)
        };
        let bench = fresh();
        let queue = MemoryQueue::new(BUFFERS, 4096, 64);
        let port = FramePort::new(queue, local(), PAYLOAD_BYTES);
        let rings = RingEnds { to: vec![None], from: vec![None] };
        let port = BypassPort::new(0, port, rings, bench.native());
        Self { bench, port, twin: fresh(), burst: Vec::new(), frames: 0, replies: 0 }
    }

    fn pass(&mut self, seconds: u32) {
        self.twin.now_s += seconds;
        self.bench.now_s = self.twin.now_s;
    }

    /// A datagram in a frame, with a bit of a byte flipped.
    fn arrives(&mut self, arrival: &Arrival, flip: Option<(usize, u8)>) {
        let own = match arrival.peer {
            SocketAddr::V4(_) => local().addresses[0],
            SocketAddr::V6(_) => local().addresses[1],
        };
        let to = SocketAddr::new(own, PORT);
        let mut frame = framed(arrival.peer, to, &arrival.bytes);
        if let Some((at, bit)) = flip {
            let at = at % frame.len();
            frame[at] ^= bit;
        }
        self.frames += 1;
        let found = parse(&frame, ReceiveChecksums::Unverified);
        let is_ours = |at: SocketAddr| local().addresses.contains(&at.ip());
        if let Ok(found) = found
            && is_ours(found.destination)
            && found.destination.port() == PORT
            && !is_ours(found.source)
        {
            let start = usize::from(found.payload_start);
            self.burst.push(Arrival {
                peer: found.source,
                bytes: frame[start..start + usize::from(found.payload_bytes)].to_vec(),
                forwarded: false,
            });
        }
        self.port.port().queue_mut().arriving.push_back(frame);
        if self.port.port().queue().arriving.len() == 32 {
            self.round();
        }
    }

    /// Compares the replies to a burst in frames with those to the same burst without frames.
    fn round(&mut self) {
        let burst = std::mem::take(&mut self.burst);
        let expected = self.twin.round(0, &burst, false);
        check(&self.twin, &burst, &expected, false);
        let server = &self.bench.server;
        let mut context = Context::new(&mut self.bench.workers[0].engine, server, self.bench.now_s);
        let taken = self.port.round(&mut context, 1);
        assert_eq!(taken.expect("the queue never fails"), burst.len());
        let sent = std::mem::take(&mut self.port.port().queue_mut().sent);
        let mut replies: Vec<_> = sent.iter().map(|frame| reply(frame)).collect();
        self.replies += replies.len() as u64;
        let mut expected = expected.datagrams;
        replies.sort();
        expected.sort();
        assert!(replies == expected, "{replies:?}\n{expected:?}");
        let counters = self.port.port().counters();
        assert_eq!(counters.frames, self.frames);
        assert_eq!((counters.reused, counters.copied, counters.no_frame), (self.replies, 0, 0));
        // Frames without a reply go back with the next burst.
        let waiting = self.port.port().recv();
        assert_eq!(waiting.expect("the queue never fails"), 0);
    }
}

/// Returns the destination of a reply and its payload.
fn reply(frame: &[u8]) -> (SocketAddr, Vec<u8>) {
    let found = parse(frame, ReceiveChecksums::Unverified).expect("a reply can be read");
    assert!(local().addresses.contains(&found.source.ip()));
    assert_eq!(found.source.port(), PORT);
    assert_eq!(frame[0] & 1, 0);
    let start = usize::from(found.payload_start);
    assert_eq!(frame.len(), start + usize::from(found.payload_bytes));
    (found.destination, frame[start..].to_vec())
}

fn local() -> Local {
    let addresses = ["10.0.0.2", "fd00::2"];
    Local {
        addresses: addresses.map(|address| address.parse().expect("an address")).into(),
        ports: PORT..=PORT,
    }
}

fn framed(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let headers = Headers::new((CLIENT_MAC, from), (SERVER_MAC, to), None);
    let queue = MemoryQueue::new(1, 65_536, 64);
    let mut port = FramePort::new(queue, local(), payload.len().min(3000));
    let mut replies = port.replies();
    let payload = &payload[..payload.len().min(3000)];
    assert!(replies.open(micanite_net::frames::ReplyTo::Header(&headers)));
    replies.slot()[..payload.len()].copy_from_slice(payload);
    replies.commit(payload.len());
    port.send().expect("the queue never fails");
    let sent = port.queue_mut().sent.pop();
    sent.expect("it was sent")
}

#[cfg(test)]
mod tests {
    use super::super::native::tests::{edited, seeds};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fuzz_native_frames_on_its_seeds() {
        for seed in seeds() {
            native_frames(&seed);
            for flip in [1u8, 6, 13, 20, 33, 62] {
                let mut flipped = seed.clone();
                flipped[0] |= 0x40;
                flipped[1] |= flip << 2;
                native_frames(&flipped);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

        #[test]
        fn fuzz_native_frames_on_mutated_seeds(input in edited()) {
            native_frames(&input);
        }
    }
}
