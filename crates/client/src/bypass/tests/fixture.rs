//! A client over a queue in memory, next hops set by a test, and the frames of a server that answers.

use crate::bypass::hops::Hops;
use crate::bypass::mailbox::{Forwarded, Mailbox};
use crate::bypass::socket::FrameSocket;
use crate::bypass::source::Bound;
use crate::driver::Driver;
use crate::driver::tests::fake::Fake;
use crate::operation::{Operation, Outcome};
use crate::options::{Options, ServerAddress};
use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{FramePort, Header, Local, MacAddress, ReceiveChecksums, ReplyTo, parse};
use micanite_wire::native::PartitionAccess;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub(super) const CLIENT: MacAddress = [2, 0, 0, 0, 0, 1];
pub(super) const SERVER: MacAddress = [2, 0, 0, 0, 0, 2];
pub(super) const OTHER: MacAddress = [2, 0, 0, 0, 0, 3];
pub(super) const FIRST: u16 = 50_000;
pub(super) const MS: u64 = 1_000_000;

pub(super) fn address() -> IpAddr {
    "10.0.0.9".parse().unwrap()
}

/// Next hops set by a test.
#[derive(Default)]
pub(super) struct TestHops {
    pub(super) mac: Option<MacAddress>,
    /// Datagrams that took the slow path, with their destinations.
    pub(super) slow: Vec<(SocketAddr, Vec<u8>)>,
    pub(super) strays: Vec<(Vec<u8>, SocketAddr)>,
}

impl Hops<MemoryQueue> for TestHops {
    fn header(&mut self, _: &mut FramePort<MemoryQueue>, to: SocketAddr, _: u64) -> Option<Header> {
        let from = SocketAddr::new(address(), FIRST);
        self.mac.map(|mac| Header::new((CLIENT, from), (mac, to), None))
    }

    fn send_slowly(&mut self, to: SocketAddr, bytes: &[u8]) -> bool {
        self.slow.push((to, bytes.to_vec()));
        true
    }

    fn suspect_move(&mut self, _: &mut FramePort<MemoryQueue>, _: SocketAddr) -> bool {
        true
    }

    fn take_kernel_datagrams(&mut self, _: u64, mut take: impl FnMut(&[u8], SocketAddr)) -> usize {
        let strays = std::mem::take(&mut self.strays);
        for (bytes, from) in &strays {
            take(bytes, *from);
        }
        strays.len()
    }

    fn bound(&self) -> &[Bound] {
        &[]
    }
}

pub(super) fn frames(buffers: usize, queues: u16) -> FramePort<MemoryQueue> {
    let local = Local { addresses: vec![address()], ports: FIRST..=FIRST + queues - 1 };
    FramePort::new(MemoryQueue::new(buffers, 4096, 64), local, 1472)
}

pub(super) struct Client<H> {
    pub(super) driver: Driver,
    pub(super) socket: FrameSocket<MemoryQueue, H>,
    pub(super) now_ns: u64,
    pub(super) ended: Vec<Outcome>,
}

impl<H: Hops<MemoryQueue>> Client<H> {
    pub(super) fn new(port: FramePort<MemoryQueue>, hops: H) -> Self {
        let none: Arc<[Mailbox]> = Vec::new().into();
        Self::with_mailboxes(port, hops, 0, (none, Forwarded::default()))
    }

    pub(super) fn with_mailboxes(
        port: FramePort<MemoryQueue>,
        hops: H,
        number: usize,
        boxes: (Arc<[Mailbox]>, Forwarded),
    ) -> Self {
        let server = ServerAddress { address: server().base, name: "server".to_owned(), weight: 1 };
        Self {
            driver: Driver::new(Options::default(), &[server], 1 + number as u64),
            socket: FrameSocket::new(port, hops, (FIRST, number), boxes),
            now_ns: 1,
            ended: Vec::new(),
        }
    }

    pub(super) fn poll(&mut self) {
        self.now_ns += MS;
        let ended = &mut self.ended;
        let mut sink = |completion: crate::Completion<'_>| ended.push(completion.outcome);
        let driver = &mut self.driver;
        self.socket.receive(self.now_ns, driver, &mut sink).unwrap();
        driver.on_time(self.now_ns, &mut sink);
        self.socket.transmit(self.now_ns, driver).unwrap();
    }

    pub(super) fn sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.socket.port.queue_mut().sent)
    }

    /// Lets the server answer every frame that was sent to this station; returns their number.
    pub(super) fn answer(&mut self, fake: &mut Fake, station: MacAddress) -> usize {
        let frames = self.sent();
        for frame in &frames {
            if frame[..6] == station
                && let Some(reply) = answer_frame(fake, frame)
            {
                self.socket.port.queue_mut().arriving.push_back(reply);
            }
        }
        frames.len()
    }

    pub(super) fn submit(&mut self, operation: &Operation<'_>) {
        self.driver.submit(self.now_ns, operation, 1).unwrap();
    }

    /// Executes one operation.
    pub(super) fn call(
        &mut self,
        fake: &mut Fake,
        station: MacAddress,
        operation: &Operation<'_>,
    ) -> Outcome {
        self.submit(operation);
        for _ in 0..100 {
            self.poll();
            self.answer(fake, station);
            if let Some(outcome) = self.ended.pop() {
                return outcome;
            }
        }
        panic!("no reply");
    }

    /// Waits until the server's directory is known.
    pub(super) fn introduce(&mut self, fake: &mut Fake) {
        for _ in 0..100 {
            self.poll();
            self.answer(fake, SERVER);
            if self.driver.is_alive(0) {
                return;
            }
        }
        panic!("no directory");
    }
}

pub(super) fn server() -> Fake {
    Fake::new("10.0.0.1:1000", 2, 4, PartitionAccess::Erew)
}

pub(super) fn payload(frame: &[u8]) -> (SocketAddr, SocketAddr, &[u8]) {
    let found = parse(frame, ReceiveChecksums::Unverified).unwrap();
    let start = usize::from(found.payload_start);
    let payload = &frame[start..start + usize::from(found.payload_bytes)];
    (found.source, found.destination, payload)
}

/// Builds the frame of the reply to a request's frame.
pub(super) fn answer_frame(fake: &mut Fake, frame: &[u8]) -> Option<Vec<u8>> {
    let found = parse(frame, ReceiveChecksums::Unverified).unwrap();
    let (_, to, request) = payload(frame);
    let reply = fake.answer(to, request)?;
    Some(frame_of(&Header::of(frame, &found).flipped(), &reply))
}

pub(super) fn frame_of(header: &Header, bytes: &[u8]) -> Vec<u8> {
    let mut port = frames(1, 1);
    let mut replies = port.replies();
    assert!(replies.open(ReplyTo::Header(header)));
    replies.slot()[..bytes.len()].copy_from_slice(bytes);
    replies.commit(bytes.len());
    port.send().unwrap();
    port.queue_mut().sent.pop().unwrap()
}

pub(super) fn known() -> TestHops {
    TestHops { mac: Some(SERVER), ..TestHops::default() }
}
