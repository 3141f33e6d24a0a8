//! The program in the kernel beside the server: what it answers at all, it answers byte for byte as a
//! worker would over the same image.

use std::net::SocketAddr;

use micanite_engine::{Config, Layout, Maps};
use micanite_kernel::testing::{TestProgram, Verdict};
use micanite_kernel::{GetOptions, IMAGE_BYTES_MAX, IS_BUILT, ImageMaps, NativeOptions};
use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{
    FramePort, Header as Headers, Local, MacAddress, ReceiveChecksums, ReplyTo, parse,
};
use micanite_test_skip::skip;
use micanite_wire::native::{Header, Request};
use proptest::prelude::*;

use super::order::{PEERS, Plan, arrival, damaged_plan, plan};
use super::*;
use crate::shared::clock::Clock;

const PAYLOAD_BYTES: usize = 1472;
const SERVERS: [&str; 2] = ["10.0.0.200:20000", "[fd00::200]:20000"];
const MACS: [MacAddress; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// A server, and the program over its image.
struct Beside {
    bench: NativeBench,
    program: TestProgram,
    clock: Clock,
}

/// Nothing where programs cannot be loaded.
fn beside(options: &str) -> Option<Beside> {
    if !IS_BUILT || !nix::unistd::geteuid().is_root() {
        skip("loading a BPF program needs root, and clang when this is built");
        return None;
    }
    let mut image = None;
    let over = |config: Config| {
        let config = Config { partition_bytes_max: IMAGE_BYTES_MAX, ..config };
        let layout = Layout::of(&config).unwrap();
        let maps = ImageMaps::create(layout.partitions, layout.partition_bytes).unwrap();
        let descriptors = maps.descriptors().to_vec();
        image = Some(maps);
        let kept = false;
        let maps = Some(Maps { descriptors, kept });
        Config { maps, ..config }
    };
    let bench = NativeBench::over(options, PAYLOAD_BYTES, over, |native| native);
    let clock = Clock::start();
    let options = GetOptions {
        geometry: bench.server.shared.cache.geometry(),
        clock_offset_ms: clock.offset_ms(),
        memcached_port: None,
        native: Some(NativeOptions {
            ports: (20_000, 20_000),
            payload_bytes_max: PAYLOAD_BYTES,
            cookie_key: bench.native().cookie_key.0,
            generation: bench.generation(),
        }),
        addresses: Vec::new(),
        networks: Vec::new(),
        spread_cpus: Vec::new(),
    };
    let own = SERVERS.map(|address| address.parse::<SocketAddr>().unwrap().ip());
    let program = TestProgram::load(&options, &own, &image.unwrap()).unwrap();
    Some(Beside { bench, program, clock })
}

/// A frame with a datagram.
fn frame(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let local = Local { addresses: vec![to.ip()], ports: 1..=1 };
    let mut port = FramePort::new(MemoryQueue::new(1, 4096, 64), local, 2000);
    let headers = Headers::new((MACS[0], from), (MACS[1], to), None);
    let (_, mut replies) = port.split();
    replies.open(ReplyTo::Header(&headers));
    replies.slot()[..payload.len()].copy_from_slice(payload);
    replies.commit(payload.len());
    port.send().unwrap();
    port.queue_mut().sent.pop().unwrap()
}

impl Beside {
    /// Second by second: the server lives in the one that the program reads.
    fn now(&mut self) -> u32 {
        self.bench.now_s = (self.clock.now_ms() / 1000) as u32;
        self.bench.now_s
    }

    /// Returns the program's answer; none if the datagram goes on unchanged.
    fn by_program(&self, arrival: &Arrival) -> Option<Vec<u8>> {
        let to = SERVERS[usize::from(arrival.peer.is_ipv6())].parse().unwrap();
        let asked = frame(arrival.peer, to, &arrival.bytes);
        match self.program.run(&asked).unwrap() {
            Verdict::Passed(frame) => {
                assert_eq!(frame, asked, "what goes on is as it came");
                None
            }
            Verdict::Sent(frame) => {
                let found = parse(&frame, ReceiveChecksums::Unverified).expect("a good frame");
                assert_eq!((found.source, found.destination), (to, arrival.peer));
                let payload = &frame[usize::from(found.payload_start)..];
                assert_eq!(payload.len(), usize::from(found.payload_bytes));
                Some(payload.to_vec())
            }
            Verdict::Other(verdict) => panic!("verdict {verdict}"),
        }
    }

    /// Both answer a datagram; whether the program did.
    fn compare(&mut self, arrival: &Arrival) -> bool {
        loop {
            let now_s = self.now();
            let answer = self.by_program(arrival);
            if self.now() != now_s {
                continue;
            }
            let sent = self.bench.round(0, std::slice::from_ref(arrival), false);
            check(&self.bench, std::slice::from_ref(arrival), &sent, false);
            if let Some(answer) = &answer {
                let expected = sent.datagrams.first().map(|(_, bytes)| bytes);
                assert_eq!(Some(answer), expected, "asked {:02x?}", arrival.bytes);
            }
            return answer.is_some();
        }
    }

    /// Stores something under every key that plans ask for.
    fn fill(&mut self) {
        let mut requester = Requester::new(&self.bench, PEERS[0]);
        let values: [(&[u8], usize); 4] =
            [(b"a", 1), (b"number", 9), (b"a-key-of-16-byte", 100), (b"long", 1300)];
        for (key, value_bytes) in values {
            let value = vec![b'7'; value_bytes];
            let set =
                Request { flags: value_bytes as u32 * 77, ..self.bench.store(Opcode::Set, key, &value) };
            let datagram = requester.datagram(&[set]);
            self.bench.round(0, &[datagram], false);
        }
    }
}

/// All of its requests but some gets that the program takes: of short keys, few of them for CAS values.
fn of_gets(mut plan: Plan, others: usize) -> Plan {
    for (opcode, key, _, word) in plan.requests.iter_mut().skip(others) {
        *opcode = Opcode::Get as usize;
        *key %= 4;
        // An even one wishes for the CAS value.
        *word |= u64::from(*word % 16 != 0);
    }
    plan
}

fn run(plans: &[(Plan, usize)], options: &str) {
    let Some(mut beside) = beside(options) else {
        return;
    };
    beside.now();
    beside.fill();
    for (plan, others) in plans {
        let arrival = arrival(&beside.bench, &of_gets(plan.clone(), *others));
        beside.compare(&arrival);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]

    #[test]
    fn gets_and_others_are_answered_as_by_a_worker(
        plans in prop::collection::vec((plan(), prop_oneof![4 => Just(0usize), 1 => 0usize..40]), 1..40),
        is_store in any::<bool>(),
    ) {
        run(&plans, if is_store { "semantics = \"store\"" } else { "" });
    }

    #[test]
    fn damaged_datagrams_are_answered_as_by_a_worker(
        plans in prop::collection::vec((damaged_plan(), Just(0usize)), 1..60),
    ) {
        run(&plans, "");
    }

    #[test]
    fn any_bytes_are_answered_as_by_a_worker(
        noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 1..60),
        with_head in any::<bool>(),
    ) {
        let Some(mut beside) = beside("") else {
            return Ok(());
        };
        for (number, mut bytes) in noise.into_iter().enumerate() {
            if with_head && bytes.len() > 48 {
                bytes[..6].copy_from_slice(b"Mi\x01\x01\x00\x00");
                bytes[14..16].fill(0);
                bytes[6..8].copy_from_slice(&1u16.to_le_bytes());
                bytes[40] = 1;
                bytes[42..48].fill(0);
            }
            let peer = PEERS[number % PEERS.len()].parse().unwrap();
            beside.compare(&Arrival { peer, bytes, forwarded: false });
        }
    }
}

/// Datagrams of `testdata/native.txt`, whose blocks have their bytes in lines of their own.
fn golden() -> Vec<Vec<u8>> {
    let text = include_str!("../../../../../testdata/native.txt");
    let block = |block: &str| {
        let digits = block.lines().filter_map(|line| line.strip_prefix("hex "));
        let digits: String = digits.collect();
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect::<Vec<u8>>()
    };
    let blocks = text.split("\n\n").map(block);
    blocks.filter(|bytes| !bytes.is_empty()).collect()
}

#[test]
fn golden_datagrams_are_answered_as_by_a_worker() {
    let Some(mut beside) = beside("") else {
        return;
    };
    let datagrams = golden();
    assert!(datagrams.len() > 20, "{}", datagrams.len());
    let mut answered = 0;
    for bytes in datagrams {
        for peer in PEERS {
            let arrival = Arrival { peer: peer.parse().unwrap(), bytes: bytes.clone(), forwarded: false };
            answered += usize::from(beside.compare(&arrival));
        }
    }
    assert!(answered > 0);
}

#[test]
fn cookies_grow_old_as_those_of_a_worker() {
    let Some(mut beside) = beside("") else {
        return;
    };
    let now_s = beside.now();
    beside.fill();
    for peer in PEERS {
        for age in [0, 1, 2, 3, -1i64, 1 << 20] {
            let made_s = (i64::from(now_s) - 64 * age) as u32;
            let mut requester = Requester::at(&beside.bench.server.shared, peer.parse().unwrap(), made_s);
            let gets = [b"a".as_slice(), b"long"].map(|key| beside.bench.request(Opcode::Get, key));
            for flipped in [0, 1, 1 << 63] {
                requester.header.cookie ^= flipped;
                let arrival = requester.datagram(&gets);
                assert!(beside.compare(&arrival), "{peer} {age}");
            }
        }
    }
}

/// The program answers gets of short keys, so that the comparison above compares something.
#[test]
fn the_program_answers_gets_of_short_keys() {
    for options in ["", "semantics = \"store\"", "memory-limit = 64"] {
        let Some(mut beside) = beside(options) else {
            return;
        };
        beside.now();
        beside.fill();
        for peer in PEERS {
            let mut requester = Requester::new(&beside.bench, peer);
            for is_proven in [true, false] {
                if !is_proven {
                    requester = requester.unproven();
                }
                for padding in [0, 8, 64, 200] {
                    requester.padding = padding;
                    let keys: [&[u8]; 6] = [b"a", b"b", b"number", b"long", b"a-key-of-16-byte", b"a"];
                    let gets = keys.map(|key| beside.bench.request(Opcode::Get, key));
                    for count in 1..=gets.len() {
                        let arrival = requester.datagram(&gets[..count]);
                        assert!(arrival.bytes.len() > Header::BYTES);
                        assert!(beside.compare(&arrival), "{peer} {padding} {count}");
                    }
                }
            }
        }
    }
}
