//! Datagrams of the native protocol are answered without touching the allocator over ports around
//! the kernel, too: in the frames of their requests, and in others for what was handed over.

mod counting;

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use micanite_engine::{Cache, Worker};
use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{
    Frame, FrameBurst, FramePort, FrameQueue, Header as Headers, Local, ReceiveChecksums, ReplyTo,
};
use micanite_server::configuration::{Options, Settings};
use micanite_server::native::{BypassPort, Cookies, NativeShared, rings};
use micanite_server::session::Context;
use micanite_server::shared::{Server, Shared};
use micanite_wire::native::{CoreEntry, Header, Opcode, Request, RequestWriter};

const NOW_S: u32 = 1000;
const PAYLOAD_BYTES: usize = 1452;
const BUFFER_BYTES: usize = 4096;
const BUFFERS: usize = 128;
const CLIENT: &str = "10.0.0.1:4000";

/// A queue at which the same frames arrive again and again, and which forgets what is sent.
struct Repeating {
    frames: Vec<Vec<u8>>,
    arrived: usize,
    sent: u64,
    memory: NonNull<u8>,
    free: Vec<usize>,
}

#[expect(unsafe_code, reason = "the trait is unsafe")]
// SAFETY: the memory is leaked, and the queue's alone.
unsafe impl Send for Repeating {}

impl Repeating {
    fn new() -> Self {
        let memory = vec![0u8; BUFFERS * BUFFER_BYTES].leak();
        Self {
            frames: Vec::new(),
            arrived: 0,
            sent: 0,
            memory: NonNull::from(memory).cast(),
            free: (0..BUFFERS).collect(),
        }
    }

    #[expect(unsafe_code, reason = "a frame is made of a part of the memory")]
    fn take(&mut self) -> Option<Frame> {
        let number = self.free.pop()?;
        // SAFETY: the buffer lies in the memory.
        let buffer = unsafe { self.memory.add(number * BUFFER_BYTES) };
        // SAFETY: it is initialised, and was nobody's.
        Some(unsafe { Frame::new(buffer, BUFFER_BYTES as u32, (64, 0), number as u64) })
    }
}

#[expect(unsafe_code, reason = "the trait is unsafe")]
// SAFETY: a buffer is taken off `free` for each frame and put back when the frame comes back.
unsafe impl FrameQueue for Repeating {
    fn recv(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        while !burst.is_full() && self.arrived < self.frames.len() {
            let mut frame = self.take().expect("a buffer for each frame");
            let bytes = &self.frames[self.arrived];
            frame.place(64, bytes.len());
            frame.buffer_mut()[64..64 + bytes.len()].copy_from_slice(bytes);
            burst.push(frame);
            self.arrived += 1;
        }
        Ok(())
    }

    fn alloc(&mut self) -> Option<Frame> {
        self.take()
    }

    fn send(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        for frame in burst.drain(..) {
            self.sent += 1;
            self.free.push(frame.handle() as usize);
        }
        Ok(())
    }

    fn free(&mut self, frame: Frame) {
        self.free.push(frame.handle() as usize);
    }

    fn receive_checksums(&self) -> ReceiveChecksums {
        ReceiveChecksums::Unverified
    }

    fn computes_checksums(&self) -> bool {
        false
    }

    fn lost(&mut self) -> u32 {
        0
    }

    fn unsent(&self) -> u64 {
        0
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn frame_bytes_max(&self) -> usize {
        BUFFER_BYTES
    }
}

fn local() -> Local {
    Local { addresses: vec!["10.0.0.2".parse().unwrap()], ports: 20_000..=20_001 }
}

/// A frame with a datagram to the first worker.
fn frame(payload: &[u8]) -> Vec<u8> {
    let to = "10.0.0.2:20000".parse().unwrap();
    let from = CLIENT.parse().unwrap();
    let headers = Headers::new(([2, 0, 0, 0, 0, 1], from), ([2, 0, 0, 0, 0, 2], to), None);
    let mut port = FramePort::new(MemoryQueue::new(1, 4096, 64), local(), PAYLOAD_BYTES);
    let mut replies = port.replies();
    replies.open(ReplyTo::Header(&headers));
    replies.slot()[..payload.len()].copy_from_slice(payload);
    replies.commit(payload.len());
    port.send().unwrap();
    port.queue_mut().sent.pop().unwrap()
}

fn datagram(shared: &Shared, key: &[u8], opcode: Opcode) -> Vec<u8> {
    let (cache, native) = (&shared.cache, shared.native.as_ref().unwrap());
    let peer = CLIENT.parse().unwrap();
    let mut bytes = vec![0; PAYLOAD_BYTES];
    let mut writer = RequestWriter::new(&mut bytes);
    let request = Request {
        opcode,
        wants_cas: opcode.answers_value(),
        wants_entry: false,
        hash: cache.hash(key).0,
        flags: 0,
        expiry_s: 0,
        argument: 0,
        id: 0,
        key,
        value: if opcode.has_value() { &[b'7'; 100] } else { b"" },
    };
    writer.push(&request).unwrap();
    let length = writer.finish(&Header {
        client: 1,
        generation: native.generation(cache),
        cookie: Cookies::new(native.cookie_key).check(peer, 0, NOW_S).renewal,
        partition: cache.partition_of(cache.hash(key)) as u16,
        ..Header::REQUESTS
    });
    bytes.truncate(length);
    bytes
}

// The only test here: another one would count its allocations in.
#[test]
fn frames_are_answered_without_an_allocation() {
    let options = "threads = 2\nmemory-limit = 64\naccess = \"erew\"";
    let options: Options = toml::from_str(options).unwrap();
    let settings = Settings::of(&options, 1).unwrap();
    let cache = Arc::new(Cache::new(&settings.engine(1)).unwrap());
    let core = |worker: u16| CoreEntry { port: 20_000 + worker, node: 0 };
    let native = NativeShared::new([core(0), core(1)].into(), PAYLOAD_BYTES, [1, 2, 3]);
    let native = native.over(Vec::new());
    let rings = rings(2, native.ring_datagram_bytes()).into_iter();
    let mut workers: Vec<(Worker, BypassPort<Repeating>)> = rings
        .enumerate()
        .map(|(number, rings)| {
            let port = FramePort::new(Repeating::new(), local(), PAYLOAD_BYTES);
            let port = BypassPort::new(number, port, rings, &native);
            (cache.worker(number).unwrap(), port)
        })
        .collect();
    let server = Server::new(settings, cache, Some(native), NOW_S).unwrap();
    let keys: Vec<String> = (0..20).map(|number| format!("key{number}")).collect();
    let opcodes = [Opcode::Set, Opcode::Get, Opcode::Delete, Opcode::Get];
    let asked = keys.iter().flat_map(|key| opcodes.map(|opcode| (key.as_bytes(), opcode)));
    let frames: Vec<_> = asked.map(|(key, opcode)| frame(&datagram(&server.shared, key, opcode))).collect();
    let asked = frames.len() as u64;
    workers[0].1.port().queue_mut().frames = frames;
    let counters = &server.shared.native.as_ref().unwrap().frames;
    for round in 1..=3 {
        workers[0].1.port().queue_mut().arrived = 0;
        let before = counting::calls();
        let mut answered = 0;
        while answered < round * asked {
            for (worker, port) in &mut workers {
                let mut context = Context::new(worker, &server, NOW_S);
                port.round(&mut context, 1).unwrap();
            }
            answered = workers.iter_mut().map(|(_, port)| port.port().queue().sent).sum();
        }
        assert_eq!(answered, round * asked);
        assert_eq!(counting::calls(), before, "calls of the allocator");
    }
    assert!(counters[0].replies_reused.get() > 0, "answered in place");
    assert_eq!(counters[0].replies_copied.get(), 0);
    assert!(counters[1].replies_copied.get() > 0, "handed over");
}
