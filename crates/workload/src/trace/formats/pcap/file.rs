//! The file: a header that says byte order, unit of times and link layer, then packets.

use std::io::BufRead;

use super::packet::Link;
use crate::trace::Failure;
use crate::trace::formats::read_record;

const HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;
/// Bound beyond what any capture takes of a packet.
const PACKET_BYTES_MAX: u32 = 1 << 18;
/// The upper bits of the link layer tell checksums that were captured, too.
const LINK_MASK: u32 = 0x03ff_ffff;

/// Byte order and unit of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Encoding {
    is_big_endian: bool,
    fractions_per_ms: u32,
}

impl Encoding {
    fn of(magic: [u8; 4]) -> Option<Self> {
        let is = |is_big_endian, fractions_per_ms| Some(Self { is_big_endian, fractions_per_ms });
        match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => is(true, 1_000),
            [0xd4, 0xc3, 0xb2, 0xa1] => is(false, 1_000),
            [0xa1, 0xb2, 0x3c, 0x4d] => is(true, 1_000_000),
            [0x4d, 0x3c, 0xb2, 0xa1] => is(false, 1_000_000),
            _ => None,
        }
    }

    fn word(self, header: &[u8], at: usize) -> u32 {
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

/// The first bytes of a pcapng file.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Returns whether a file begins like this, or like what is converted to it.
pub(crate) fn is_one(first: &[u8]) -> bool {
    let magic = first.first_chunk();
    magic.is_some_and(|magic| Encoding::of(*magic).is_some() || *magic == PCAPNG_MAGIC)
}

pub(super) struct Packets {
    bytes: Box<dyn BufRead>,
    name: String,
    encoding: Encoding,
    link: Link,
    packet: Vec<u8>,
    number: u64,
    is_cut: bool,
}

/// A packet, whose bytes are [`Packets::bytes`].
#[derive(Clone, Copy)]
pub(super) struct Packet {
    pub time_ms: u64,
    /// Length before some of it was left out of the capture.
    pub wire_bytes: usize,
}

impl Packets {
    /// # Errors
    /// When it is none, or of a link layer that we do not know.
    pub fn new(mut bytes: Box<dyn BufRead>, name: String) -> Result<Self, Failure> {
        let failed = |why: &str| Failure::new(format!("{name}: {why}"));
        let mut header = [0; HEADER_BYTES];
        let is_whole = read_record(&mut *bytes, &mut header, &name);
        let magic = [header[0], header[1], header[2], header[3]];
        if magic == PCAPNG_MAGIC {
            return Err(failed(
                "this is a pcapng file: make a pcap file of it by 'tcpdump -r FILE -w OUT.pcap' or 'editcap \
                 -F pcap FILE OUT.pcap'",
            ));
        }
        let encoding = Encoding::of(magic);
        let (Ok(true), Some(encoding)) = (is_whole, encoding) else {
            return Err(failed("it does not begin like a pcap file"));
        };
        let number = encoding.word(&header, 20) & LINK_MASK;
        let Some(link) = Link::numbered(number) else {
            return Err(failed(&format!(
                "its link layer has the number {number}; read are Ethernet (1), raw IP (101) and Linux's \
                 cooked captures (113, 276)"
            )));
        };
        Ok(Self { bytes, name, encoding, link, packet: Vec::new(), number: 0, is_cut: false })
    }

    /// Goes on to the next packet; nothing at the end.
    pub fn advance(&mut self) -> Result<Option<Packet>, Failure> {
        let mut header = [0; PACKET_HEADER_BYTES];
        if !self.read(&mut header)? {
            return Ok(None);
        }
        self.number += 1;
        let [time_s, fraction, captured_bytes, wire_bytes] =
            [0, 4, 8, 12].map(|at| self.encoding.word(&header, at));
        if captured_bytes > PACKET_BYTES_MAX {
            let Self { name, number, .. } = self;
            return Err(Failure::new(format!(
                "{name}: packet {number} would have {captured_bytes} bytes: the file is damaged"
            )));
        }
        let mut packet = std::mem::take(&mut self.packet);
        packet.resize(captured_bytes as usize, 0);
        let is_read = captured_bytes == 0 || self.read(&mut packet)?;
        self.packet = packet;
        let time_ms = u64::from(time_s) * 1_000 + u64::from(fraction / self.encoding.fractions_per_ms);
        Ok(is_read.then_some(Packet { time_ms, wire_bytes: wire_bytes.max(captured_bytes) as usize }))
    }

    /// Fills it; whether there was so much. A capture that was killed ends anywhere.
    fn read(&mut self, to: &mut [u8]) -> Result<bool, Failure> {
        let mut filled = 0;
        while filled < to.len() {
            match self.bytes.read(&mut to[filled..]) {
                Ok(0) => {
                    self.is_cut = filled > 0 || to.len() != PACKET_HEADER_BYTES;
                    return Ok(false);
                }
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::new(format!("{}: {error}", self.name))),
            }
        }
        Ok(true)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.packet
    }

    pub fn link(&self) -> Link {
        self.link
    }

    /// Returns whether it ends within a packet.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}
