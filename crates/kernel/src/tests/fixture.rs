//! A cache whose image is in maps, the program that reads it, and frames.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

use micanite_engine::{
    Cache, Condition, Config, Expiry, Layout, Maps, Operation, Outcome, ReplySink, Request, ValueMeta, Worker,
};
use micanite_test_skip::skip;

use crate::configuration::{GetOptions, NativeOptions, Network};
use crate::counters::Counters;
use crate::maps::{IMAGE_BYTES_MAX, ImageMaps};
use crate::program::Program;

pub const PASS: u32 = 2;
pub const SENT: u32 = 3;
pub const CLIENT: &str = "10.0.0.1:40000";
pub const SERVER: &str = "10.0.0.2:11211";
pub const GENERATION: u32 = 5;

/// Returns whether programs can be loaded here; where they cannot, the calling test is skipped.
pub fn can_load() -> bool {
    // SAFETY: it has no preconditions.
    let can = unsafe { libc::geteuid() } == 0;
    if !can {
        skip("loading a BPF program needs root");
    }
    can
}

/// A cache with the program over its image.
pub struct Fixture {
    pub cache: Arc<Cache>,
    pub worker: Worker,
    pub program: Program,
    _image: ImageMaps,
}

/// Collects the engine's reply to one request.
#[derive(Default)]
pub struct Answer {
    found: Option<(ValueMeta, Vec<u8>)>,
}

impl ReplySink for Answer {
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        let (_, value) = self.found.insert((meta, vec![0; meta.value_bytes]));
        Some(value)
    }
    fn rollback(&mut self, _: usize) {
        self.found = None;
    }
    fn finish(&mut self, _: usize, _: Outcome) {}
}

/// Returns the current second, for the program and the engine.
pub fn now_s() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() as u32)
}

impl Fixture {
    pub const OWN_V4: &str = "10.0.0.2";
    pub const OWN_V6: &str = "fd00::2";

    /// Creates a cache. The program answers 10.0.0.0/8, fd00::/8, and ::/8, which contains no IPv4
    /// address.
    pub fn new(config: Config) -> Self {
        let config = Config { partition_bytes_max: IMAGE_BYTES_MAX, ..config };
        let layout = Layout::of(&config).unwrap();
        let image = ImageMaps::create(layout.partitions, layout.partition_bytes).unwrap();
        let maps = Maps { descriptors: image.descriptors().to_vec(), kept: false };
        let cache = Cache::new(&Config { maps: Some(maps), ..config });
        let cache = Arc::new(cache.unwrap());
        let network = |address: &str, bits| Network { address: address.parse().unwrap(), bits };
        let options = GetOptions {
            geometry: cache.geometry(),
            clock_offset_ms: clock_offset_ms(),
            memcached_port: Some(11211),
            native: Some(NativeOptions {
                ports: (11300, 11303),
                payload_bytes_max: 1472,
                cookie_key: [1, 2],
                generation: GENERATION,
            }),
            addresses: Vec::new(),
            networks: vec![network("10.0.0.0", 8), network("fd00::", 8), network("::", 8)],
            spread_cpus: Vec::new(),
        };
        let own = [Self::OWN_V4, Self::OWN_V6].map(|address| address.parse().unwrap());
        let program = Program::with(&options, &own, (1500, false), &image);
        Self { worker: cache.worker(0).unwrap(), cache, program: program.unwrap(), _image: image }
    }

    /// Executes an operation; returns what a get finds.
    pub fn execute(&mut self, key: &[u8], operation: Operation<'_>) -> Option<(ValueMeta, Vec<u8>)> {
        let hash = self.cache.hash(key);
        let request = Request { hash, key, operation };
        let mut answer = Answer::default();
        self.worker.execute(&[request], now_s(), &mut answer);
        answer.found
    }

    pub fn set(&mut self, key: &str, value: &[u8], flags: u32, expiry: Expiry) {
        let operation = Operation::Store { condition: Condition::Always, value, flags, expiry };
        self.execute(key.as_bytes(), operation);
    }

    /// Runs the program on a frame; returns the verdict and the resulting frame.
    pub fn run(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        let (verdict, frame, _) = micanite_bpf::run(self.program.descriptor.as_fd(), frame, 1)
            .expect("the kernel runs programs on frames");
        (verdict, frame)
    }

    /// Sends a memcached request. Returns the payload of the reply, or `None` if the program passed
    /// the frame on, unchanged.
    pub fn ask(&self, line: &str) -> Option<String> {
        let frame = datagram(CLIENT, SERVER, &[b"\x12\x34\0\0\0\x01\0\0", line.as_bytes()].concat());
        let (verdict, out) = self.run(&frame);
        match verdict {
            PASS => {
                assert_eq!(out, frame, "the frame was changed although it was passed on");
                None
            }
            SENT => {
                let payload = payload(&out);
                assert_eq!(payload[..8], *b"\x12\x34\0\0\0\x01\0\0");
                Some(String::from_utf8_lossy(&payload[8..]).into_owned())
            }
            other => panic!("verdict {other}"),
        }
    }

    pub fn counters(&self) -> Counters {
        self.program.counters()
    }
}

fn clock_offset_ms() -> u64 {
    let mut coarse = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut coarse) };
    let coarse_ms = coarse.tv_sec as u64 * 1000 + coarse.tv_nsec as u64 / 1_000_000;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_millis() as u64 - coarse_ms
}

/// Header fields besides addresses and lengths.
#[derive(Clone, Copy)]
pub struct Style {
    /// Identification and fragment word of IPv4.
    identification: [u8; 4],
    time_to_live: u8,
}

impl Style {
    const REQUEST: Self = Self { identification: [0, 7, 0, 0], time_to_live: 63 };
    /// Fields of the program's replies, which keep the identification of the request.
    pub const fn reply([high, low]: [u8; 2]) -> Self {
        Self { identification: [high, low, 0, 0], time_to_live: 64 }
    }
}

/// Builds a frame with a datagram and valid checksums.
pub fn datagram(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let [from, to] = [from, to].map(|address| address.parse().unwrap());
    datagram_in(Style::REQUEST, from, to, payload)
}

/// Builds a frame with a datagram, valid checksums and the given header fields.
pub fn datagram_in(style: Style, from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let udp_bytes = (8 + payload.len()) as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + udp_bytes).to_be_bytes());
            frame.extend(style.identification);
            frame.extend([style.time_to_live, 17, 0, 0]);
            frame.extend(from.octets().iter().chain(&to.octets()));
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(udp_bytes.to_be_bytes());
            frame.extend([17, style.time_to_live]);
            frame.extend(from.octets().iter().chain(&to.octets()));
        }
        _ => panic!("two families"),
    }
    frame.extend(from.port().to_be_bytes());
    frame.extend(to.port().to_be_bytes());
    frame.extend(udp_bytes.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    fix_checksums(&mut frame);
    frame
}

/// Corrects the checksums of a frame that has any.
pub fn fix_checksums(frame: &mut [u8]) {
    let at = if frame.get(12..14) == Some(&[0x81, 0]) { 18 } else { 14 };
    let (addresses, udp_at) = match frame.get(at - 2..at) {
        Some([8, 0]) => (at + 12..at + 20, at + 20),
        Some([0x86, 0xdd]) => (at + 8..at + 40, at + 40),
        _ => return,
    };
    if frame.len() < udp_at + 8 {
        return;
    }
    if udp_at == at + 20 {
        frame[at + 10..at + 12].fill(0);
        let sum = checksum(&frame[at..udp_at]);
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }
    frame[udp_at + 6..udp_at + 8].fill(0);
    let length: [u8; 2] = frame[udp_at + 4..udp_at + 6].try_into().unwrap();
    let end = (udp_at + usize::from(u16::from_be_bytes(length))).min(frame.len());
    let covered = [&frame[addresses], &[0, 17], &length, &frame[udp_at.min(end)..end]];
    let sum = checksum(&covered.concat());
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[udp_at + 6..udp_at + 8].copy_from_slice(&sum.to_be_bytes());
}

/// Computes the Internet checksum: 0 over data that includes its valid checksum.
pub fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let mut sum: u64 =
        words.map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Checks the headers of a reply; returns its payload.
pub fn payload(frame: &[u8]) -> &[u8] {
    assert_eq!(frame[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], "MAC addresses");
    let (pseudo, udp) = match frame[12..14] {
        [8, 0] => {
            let ip = &frame[14..34];
            assert_eq!(ip[0], 0x45);
            assert_eq!(checksum(ip), 0, "IP checksum");
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), frame.len() - 14);
            (ip[12..20].to_vec(), &frame[34..])
        }
        [0x86, 0xdd] => (frame[22..54].to_vec(), &frame[54..]),
        _ => panic!("another protocol"),
    };
    let length = [udp[4], udp[5]];
    assert_eq!(usize::from(u16::from_be_bytes(length)), udp.len());
    let covered = [&pseudo, &[0, 17][..], &length, udp].concat();
    assert_eq!(checksum(&covered), 0, "UDP checksum");
    &udp[8..]
}
