//! Requests as whole frames, made before the clock runs.

use micanite_net::frames::Frame;

use crate::frames::{FrameMaker, Way};
use crate::packets::{Packets, Reader};

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
