//! Measures the cost of a datagram between a queue of frames and a request: parse, verify, reply in its
//! frame.
//!
//! ```text
//! cargo run --release -p micanite-net --example frames
//! ```
//!
//! It runs bursts of 32 datagrams with 64 bytes of payload over a queue that only hands out buffers and
//! takes them back. The queue's own cost is printed first. Results are nanoseconds per datagram on one
//! core: the median of 501 rounds, and the fastest.

#![expect(unsafe_code, reason = "a queue of frames is an unsafe trait")]

use std::hint::black_box;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::time::Instant;

use micanite_net::frames::{
    Frame, FrameBurst, FramePort, FrameQueue, Header, Local, ReceiveChecksums, ReplyTo, parse,
};

const BUFFER_BYTES: usize = 4096;
const HEADROOM: usize = 256;
const PAYLOAD: [u8; 64] = *b"64 bytes, as long as a datagram with one request for a short key";
const ROUNDS: usize = 501;
const BURSTS: usize = 100;

/// Hands out buffers in turn, each of which holds the same received frame.
struct Ring {
    memory: Vec<u8>,
    frame_bytes: usize,
    next: usize,
    checksums: ReceiveChecksums,
    hardware: bool,
    sent: usize,
}

impl Ring {
    fn new(frame: &[u8], buffers: usize, checksums: ReceiveChecksums, hardware: bool) -> Self {
        let mut memory = vec![0; BUFFER_BYTES * (buffers + 1)];
        // Page-aligned, like a UMEM.
        let skew = memory.as_ptr().align_offset(BUFFER_BYTES);
        memory.drain(..skew);
        for buffer in memory.chunks_mut(BUFFER_BYTES).take(buffers) {
            buffer[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
        }
        Self { memory, frame_bytes: frame.len(), next: 0, checksums, hardware, sent: 0 }
    }

    fn frame(&mut self, bytes: usize) -> Frame {
        let buffers = self.memory.len() / BUFFER_BYTES;
        self.next = (self.next + 1) % buffers;
        let at = self.next * BUFFER_BYTES;
        let memory = NonNull::from(&mut self.memory[at..at + BUFFER_BYTES]).cast();
        let place = (HEADROOM as u32, bytes as u32);
        // SAFETY: of the buffers only those of one burst are in use, and there are more.
        unsafe { Frame::new(memory, BUFFER_BYTES as u32, place, at as u64) }
    }
}

// SAFETY: buffers are handed out in turn, and there are more of them than can be in use.
unsafe impl FrameQueue for Ring {
    fn recv(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        while !burst.is_full() {
            let frame = self.frame(self.frame_bytes);
            burst.push(frame);
        }
        Ok(())
    }

    fn alloc(&mut self) -> Option<Frame> {
        Some(self.frame(0))
    }

    fn send(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        for frame in burst.drain(..) {
            self.sent += black_box(frame.len());
        }
        Ok(())
    }

    fn free(&mut self, frame: Frame) {
        black_box(frame.handle());
    }

    fn receive_checksums(&self) -> ReceiveChecksums {
        self.checksums
    }

    fn computes_checksums(&self) -> bool {
        self.hardware
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
        1514
    }
}

/// Builds a client's frame.
fn frame(from: &str, to: &str) -> Vec<u8> {
    let (from, to) = (from.parse().expect("both"), to.parse().expect("both"));
    let header = Header::new(([2, 0, 0, 0, 0, 1], from), ([2, 0, 0, 0, 0, 2], to), None);
    let ring = Ring::new(&[], 64, ReceiveChecksums::Unverified, false);
    let mut port = FramePort::new(ring, local(), 1472);
    let mut replies = port.replies();
    assert!(replies.open(ReplyTo::Header(&header)));
    replies.slot()[..PAYLOAD.len()].copy_from_slice(&PAYLOAD);
    replies.commit(PAYLOAD.len());
    let at = port.queue().next * BUFFER_BYTES + HEADROOM;
    port.queue().memory[at..at + header.len() + PAYLOAD.len()].to_vec()
}

fn local() -> Local {
    Local {
        addresses: ["10.0.0.2", "fd00::2"].map(|address| address.parse().expect("an address")).into(),
        ports: 11300..=11303,
    }
}

fn bare(port: &mut FramePort<Ring>) {
    let mut burst = FrameBurst::new();
    let queue = port.queue_mut();
    queue.recv(&mut burst).expect("never fails");
    black_box(&mut burst);
    queue.send(&mut burst).expect("never fails");
}

fn receive(port: &mut FramePort<Ring>) {
    assert_eq!(port.recv().expect("never fails"), 32);
}

fn echo(port: &mut FramePort<Ring>) {
    assert_eq!(port.recv().expect("never fails"), 32);
    let (datagrams, mut replies) = port.split();
    for datagram in datagrams {
        replies.open(ReplyTo::Datagram(datagram.number));
        replies.slot()[..datagram.bytes.len()].copy_from_slice(datagram.bytes);
        replies.commit(datagram.bytes.len());
    }
    port.send().expect("never fails");
}

/// The lower limit of an echo in place: the payload and all checksums stay.
fn in_place(port: &mut FramePort<Ring>) {
    let mut burst = FrameBurst::new();
    let queue = port.queue_mut();
    let checksums = queue.checksums;
    queue.recv(&mut burst).expect("never fails");
    for frame in &mut burst {
        let found = parse(frame.bytes(), checksums).expect("a datagram");
        let (start, link) = (frame.start(), usize::from(found.link_bytes));
        let udp = usize::from(found.payload_start) - 8;
        let bytes = &mut frame.buffer_mut()[start..start + udp + 8];
        let (source, destination) = bytes[..12].split_at_mut(6);
        source.swap_with_slice(destination);
        match udp - link {
            20 => bytes[link + 12..link + 20].rotate_left(4),
            _ => bytes[link + 8..link + 40].rotate_left(16),
        }
        bytes[udp..udp + 4].rotate_left(2);
    }
    queue.send(&mut burst).expect("never fails");
}

/// A measured loop, and its name.
type Case = (&'static str, fn(&mut FramePort<Ring>));

fn main() {
    let v4 = frame("10.0.0.1:4000", "10.0.0.2:11300");
    let v6 = frame("[fd00::1]:4000", "[fd00::2]:11300");
    let cases: [Case; 4] = [("queue", bare), ("receive", receive), ("echo", echo), ("in place", in_place)];
    println!("{:<34} {:>8} {:>8}  ns per datagram", "", "median", "fastest");
    for buffers in [256, 4096] {
        for (family, frame) in [("IPv4", &v4), ("IPv6", &v6)] {
            for (sums, checksums, hardware) in [
                ("software", ReceiveChecksums::Unverified, false),
                ("hardware", ReceiveChecksums::Verified, true),
            ] {
                for (name, run) in cases {
                    let ring = Ring::new(frame, buffers, checksums, hardware);
                    let mut port = FramePort::new(ring, local(), 1472);
                    let (median, fastest) = measure(|| run(&mut port));
                    let case = format!("{buffers} buffers, {family}, {sums}, {name}");
                    println!("{case:<34} {median:>8.1} {fastest:>8.1}");
                }
            }
        }
    }
}

fn measure(mut burst: impl FnMut()) -> (f64, f64) {
    let mut rounds = [0.0; ROUNDS];
    for round in &mut rounds {
        let start = Instant::now();
        for _ in 0..BURSTS {
            burst();
        }
        *round = start.elapsed().as_secs_f64() * 1e9 / (BURSTS * 32) as f64;
    }
    rounds.sort_by(f64::total_cmp);
    (rounds[ROUNDS / 2], rounds[0])
}
