//! Requests made before the clock runs: GETs as whole frames from many ports, writes as lines for TCP.

use std::collections::HashMap;
use std::net::SocketAddr;

use micanite_net::frames::Frame;
use micanite_wire::hash::KeyHash;
use micanite_wire::native::{Header, Opcode, PAYLOAD_BYTES, Request, RequestWriter};

use crate::Result;
use crate::generator::frames::{FrameMaker, Way};
use crate::generator::packets::{Protocol, Terms};
use crate::harness::filler::push_set;

/// Bytes of memcached's UDP frame header.
pub(in crate::kernel) const FRAME_BYTES: usize = 8;
/// Requests of one set at most, so that the number in a datagram tells which it is.
pub(in crate::kernel) const NUMBERS: usize = 1 << 16;

/// Kinds of requests as Hippos counts them: every write that is no delete is an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernel) enum Kind {
    Get,
    Update,
    Delete,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Get, Self::Update, Self::Delete];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// A request as a workload draws it.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Drawn<'a> {
    pub kind: Kind,
    /// Number that the value is made from.
    pub item: u64,
    pub key: &'a [u8],
    /// Length of the value that an update stores or a hit returns.
    pub value_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Entry {
    pub kind: Kind,
    start: u32,
    bytes: u32,
    key_start: u32,
    key_bytes: u8,
    pub value_bytes: u32,
    pub item: u64,
    /// The GET of the same item so many requests before is to be answered first: a client stores what
    /// it has missed. 0 = none.
    pub after: u16,
}

/// A reply is at most so much longer than request and value: `VALUE`, lengths, ends of lines; the
/// native protocol's words.
const REPLY_BYTES: usize = 96;
/// Ethernet's longest frame.
const FRAME_BYTES_MAX: usize = 1514;
/// Places of UDP's checksum and of the payload in a frame with IPv4.
const UDP_CHECKSUM: usize = 40;
const UDP_PAYLOAD: usize = 42;
/// Places of the directory's generation and of the cookie in the native header (docs/protocol.md).
const NATIVE_GENERATION: usize = 8;
const NATIVE_COOKIE: usize = 32;
/// A GET so far back has been answered.
const AFTER_MAX: usize = 1024;

/// A ring of requests. The number in the datagram of each is its place modulo 2^16.
pub(in crate::kernel) struct Ring {
    pub protocol: Protocol,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    next: usize,
    /// Place at which each item was last asked for.
    asked: HashMap<u64, usize>,
}

/// Makes GETs.
pub(in crate::kernel) struct Maker {
    protocol: Protocol,
    terms: Terms,
    makers: Vec<FrameMaker>,
}

impl Maker {
    /// GETs come from so many ports, the first of which is the way's.
    pub fn new(protocol: Protocol, terms: Terms, way: &Way, flows: u16) -> Self {
        let makers = (0..flows).map(|flow| {
            let (mac, address) = way.client;
            let address = SocketAddr::new(address.ip(), address.port() + flow);
            FrameMaker::new(&Way { client: (mac, address), ..*way })
        });
        Self { protocol, terms, makers: makers.collect() }
    }

    /// The frame of a GET, and where the key lies in it.
    fn get(&mut self, number: u16, drawn: &Drawn<'_>) -> Result<(Vec<u8>, usize)> {
        let flow = usize::from(number) % self.makers.len();
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES);
        match self.protocol {
            Protocol::Memcached => {
                let [low, high] = number.to_be_bytes();
                payload.extend([low, high, 0, 0, 0, 1, 0, 0]);
                payload.extend(b"get ");
                payload.extend(drawn.key);
                payload.extend(b"\r\n");
            }
            Protocol::Native => {
                payload.resize(PAYLOAD_BYTES, 0);
                let bytes = native_get(&mut payload, number, drawn.key, self.terms)?;
                payload.truncate(bytes);
            }
        }
        let frame = self.makers[flow].frame(&payload);
        let key = frame.windows(drawn.key.len()).rposition(|bytes| bytes == drawn.key);
        Ok((frame, key.ok_or("a request without its key")?))
    }
}

fn native_get(payload: &mut [u8], number: u16, key: &[u8], terms: Terms) -> Result<usize> {
    let hash = KeyHash::of(key, terms.hash_seed);
    let request = Request {
        opcode: Opcode::Get,
        wants_cas: false,
        wants_entry: false,
        hash: hash.0,
        flags: 0,
        expiry_s: 0,
        argument: 0,
        id: 0,
        key,
        value: &[],
    };
    let mut writer = RequestWriter::new(payload);
    let pushed = writer.push(&request);
    pushed.map_err(|_| "a datagram has no room for a GET")?;
    let header = Header {
        generation: terms.generation,
        cookie: terms.cookie,
        partition: hash.partition(terms.partition_bits) as u16,
        client: 1,
        sequence: u32::from(number),
        ..Header::REQUESTS
    };
    Ok(writer.finish(&header))
}

impl Ring {
    pub fn new(protocol: Protocol) -> Self {
        Self { protocol, bytes: Vec::new(), entries: Vec::new(), next: 0, asked: HashMap::new() }
    }

    /// Appends a request. The item numbers of updates count up, so that values change.
    pub fn push(&mut self, maker: &mut Maker, drawn: &Drawn<'_>) -> Result<()> {
        let start = self.bytes.len();
        let key_start = match drawn.kind {
            Kind::Get => {
                let number = self.entries.len() as u16;
                let (frame, key_start) = maker.get(number, drawn)?;
                self.bytes.extend(frame);
                start + key_start
            }
            Kind::Update => {
                let stored = (drawn.key, drawn.item, drawn.value_bytes);
                push_set(&mut self.bytes, stored, self.entries.len() as u32, "");
                start + "set ".len()
            }
            Kind::Delete => {
                self.bytes.extend(b"delete ");
                self.bytes.extend(drawn.key);
                self.bytes.extend(b"\r\n");
                start + "delete ".len()
            }
        };
        let place = self.entries.len();
        let mut after = 0;
        if drawn.kind == Kind::Get {
            self.asked.insert(drawn.item, place);
        } else if let Some(asked) = self.asked.get(&drawn.item) {
            after = Some(place - asked).filter(|after| *after < AFTER_MAX).unwrap_or(0);
        }
        self.entries.push(Entry {
            after: after as u16,
            kind: drawn.kind,
            start: u32::try_from(start)?,
            bytes: (self.bytes.len() - start) as u32,
            key_start: key_start as u32,
            key_bytes: drawn.key.len() as u8,
            value_bytes: drawn.value_bytes as u32,
            item: drawn.item,
        });
        Ok(())
    }

    /// Takes the next one; returns its place.
    #[inline]
    pub fn take(&mut self) -> usize {
        let place = self.next;
        self.next = if place + 1 == self.entries.len() { 0 } else { place + 1 };
        place
    }

    #[inline]
    pub fn entry(&self, place: usize) -> &Entry {
        &self.entries[place]
    }

    /// The frame of a GET, or the line of a write.
    #[inline]
    pub fn bytes(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.start as usize..(entry.start + entry.bytes) as usize]
    }

    #[inline]
    pub fn key(&self, entry: &Entry) -> &[u8] {
        let start = entry.key_start as usize;
        &self.bytes[start..start + usize::from(entry.key_bytes)]
    }

    /// Gives the native requests another cookie and generation: those of a minute ago are not believed
    /// any more.
    pub fn renew(&mut self, terms: Terms) {
        if self.protocol != Protocol::Native {
            return;
        }
        for entry in self.entries.iter().filter(|entry| entry.kind == Kind::Get) {
            let frame = &mut self.bytes[entry.start as usize..][..entry.bytes as usize];
            let (headers, payload) = frame.split_at_mut(UDP_PAYLOAD);
            let checksum = &mut headers[UDP_CHECKSUM..][..2];
            for (at, new) in [
                (NATIVE_GENERATION, &terms.generation.to_le_bytes()[..]),
                (NATIVE_COOKIE, &terms.cookie.to_le_bytes()),
            ] {
                let place = &mut payload[at..][..new.len()];
                let sum = changed_sum([checksum[0], checksum[1]], place, new);
                checksum.copy_from_slice(&sum);
                place.copy_from_slice(new);
            }
        }
    }

    /// Puts the frame of a GET into a buffer, with some bytes behind it that are cut off on the way and
    /// leave room for the reply.
    #[inline]
    pub fn put(&self, entry: &Entry, frame: &mut Frame) {
        let bytes = self.bytes(entry);
        let start = frame.start();
        let with_room = bytes.len() + entry.value_bytes as usize + REPLY_BYTES;
        frame.place(start, with_room.min(FRAME_BYTES_MAX).max(bytes.len()));
        frame.buffer_mut()[start..start + bytes.len()].copy_from_slice(bytes);
    }
}

/// A checksum after some bytes under it, at an even place, have become others (RFC 1624).
fn changed_sum(checksum: [u8; 2], old: &[u8], new: &[u8]) -> [u8; 2] {
    let words = |bytes: &[u8]| -> u32 {
        let words = bytes.chunks_exact(2);
        words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
    };
    let removed = 0xffff * (old.len() as u32 / 2) - words(old);
    let mut sum = u32::from(!u16::from_be_bytes(checksum)) + removed + words(new);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // 0 would say that there is none.
    match !(sum as u16) {
        0 => [0xff; 2],
        checksum => checksum.to_be_bytes(),
    }
}

#[cfg(test)]
mod tests;
