//! Requests as whole frames, made before the clock runs, with their checksums.

use std::net::SocketAddr;

use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{Frame, FramePort, Header, Local, MacAddress, ReplyTo};
use micanite_wire::native::PAYLOAD_BYTES;

use crate::packets::{Packets, Reader};

/// The two ends of the way that frames take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub client: (MacAddress, SocketAddr),
    pub server: (MacAddress, SocketAddr),
}

/// Makes the frame of a payload as the product makes it.
pub(super) struct FrameMaker {
    port: FramePort<MemoryQueue>,
    header: Header,
}

impl FrameMaker {
    pub fn new(way: &Way) -> Self {
        let local = Local {
            addresses: vec![way.client.1.ip()],
            ports: way.client.1.port()..=way.client.1.port(),
        };
        Self {
            port: FramePort::new(MemoryQueue::new(2, 4096, 256), local, PAYLOAD_BYTES),
            header: Header::new(way.client, way.server, None),
        }
    }

    pub fn frame(&mut self, payload: &[u8]) -> Vec<u8> {
        let (_, mut replies) = self.port.split();
        replies.open(ReplyTo::Header(&self.header));
        replies.slot()[..payload.len()].copy_from_slice(payload);
        replies.commit(payload.len());
        let sent = self.port.send().map(|()| self.port.queue_mut().sent.pop());
        sent.ok().flatten().expect("memory takes a frame")
    }
}

/// A ring of frames. The number in each is its place in the ring, modulo 2^16.
pub(super) struct Prepared {
    bytes: Vec<u8>,
    /// Where each begins; the last is the end.
    starts: Vec<u32>,
    next: usize,
    pub reader: Reader,
    pub batch: usize,
}

impl Prepared {
    pub fn new(mut packets: Packets, way: &Way) -> Self {
        let mut maker = FrameMaker::new(way);
        let mut prepared = Self {
            bytes: Vec::new(),
            starts: vec![0],
            next: 0,
            reader: packets.reader(),
            batch: packets.batch(),
        };
        for number in 0..packets.len() {
            let frame = maker.frame(packets.next(number as u16));
            prepared.bytes.extend(frame);
            prepared.starts.push(prepared.bytes.len() as u32);
        }
        prepared
    }

    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Makes `number` the next one.
    pub fn seek(&mut self, number: usize) {
        self.next = number;
    }

    /// Puts the next one in the place of what is in a buffer; returns its number.
    #[inline]
    pub fn put(&mut self, frame: &mut Frame) -> u16 {
        let number = self.next;
        let (from, to) = (
            self.starts[number] as usize,
            self.starts[number + 1] as usize,
        );
        self.next += 1;
        if self.next == self.len() {
            self.next = 0;
        }
        let (start, bytes) = (frame.start(), to - from);
        frame.place(start, bytes);
        frame.buffer_mut()[start..start + bytes].copy_from_slice(&self.bytes[from..to]);
        number as u16
    }
}
