//! Datagrams made before the clock runs: what a client sends, and how it knows what came back.

use std::ops::Range;

use micanite_wire::hash::KeyHash;
use micanite_wire::native::{Header, Opcode, PAYLOAD_BYTES, Request, RequestWriter, request_bytes};
use micanite_workload::{Keys, Popularity, Random, Sampler, Values};

use super::frames::{FrameMaker, HEADER_BYTES, Way};
use super::replies::Reader;

/// Key and value of the tiny data set.
pub(crate) const KEY_BYTES: usize = 8;
pub(crate) const VALUE_BYTES: usize = 8;
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub protocol: Protocol,
    /// Requests of a datagram; 0 = as many as fit.
    pub batch: usize,
    pub get_percent: u64,
    pub popularity: Popularity,
    /// Restricts keys to this partition, out of so many.
    pub partition: Option<(usize, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Native,
    /// memcached's text in UDP frames.
    Memcached,
}

/// Values that every request carries for its server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    pub hash_seed: u64,
    pub generation: u32,
    pub cookie: u64,
    pub partition_bits: u32,
}

/// A ring of datagrams. The number in each is its place in the ring, modulo 2^16.
pub(crate) struct Packets {
    bytes: Vec<u8>,
    /// Start of each datagram; the last entry is the end.
    starts: Vec<u32>,
    next: usize,
    /// Bytes of each before its payload.
    header_bytes: usize,
    pub reader: Reader,
}

impl Packets {
    fn empty(protocol: Protocol, batch: usize) -> Self {
        Self {
            bytes: Vec::new(),
            starts: vec![0],
            next: 0,
            header_bytes: 0,
            reader: Reader::new(protocol, batch),
        }
    }

    /// The same requests as whole frames on their way.
    pub fn framed(mut self, way: &Way) -> Self {
        let mut maker = FrameMaker::new(way);
        let mut framed =
            Self { reader: self.reader, header_bytes: HEADER_BYTES, ..Self::empty(Protocol::Native, 0) };
        for _ in 0..self.len() {
            framed.bytes.extend(maker.frame(self.take().1));
            framed.starts.push(framed.bytes.len() as u32);
        }
        framed
    }

    /// Ends a datagram that was begun at the last start.
    fn end(&mut self) {
        let place = self.len();
        let at = self.starts[place] as usize + self.reader.number_at;
        self.bytes[at..at + 2].copy_from_slice(&(place as u16).to_le_bytes());
        self.starts.push(self.bytes.len() as u32);
    }

    pub fn new(shape: &Shape, items: u64, terms: Terms, count: usize, seed: u64) -> Self {
        Self::of_owner(shape, items, terms, (count, seed), None).0
    }

    /// Datagrams whose keys one worker owns, if `owners` says of each partition who does and which
    /// worker is wanted; and the share of all requests that those are.
    pub fn of_owner(
        shape: &Shape,
        items: u64,
        terms: Terms,
        (count, seed): (usize, u64),
        owners: Option<(Vec<usize>, usize)>,
    ) -> (Self, f64) {
        let mut draw = Draw::new(shape, items, terms.hash_seed, seed);
        draw.owners = owners.map(|(owners, owner)| (terms.partition_bits, owners, owner));
        let longest = match shape.get_percent {
            100 => request_bytes(Opcode::Get, KEY_BYTES, 0),
            _ => request_bytes(Opcode::Set, KEY_BYTES, VALUE_BYTES),
        };
        let batch = match shape.batch {
            0 => (PAYLOAD_BYTES - Header::BYTES) / longest,
            batch => batch,
        };
        let mut packets = Self::empty(shape.protocol, batch);
        for _ in 0..count {
            match shape.protocol {
                Protocol::Native => {
                    let drawn = (0..batch).map(|_| draw.next());
                    packets.push_requests(drawn, terms);
                }
                Protocol::Memcached => packets.push_memcached(&mut draw),
            }
        }
        (packets, draw.kept as f64 / draw.drawn.max(1) as f64)
    }

    /// Datagrams that store these items, as many in each as fit.
    pub fn storing(items: Range<u64>, terms: Terms) -> Self {
        let set_bytes = request_bytes(Opcode::Set, KEY_BYTES, VALUE_BYTES);
        let batch = (PAYLOAD_BYTES - Header::BYTES) / set_bytes;
        let mut packets = Self::empty(Protocol::Native, batch);
        let (keys, values) = (Keys::new(KEY_BYTES), Values::new(VALUE_BYTES));
        for first in items.clone().step_by(batch) {
            let drawn = (first..(first + batch as u64).min(items.end)).map(|item| {
                let (mut key, mut value) = ([0; KEY_BYTES], [0; VALUE_BYTES]);
                keys.write(item, &mut key);
                values.write(item, 0, &mut value);
                Drawn { reads: false, hash: KeyHash::of(&key, terms.hash_seed), key, value }
            });
            packets.push_requests(drawn, terms);
        }
        packets
    }

    fn push_requests(&mut self, drawn: impl Iterator<Item = Drawn>, terms: Terms) {
        let start = self.bytes.len();
        self.bytes.resize(start + PAYLOAD_BYTES, 0);
        let mut writer = RequestWriter::new(&mut self.bytes[start..]);
        let mut first = KeyHash(0);
        for (number, drawn) in drawn.enumerate() {
            if number == 0 {
                first = drawn.hash;
            }
            let (opcode, value) = match drawn.reads {
                true => (Opcode::Get, &[][..]),
                false => (Opcode::Set, &drawn.value[..]),
            };
            let request = Request {
                opcode,
                wants_cas: false,
                wants_entry: false,
                hash: drawn.hash.0,
                flags: 0,
                expiry_s: 0,
                argument: 0,
                id: 0,
                key: &drawn.key,
                value,
            };
            let pushed = writer.push(&request);
            pushed.expect("a batch fits a datagram");
        }
        let header = Header {
            generation: terms.generation,
            cookie: terms.cookie,
            partition: first.partition(terms.partition_bits) as u16,
            client: 1,
            ..Header::REQUESTS
        };
        let bytes = writer.finish(&header);
        self.bytes.truncate(start + bytes);
        self.end();
    }

    fn push_memcached(&mut self, draw: &mut Draw) {
        // Number, sequence 0 of 1, reserved.
        self.bytes.extend([0, 0, 0, 0, 0, 1, 0, 0]);
        let first = draw.next();
        if first.reads {
            self.bytes.extend(b"get");
            let mut drawn = first;
            for number in 0..self.reader.batch {
                if number > 0 {
                    drawn = draw.next_read();
                }
                self.bytes.push(b' ');
                self.bytes.extend(drawn.key);
            }
            self.bytes.extend(b"\r\n");
        } else {
            self.bytes.extend(b"set ");
            self.bytes.extend(first.key);
            self.bytes.extend(format!(" 0 0 {VALUE_BYTES}\r\n").as_bytes());
            self.bytes.extend(first.value);
            self.bytes.extend(b"\r\n");
        }
        self.end();
    }

    /// The next datagram, and its number.
    #[inline]
    pub fn take(&mut self) -> (u16, &[u8]) {
        let place = self.next;
        self.next = if place + 1 == self.len() { 0 } else { place + 1 };
        let (start, end) = (self.starts[place] as usize, self.starts[place + 1] as usize);
        (place as u16, &self.bytes[start..end])
    }

    /// Copies the next datagrams into a buffer, one behind the other; returns where each ends.
    #[inline]
    pub fn take_burst<const COUNT: usize>(&mut self, buffer: &mut [u8]) -> [usize; COUNT] {
        let mut at = 0;
        std::array::from_fn(|_| {
            let (_, datagram) = self.take();
            buffer[at..at + datagram.len()].copy_from_slice(datagram);
            at += datagram.len();
            at
        })
    }

    /// Makes `place` the next one.
    pub fn seek(&mut self, place: usize) {
        self.next = place;
    }

    /// Requests of a datagram.
    pub fn batch(&self) -> usize {
        self.reader.batch
    }

    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Mean payload of a datagram.
    pub fn payload_bytes(&self) -> f64 {
        self.bytes.len() as f64 / self.len() as f64 - self.header_bytes as f64
    }
}

struct Drawn {
    reads: bool,
    key: [u8; KEY_BYTES],
    value: [u8; VALUE_BYTES],
    hash: KeyHash,
}

struct Draw {
    keys: Keys,
    values: Values,
    sampler: Sampler,
    random: Random,
    get_percent: u64,
    seed: u64,
    partition: Option<(usize, u32)>,
    owners: Option<(u32, Vec<usize>, usize)>,
    drawn: u64,
    kept: u64,
}

impl Draw {
    fn new(shape: &Shape, items: u64, hash_seed: u64, seed: u64) -> Self {
        Self {
            keys: Keys::new(KEY_BYTES),
            values: Values::new(VALUE_BYTES),
            sampler: Sampler::new(shape.popularity, items),
            random: Random::new(seed),
            get_percent: shape.get_percent,
            seed: hash_seed,
            partition: shape.partition,
            owners: None,
            drawn: 0,
            kept: 0,
        }
    }

    fn next(&mut self) -> Drawn {
        let reads = self.random.below(100) < self.get_percent;
        Drawn { reads, ..self.next_read() }
    }

    fn next_read(&mut self) -> Drawn {
        loop {
            let item = self.sampler.item(&mut self.random);
            let (mut key, mut value) = ([0; KEY_BYTES], [0; VALUE_BYTES]);
            self.keys.write(item, &mut key);
            let hash = KeyHash::of(&key, self.seed);
            self.drawn += 1;
            if let Some((bits, owners, owner)) = &self.owners
                && owners[hash.partition(*bits)] != *owner
            {
                continue;
            }
            self.kept += 1;
            if let Some((partition, bits)) = self.partition
                && hash.partition(bits) != partition
            {
                continue;
            }
            self.values.write(item, 0, &mut value);
            return Drawn { reads: true, key, value, hash };
        }
    }
}
