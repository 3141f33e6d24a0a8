//! A port around the kernel: requests and replies are whole frames, with their checksums.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{
    Frame, FrameBurst, FramePort, FrameQueue, Header, Local, MacAddress, ReplyTo, parse,
};
use micanite_wire::native::PAYLOAD_BYTES;

use super::load::Port;
use super::packets::Packets;
use crate::Result;

/// Ethernet, IPv4 without options, UDP.
pub(crate) const HEADER_BYTES: usize = 42;
/// One frame in so many bursts is verified to the last checksum.
pub(crate) const VERIFIED: u32 = 64;

/// The two ends of the way that frames take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub client: (MacAddress, SocketAddr),
    pub server: (MacAddress, SocketAddr),
}

/// Makes the frame of a payload as the product makes it.
pub(crate) struct FrameMaker {
    port: FramePort<MemoryQueue>,
    header: Header,
}

impl FrameMaker {
    pub fn new(way: &Way) -> Self {
        let local =
            Local { addresses: vec![way.client.1.ip()], ports: way.client.1.port()..=way.client.1.port() };
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

/// The payload of a datagram to one of some ports, by what is cheap to look at.
#[inline]
pub(crate) fn payload(frame: &[u8], ports: Range<u16>) -> Option<&[u8]> {
    let header = frame.first_chunk::<HEADER_BYTES>()?;
    let is_udp = header[12..14] == [8, 0] && header[23] == 17;
    let udp_bytes = usize::from(u16::from_be_bytes([header[38], header[39]]));
    let port = u16::from_be_bytes([header[36], header[37]]);
    (is_udp && ports.contains(&port)).then(|| frame.get(HEADER_BYTES..HEADER_BYTES - 8 + udp_bytes)).flatten()
}

/// Replaces what is in a buffer.
#[inline]
pub(crate) fn put(frame: &mut Frame, bytes: &[u8]) {
    let start = frame.start();
    frame.place(start, bytes.len());
    frame.buffer_mut()[start..start + bytes.len()].copy_from_slice(bytes);
}

/// Receives a burst, and verifies one of its frames now and then.
pub(crate) fn receive<Q: FrameQueue>(
    queue: &mut Q,
    burst: &mut FrameBurst,
    bursts: &mut u32,
    (way, ports): (&Way, Range<u16>),
) -> Result<()> {
    queue.recv(burst)?;
    let Some(frame) = burst.first() else {
        return Ok(());
    };
    *bursts = bursts.wrapping_add(1);
    if bursts.is_multiple_of(VERIFIED) && payload(frame.bytes(), ports.clone()).is_some() {
        let found = parse(frame.bytes(), queue.receive_checksums());
        let found = found.map_err(|why| format!("a reply is wrong: {why:?}"))?;
        if found.source != way.server.1 || !ports.contains(&found.destination.port()) {
            return Err(format!("a reply of somebody else: {found:?}").into());
        }
    }
    Ok(())
}

/// A queue before a server. Each reply's frame becomes the next request's.
pub(crate) struct Frames<Q> {
    pub queue: Q,
    way: Way,
    maker: FrameMaker,
    /// Frames that arrived last.
    burst: FrameBurst,
    /// Frames that leave next.
    held: FrameBurst,
    bursts: u32,
}

impl<Q: FrameQueue> Frames<Q> {
    pub fn new(queue: Q, way: Way) -> Result<Self> {
        if queue.computes_checksums() {
            return Err("frames made beforehand have their checksums already".into());
        }
        Ok(Self {
            queue,
            maker: FrameMaker::new(&way),
            way,
            burst: FrameBurst::new(),
            held: FrameBurst::new(),
            bursts: 0,
        })
    }
}

/// Holds a frame for the next burst, which leaves when it is complete.
#[inline]
fn hold<Q: FrameQueue>(queue: &mut Q, held: &mut FrameBurst, frame: Frame) -> Result<()> {
    held.push(frame);
    if held.is_full() {
        queue.send(held)?;
    }
    Ok(())
}

impl<Q: FrameQueue> Port for Frames<Q> {
    const SILENCE: Duration = Duration::from_millis(20);

    fn receive(
        &mut self,
        mut requests: Option<&mut Packets>,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> Result<usize> {
        let port = self.way.client.1.port();
        let ports = port..port + 1;
        let way = (&self.way, ports.clone());
        receive(&mut self.queue, &mut self.burst, &mut self.bursts, way)?;
        let received = self.burst.len();
        for mut frame in self.burst.drain(..) {
            let is_free = payload(frame.bytes(), ports.clone()).is_some_and(&mut each);
            match &mut requests {
                Some(requests) if is_free => {
                    put(&mut frame, requests.take().1);
                    hold(&mut self.queue, &mut self.held, frame)?;
                }
                _ => self.queue.free(frame),
            }
        }
        Ok(received)
    }

    fn push(&mut self, requests: &mut Packets) -> Result<Option<u16>> {
        let Some(mut frame) = self.queue.alloc() else {
            return Ok(None);
        };
        let (number, bytes) = requests.take();
        put(&mut frame, bytes);
        hold(&mut self.queue, &mut self.held, frame)?;
        Ok(Some(number))
    }

    fn push_payload(&mut self, payload: &[u8]) -> Result<()> {
        if let Some(mut frame) = self.queue.alloc() {
            put(&mut frame, &self.maker.frame(payload));
            hold(&mut self.queue, &mut self.held, frame)?;
        }
        Ok(())
    }

    fn flush(&mut self, all: bool) -> Result<()> {
        if all && !self.held.is_empty() {
            self.queue.send(&mut self.held)?;
        }
        Ok(())
    }
}
