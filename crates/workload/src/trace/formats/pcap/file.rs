//! The file: `pcap-parser` reads it. A capture of the older form has one interface, a pcapng file any number.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator};
use pcap_parser::{
    Block, InterfaceDescriptionBlock, LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader,
};

use super::packet::Link;
use crate::trace::Failure;
use crate::trace::formats::read_record;

/// Memory for the file's bytes at first: a packet is shorter.
const BUFFER_BYTES: usize = 1 << 19;
/// The most memory: a block with the secrets of TLS is long.
const BUFFER_BYTES_MAX: usize = 1 << 24;
const INTERFACES_MAX: usize = 1 << 10;
/// The upper bits of the link layer tell checksums that were captured, too.
const LINK_MASK: u32 = 0x03ff_ffff;
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Magic numbers in either byte order, for microseconds and for nanoseconds.
const PCAP_MAGICS: [[u8; 4]; 4] =
    [[0xa1, 0xb2, 0xc3, 0xd4], [0xd4, 0xc3, 0xb2, 0xa1], [0xa1, 0xb2, 0x3c, 0x4d], [0x4d, 0x3c, 0xb2, 0xa1]];

/// Returns whether a file begins like a capture.
pub(crate) fn is_one(first: &[u8]) -> bool {
    first.first_chunk().is_some_and(|magic| PCAP_MAGICS.contains(magic) || *magic == PCAPNG_MAGIC)
}

/// An interface that was captured, with the unit and the origin of its times.
struct Interface {
    link_number: u32,
    ticks_per_s: u64,
    offset_s: i64,
}

impl Interface {
    fn described(block: &InterfaceDescriptionBlock<'_>) -> Result<Self, String> {
        // The upper bit says "a power of two" (pcap-parser 0.17 takes those for none).
        let exponent = u32::from(block.if_tsresol & 0x7f);
        let power =
            if block.if_tsresol < 0x80 { 10u64.checked_pow(exponent) } else { 1u64.checked_shl(exponent) };
        let ticks_per_s = power.ok_or("the unit of an interface's times is too small")?;
        Ok(Self { link_number: block.linktype.0 as u32, ticks_per_s, offset_s: block.ts_offset() })
    }

    fn link(&self) -> Result<Link, String> {
        let number = self.link_number & LINK_MASK;
        Link::numbered(number).ok_or_else(|| {
            format!(
                "its link layer has the number {number}; read are Ethernet (1), raw IP (101) and Linux's \
                 cooked captures (113, 276)"
            )
        })
    }

    /// Returns milliseconds since 1970. A hostile time may be any.
    fn time_ms(&self, ticks: u64) -> u64 {
        let since_offset_ms = u128::from(ticks) * 1_000 / u128::from(self.ticks_per_s);
        let since_1970_ms = since_offset_ms as i128 + i128::from(self.offset_s) * 1_000;
        since_1970_ms.clamp(0, u64::MAX.into()) as u64
    }
}

/// A captured packet.
pub(super) struct Packet<'a> {
    pub time_ms: u64,
    pub link: Link,
    pub bytes: &'a [u8],
    /// Length before some of it was left out of the capture.
    pub wire_bytes: usize,
}

pub(super) struct Packets {
    blocks: Box<dyn PcapReaderIterator>,
    buffer_bytes: usize,
    /// The error of a read: `pcap-parser` only says that there was one.
    read_error: Rc<Cell<Option<io::Error>>>,
    name: String,
    interfaces: Vec<Interface>,
    packets: u64,
    last_time_ms: u64,
    is_cut: bool,
}

/// Reads until a buffer is full, or the file ends.
struct Filling<R> {
    bytes: R,
    error: Rc<Cell<Option<io::Error>>>,
}

impl<R: Read> Read for Filling<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < to.len() {
            match self.bytes.read(&mut to[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let kind = error.kind();
                    self.error.set(Some(error));
                    return Err(kind.into());
                }
            }
        }
        Ok(filled)
    }
}

impl Packets {
    /// # Errors
    /// When it is none, or of a link layer that we do not know.
    pub fn new(mut bytes: Box<dyn BufRead>, name: String) -> Result<Self, Failure> {
        let none =
            |_: PcapError<&[u8]>| Failure::new(format!("{name}: it does not begin like a capture (pcap)"));
        let mut magic = [0; 4];
        let is_whole = read_record(&mut *bytes, &mut magic, &name)?;
        if !is_whole || !is_one(&magic) {
            return Err(none(PcapError::HeaderNotRecognized));
        }
        let read_error = Rc::new(Cell::new(None));
        let filling = Filling { bytes: io::Cursor::new(magic).chain(bytes), error: Rc::clone(&read_error) };
        let blocks: Box<dyn PcapReaderIterator> = if magic == PCAPNG_MAGIC {
            Box::new(PcapNGReader::new(BUFFER_BYTES, filling).map_err(none)?)
        } else {
            Box::new(LegacyPcapReader::new(BUFFER_BYTES, filling).map_err(none)?)
        };
        let interfaces = Vec::new();
        let mut packets = Self {
            blocks,
            buffer_bytes: BUFFER_BYTES,
            read_error,
            name,
            interfaces,
            packets: 0,
            last_time_ms: 0,
            is_cut: false,
        };
        if magic != PCAPNG_MAGIC {
            packets.open()?;
        }
        Ok(packets)
    }

    /// Takes the header of a capture of the older form, which comes before all packets.
    fn open(&mut self) -> Result<(), Failure> {
        if let Ok((bytes, PcapBlockOwned::LegacyHeader(header))) = self.blocks.next() {
            let ticks_per_s = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            let link_number = header.network.0 as u32;
            self.blocks.consume(bytes);
            self.interfaces.push(Interface { link_number, ticks_per_s, offset_s: 0 });
        }
        let link = self.interfaces.first().map(Interface::link);
        link.transpose().map(drop).map_err(|why| self.failure(&why))
    }

    /// Hands the next packet to `take`. Returns whether there was one.
    pub fn advance(&mut self, mut take: impl FnMut(&Packet<'_>)) -> Result<bool, Failure> {
        let mut is_long = false;
        loop {
            let before_bytes = self.blocks.data().len();
            let stopped = match self.blocks.next() {
                Ok((bytes, block)) => {
                    let packet = packet(&block, &mut self.interfaces, self.last_time_ms);
                    let taken = packet.map(|packet| packet.inspect(&mut take).map(|packet| packet.time_ms));
                    self.blocks.consume(bytes);
                    if let Some(time_ms) = taken.map_err(|why| self.failure(&why))? {
                        self.packets += 1;
                        self.last_time_ms = time_ms;
                        return Ok(true);
                    }
                    is_long = false;
                    continue;
                }
                Err(PcapError::Eof) => return Ok(false),
                // The length of a block that is longer than the rest of the file is damaged.
                Err(PcapError::UnexpectedEof) if !is_long => {
                    self.is_cut = true;
                    return Ok(false);
                }
                Err(PcapError::Incomplete(_)) => self.blocks.refill().is_err(),
                Err(PcapError::BufferTooSmall) => {
                    is_long = true;
                    self.grow()?;
                    self.blocks.refill().is_err()
                }
                Err(_) => true,
            };
            if let Some(error) = self.read_error.take() {
                return Err(self.failure(&error.to_string()));
            }
            let is_stuck = self.blocks.data().len() == before_bytes && !self.blocks.reader_exhausted();
            if stopped || is_stuck {
                let number = self.packets + 1;
                return Err(self.failure(&format!("packet {number} or a block before it is damaged")));
            }
        }
    }

    /// Makes room for a longer block.
    fn grow(&mut self) -> Result<(), Failure> {
        self.buffer_bytes *= 2;
        if self.buffer_bytes <= BUFFER_BYTES_MAX && self.blocks.grow(self.buffer_bytes) {
            return Ok(());
        }
        let (number, mib) = (self.packets + 1, BUFFER_BYTES_MAX >> 20);
        Err(self.failure(&format!("packet {number} or a block before it is longer than {mib} MiB")))
    }

    /// Returns whether it ends within a packet. A capture that was killed ends anywhere.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn failure(&self, why: &str) -> Failure {
        Failure::new(format!("{}: {why}", self.name))
    }
}

/// Returns the packet of a block, if it is one. Notes the interfaces that blocks describe.
fn packet<'b>(
    block: &'b PcapBlockOwned<'_>,
    interfaces: &mut Vec<Interface>,
    last_time_ms: u64,
) -> Result<Option<Packet<'b>>, String> {
    let interface = |number: usize| {
        interfaces
            .get(number)
            .ok_or_else(|| format!("a packet is of interface {number}, which is not described"))
    };
    let (interface, ticks, bytes, wire_bytes) = match block {
        PcapBlockOwned::Legacy(block) => {
            let interface = interface(0)?;
            let ticks = u64::from(block.ts_sec) * interface.ticks_per_s + u64::from(block.ts_usec);
            (interface, Some(ticks), block.data, block.origlen)
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
            let ticks = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
            (interface(block.if_id as usize)?, Some(ticks), block.packet_data(), block.origlen)
        }
        // It has no time.
        PcapBlockOwned::NG(Block::SimplePacket(block)) => {
            (interface(0)?, None, block.packet_data(), block.origlen)
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            interfaces.clear();
            return Ok(None);
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(_)) if interfaces.len() == INTERFACES_MAX => {
            return Err(format!("it has more than {INTERFACES_MAX} interfaces in a section"));
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(described)) => {
            interfaces.push(Interface::described(described)?);
            return Ok(None);
        }
        _ => return Ok(None),
    };
    Ok(Some(Packet {
        time_ms: ticks.map_or(last_time_ms, |ticks| interface.time_ms(ticks)),
        link: interface.link()?,
        bytes,
        wire_bytes: bytes.len().max(wire_bytes as usize),
    }))
}
