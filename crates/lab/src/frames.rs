//! Payloads as whole frames, made before the clock runs, with their checksums.

use std::net::SocketAddr;

use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{FramePort, Header, Local, MacAddress, ReplyTo};
use micanite_wire::native::PAYLOAD_BYTES;

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
