//! Writes captures, packet by packet, in the plainest way.

use std::net::IpAddr;

use crate::trace::Request;
use crate::trace::formats::pcap::Pcap;
use crate::trace::open::Reader as _;

pub const SERVER_PORT: u16 = 11211;

#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub is_big_endian: bool,
    pub has_nanoseconds: bool,
    pub link: u32,
    pub is_v6: bool,
    /// Bytes that are captured of a packet.
    pub captured_max: usize,
}

impl Form {
    pub const PLAIN: Self =
        Self { is_big_endian: false, has_nanoseconds: false, link: 1, is_v6: false, captured_max: 1 << 18 };
}

pub struct Capture {
    form: Form,
    pub bytes: Vec<u8>,
    pub time_us: u64,
}

/// Fields of a TCP segment besides its bytes.
#[derive(Clone, Copy, Default)]
pub struct Tcp {
    pub sequence: u32,
    pub acknowledged: u32,
    pub flags: u8,
}

pub const SYN: u8 = 2;
pub const ACK: u8 = 16;

fn address(form: Form, host: u8) -> IpAddr {
    if form.is_v6 {
        IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host])
    } else {
        IpAddr::from([10, 0, 0, host])
    }
}

impl Capture {
    pub fn new(form: Form) -> Self {
        let mut capture = Self { form, bytes: Vec::new(), time_us: 1_700_000_000_000_000 };
        capture.word(if form.has_nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 });
        for word in [0x0004_0002, 0, 0, 1 << 18, form.link] {
            capture.word(word);
        }
        capture
    }

    fn word(&mut self, word: u32) {
        if self.form.is_big_endian {
            self.bytes.extend(word.to_be_bytes());
        } else {
            self.bytes.extend(word.to_le_bytes());
        }
    }

    fn frame(&mut self, ip: &[u8]) {
        let ether_type: u16 = if self.form.is_v6 { 0x86dd } else { 0x0800 };
        let ether_type = ether_type.to_be_bytes();
        let link = match self.form.link {
            // With a VLAN's tag.
            1 => [&[1; 12][..], &[0x81, 0, 0, 7], &ether_type].concat(),
            113 => [&[0; 14][..], &ether_type].concat(),
            276 => [&ether_type[..], &[0; 18]].concat(),
            _ => Vec::new(),
        };
        let frame = [&link[..], ip].concat();
        let captured = &frame[..frame.len().min(self.form.captured_max)];
        let fraction = self.time_us % 1_000_000;
        self.word((self.time_us / 1_000_000) as u32);
        self.word(if self.form.has_nanoseconds { fraction * 1000 + 7 } else { fraction } as u32);
        self.word(captured.len() as u32);
        self.word(frame.len() as u32);
        self.bytes.extend(captured);
    }

    fn ip(&mut self, from: u8, to: u8, protocol: u8, payload: &[u8]) {
        let length = payload.len() as u16;
        let mut packet = if self.form.is_v6 {
            // With an empty header of options.
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend((length + 8).to_be_bytes());
            packet.extend([0, 64]);
            packet
        } else {
            let mut packet = vec![0x45, 0];
            packet.extend((length + 20).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            packet
        };
        for host in [from, to] {
            match address(self.form, host) {
                IpAddr::V4(address) => packet.extend(address.octets()),
                IpAddr::V6(address) => packet.extend(address.octets()),
            }
        }
        if self.form.is_v6 {
            packet.extend([protocol, 0, 0, 0, 0, 0, 0, 0]);
        }
        packet.extend(payload);
        // Ethernet fills short frames up.
        packet.extend([0xee; 3]);
        self.frame(&packet);
    }

    pub fn tcp(&mut self, client: u8, is_from_client: bool, tcp: Tcp, payload: &[u8]) {
        let client_port = 40_000 + u16::from(client);
        let (from, to) = if is_from_client { (client_port, SERVER_PORT) } else { (SERVER_PORT, client_port) };
        let mut segment = [from.to_be_bytes(), to.to_be_bytes()].concat();
        segment.extend(tcp.sequence.to_be_bytes());
        segment.extend(tcp.acknowledged.to_be_bytes());
        // A header with four bytes of options.
        segment.extend([0x60, tcp.flags, 0xff, 0xff, 0, 0, 0, 0, 1, 1, 1, 1]);
        segment.extend(payload);
        let (from, to) = if is_from_client { (client, 200) } else { (200, client) };
        self.ip(from, to, 6, &segment);
    }

    pub fn udp(&mut self, client: u8, is_from_client: bool, payload: &[u8]) {
        let client_port = 40_000 + u16::from(client);
        let (from, to) = if is_from_client { (client_port, SERVER_PORT) } else { (SERVER_PORT, client_port) };
        let mut datagram = [from.to_be_bytes(), to.to_be_bytes()].concat();
        datagram.extend((payload.len() as u16 + 8).to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(payload);
        let (from, to) = if is_from_client { (client, 200) } else { (200, client) };
        self.ip(from, to, 17, &datagram);
    }
}

/// Writes the packets of a little-endian capture with microseconds as a pcapng file, whose second interface
/// has them, in a unit of times by its number in the file.
pub fn as_pcapng(capture: &[u8], unit: u8) -> Vec<u8> {
    let word = |bytes: &[u8]| u32::from_le_bytes(*bytes.first_chunk().unwrap());
    let mut file = block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]]);
    let interface = |link: u32| [link.to_le_bytes(), [0; 4]].concat();
    file.extend(block(1, &[&interface(127)]));
    file.extend(block(1, &[&interface(word(&capture[20..])), &[9, 0, 1, 0, unit, 0, 0, 0], &[0; 4]]));
    file.extend(block(0xbad, &[b"not known to anybody"]));
    let ticks_per_s = if unit < 0x80 { 10u64.pow(unit.into()) } else { 1 << (unit & 0x7f) };
    let mut rest = &capture[24..];
    while let Some((header, behind)) = rest.split_first_chunk::<16>() {
        let (bytes, behind) = behind.split_at(word(&header[8..]) as usize);
        let ticks = u64::from(word(header)) * ticks_per_s
            + (u64::from(word(&header[4..])) * ticks_per_s).div_ceil(1_000_000);
        let time = [((ticks >> 32) as u32).to_le_bytes(), (ticks as u32).to_le_bytes()].concat();
        file.extend(block(6, &[&[1, 0, 0, 0], &time, &header[8..], bytes]));
        rest = behind;
    }
    file
}

fn block(kind: u32, parts: &[&[u8]]) -> Vec<u8> {
    let mut body = parts.concat();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, &body, &length].concat()
}

/// A connection that is written in order, from its beginning.
pub struct Connection {
    pub client: u8,
    pub client_next: u32,
    pub server_next: u32,
}

impl Connection {
    pub fn open(capture: &mut Capture, client: u8) -> Self {
        let (client_first, server_first) = (u32::MAX - 50, 1_000);
        let syn = |sequence, acknowledged, flags| Tcp { sequence, acknowledged, flags };
        capture.tcp(client, true, syn(client_first, 0, SYN), b"");
        let next = client_first.wrapping_add(1);
        capture.tcp(client, false, syn(server_first, next, SYN | ACK), b"");
        Self { client, client_next: next, server_next: server_first + 1 }
    }

    /// The segment that comes next.
    pub fn next(&mut self, is_from_client: bool, payload: &[u8]) -> Tcp {
        let length = payload.len() as u32;
        let (ours, others) = if is_from_client {
            (&mut self.client_next, self.server_next)
        } else {
            (&mut self.server_next, self.client_next)
        };
        let sequence = *ours;
        *ours = ours.wrapping_add(length);
        Tcp { sequence, acknowledged: others, flags: ACK }
    }

    pub fn send(&mut self, capture: &mut Capture, is_from_client: bool, payload: &[u8]) {
        let tcp = self.next(is_from_client, payload);
        capture.tcp(self.client, is_from_client, tcp, payload);
    }
}

/// A request in words: `operation key value_bytes expiry_s outcome`.
pub fn words(request: &Request<'_>) -> String {
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    let crate::trace::Key::Text(key) = request.key else {
        panic!("a number");
    };
    format!(
        "{} {} {} {} {:?}",
        request.operation.name(),
        key.escape_ascii(),
        number(request.value_bytes),
        number(request.expiry_s),
        request.outcome
    )
}

/// All requests of a capture in words, and what was remarked.
pub fn read(bytes: Vec<u8>) -> (Vec<String>, Vec<String>) {
    let bytes = Box::new(std::io::Cursor::new(bytes));
    let mut reader = Pcap::new(bytes, "x".to_owned(), SERVER_PORT).unwrap();
    let mut requests = Vec::new();
    let mut time_ms = 0;
    while let Some(request) = reader.next().unwrap() {
        assert!(request.time_ms >= time_ms);
        time_ms = request.time_ms;
        requests.push(words(&request));
    }
    (requests, reader.remarks())
}
