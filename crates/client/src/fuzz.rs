//! Body of the fuzz target: a client against a server that answers with anything.

use crate::{Completion, Counters, Driver, OnDead, Operation, Options, ServerAddress};
use micanite_wire::native::{
    CoreEntry, CorePlace, Directory, DirectoryRequest, DirectoryWriter, Entry, Header, InterfaceAddress,
    Kind, Opcode, PartitionAccess, PartitionEntry, ReplyWriter, Requests, Status,
};
use std::collections::HashSet;
use std::net::SocketAddr;

const MS: u64 = 1_000_000;
/// Number of sent datagrams that can still be answered.
const SENT_MAX: usize = 64;

/// The remaining input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Takes at most so many bytes.
    fn take(&mut self, bytes: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

struct Case {
    driver: Driver,
    now_ns: u64,
    /// Tokens in flight.
    tokens: HashSet<u64>,
    next: u64,
    sent: Vec<(SocketAddr, Vec<u8>)>,
}

/// Checks that each accepted request ends exactly once, and no other one, whatever a server answers.
///
/// The input is a script: a byte that selects an event, and its parameters.
pub fn client(data: &[u8]) {
    run(data);
}

fn run(data: &[u8]) -> Counters {
    let server = |port| ServerAddress {
        address: SocketAddr::from(([10, 0, 0, 1], port)),
        name: format!("10.0.0.1:{port}"),
        weight: 1,
    };
    let options =
        Options { datagrams: 16, deadline_ns: 50 * MS, on_dead: OnDead::MoveOn, ..Options::default() };
    let mut case = Case {
        driver: Driver::new(options, &[server(1000), server(2000)], 1),
        now_ns: 1,
        tokens: HashSet::new(),
        next: 0,
        sent: Vec::new(),
    };
    let mut input = Input(data);
    case.transmit();
    while let Some(what) = input.byte() {
        case.step(what, &mut input);
        case.transmit();
    }
    case.finish();
    case.driver.counters().clone()
}

impl Case {
    fn step(&mut self, what: u8, input: &mut Input<'_>) {
        match what % 8 {
            0 | 1 => self.submit(what, input),
            2 => self.driver.flush(),
            3 => self.pass(u64::from(what) * 100_000),
            4 | 5 => self.answer(what, input, &[]),
            6 => {
                let length = usize::from(input.byte().unwrap_or(0)) % 8;
                let edits = input.take(3 * length).to_vec();
                self.answer(what, input, &edits);
            }
            _ => {
                let length = usize::from(input.byte().unwrap_or(0));
                let bytes = input.take(length).to_vec();
                self.show(&bytes, SocketAddr::from(([10, 0, 0, 1], 1000)));
            }
        }
    }

    fn submit(&mut self, what: u8, input: &mut Input<'_>) {
        let opcode = Opcode::ALL[usize::from(what / 8) % Opcode::ALL.len()];
        let length = usize::from(input.byte().unwrap_or(1));
        // Mostly short, so that a script has room for many.
        let length = if length < 250 { length % 16 } else { length * 6 };
        let bytes = input.take(length).to_vec();
        let operation = Operation {
            opcode,
            value: &bytes,
            wants_cas: what & 0x80 != 0,
            ..Operation::get(if opcode == Opcode::Noop { b"" } else { &bytes })
        };
        let token = self.next;
        if self.driver.submit(self.now_ns, &operation, token).is_ok() {
            assert!(self.tokens.insert(token));
            self.next += 1;
        }
    }

    fn transmit(&mut self) {
        let sent = &mut self.sent;
        self.driver.transmit(self.now_ns, |to, bytes| {
            assert!(bytes.len() <= 1472);
            sent.push((to, bytes.to_vec()));
            true
        });
        let excess = self.sent.len().saturating_sub(SENT_MAX);
        self.sent.drain(..excess);
    }

    fn show(&mut self, bytes: &[u8], from: SocketAddr) {
        let tokens = &mut self.tokens;
        let mut sink = |ended: Completion<'_>| assert!(tokens.remove(&ended.token));
        self.driver.on_datagram(self.now_ns, bytes, from, &mut sink);
        self.check();
    }

    fn pass(&mut self, span_ns: u64) {
        self.now_ns += span_ns;
        let tokens = &mut self.tokens;
        let mut sink = |ended: Completion<'_>| assert!(tokens.remove(&ended.token));
        self.driver.on_time(self.now_ns, &mut sink);
        self.check();
    }

    fn check(&self) {
        assert!(self.driver.pending() >= self.tokens.len() as u64);
    }

    /// Answers a sent datagram correctly, except for the edits: two bytes of position, bits to
    /// flip.
    fn answer(&mut self, what: u8, input: &mut Input<'_>, edits: &[u8]) {
        let Some(number) = self.sent.len().checked_sub(1 + usize::from(what / 8) % 8) else {
            return;
        };
        let (to, datagram) = self.sent[number].clone();
        let mut reply = match Header::read(&datagram) {
            Ok(header) if header.kind == Kind::DirectoryRequest => directory(&header, &datagram, input),
            Ok(header) => replies(&header, &datagram, input),
            Err(_) => panic!("the client wrote no header"),
        };
        for edit in edits.chunks_exact(3) {
            let at = usize::from(edit[0]) << 8 | usize::from(edit[1]);
            let at = at % reply.len();
            reply[at] ^= edit[2];
        }
        self.show(&reply, to);
    }

    /// Checks that everything ends when no server answers any more.
    fn finish(&mut self) {
        self.driver.flush();
        for _ in 0..20_000 {
            if self.driver.pending() == 0 {
                break;
            }
            self.transmit();
            self.pass(MS);
        }
        assert_eq!(self.driver.pending(), 0, "something never ends");
        assert!(self.tokens.is_empty());
    }
}

fn directory(header: &Header, datagram: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let choice = input.byte().unwrap_or(0);
    if choice >= 0xf0 {
        let mut out = vec![0; Header::BYTES];
        let reply = Header {
            status: Status::Unproven,
            cookie: u64::from(choice - 0xf0),
            ..header.reply(Kind::DirectoryReply)
        };
        reply.write(&mut out);
        return out;
    }
    let first = DirectoryRequest::read(datagram).map_or(0, |request| request.first);
    let facts = Directory {
        hash_seed: u64::from(choice & 1),
        partitions: 1 << (choice % 11),
        cores: 1 + u16::from(choice >> 5),
        stream_port: 0,
        payload_bytes_max: 1232 + u32::from(choice),
        value_bytes_max: 1 << 20,
        ids_window: 1 + u16::from(choice),
        cookie_s: 1,
        addresses: u16::from(choice % 4),
    };
    let mut out = vec![0; datagram.len()];
    let Some(mut writer) = DirectoryWriter::new(&mut out, &facts, first) else {
        return out;
    };
    let cores = u32::from(facts.cores);
    let access = [PartitionAccess::Erew, PartitionAccess::Crew, PartitionAccess::Crcw];
    while writer.next() < facts.page_end(first) {
        let number = writer.next();
        let beyond = number.checked_sub(facts.entries());
        let entry = match number < cores {
            _ if beyond.is_some_and(|beyond| beyond >= cores) => Entry::Address(InterfaceAddress {
                interface: u16::from(choice % 3),
                ip: [10, 0, choice % 2, 1 + number as u8].into(),
            }),
            _ if beyond.is_some() => {
                Entry::Place(CorePlace { port: 1000 + number as u16, interface: u16::from(choice % 3) })
            }
            true => Entry::Core(CoreEntry { port: 1000 + number as u16, node: number as u16 % 2 }),
            false => Entry::Partition(PartitionEntry {
                owner: (number % cores) as u16,
                access: access[usize::from(choice) % 3],
            }),
        };
        if !writer.push(entry) {
            break;
        }
    }
    let reply = Header {
        generation: 1 + u32::from(choice % 4),
        cookie: u64::from(choice),
        ..header.reply(Kind::DirectoryReply)
    };
    let length = writer.finish(&reply);
    out.truncate(length);
    out
}

fn replies(header: &Header, datagram: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let choice = input.byte().unwrap_or(0);
    let mut out = vec![0; 16_384];
    let mut writer = ReplyWriter::new(out.len());
    let requests = Requests::check(datagram, header.count);
    let requests = requests.expect("the client writes good requests");
    for request in requests {
        let status = match usize::from(input.byte().unwrap_or(0)) {
            number @ 0..128 => Status::ALL[number % Status::ALL.len()],
            _ => Status::Ok,
        };
        let opcode = request.opcode;
        if status == Status::Ok && opcode.answers_value() {
            let length = usize::from(choice % 64);
            let cas = request.wants_cas.then_some(9);
            writer.begin_value(&mut out, (opcode, 5, request.hash), cas, length);
            writer.end_value(length, cas.is_some());
        } else {
            writer.push(&mut out, (opcode, status), request.hash, 3);
        }
    }
    let reply = Header {
        generation: 1 + u32::from(choice % 4),
        slow_down: choice & 0x80 != 0,
        pressure: u16::from(choice) << 8,
        cookie: u64::from(choice / 2),
        ..header.reply(Kind::Replies)
    };
    let length = writer.finish(&mut out, &reply);
    out.truncate(length);
    out
}

#[cfg(test)]
mod tests {
    use super::{client, run};
    use crate::random::Random;
    use proptest::prelude::*;

    /// Answers both directories, so that requests flow.
    const KNOWN: [u8; 4] = [4, 0x22, 12, 0x22];

    #[test]
    fn fuzz_client_covers_all_counters() {
        let mut random = Random::new(1);
        let (mut ended, mut bogus, mut late, mut again) = (0, 0, 0, 0);
        for _ in 0..4000 {
            let script: Vec<u8> = (0..400).map(|_| random.next() as u8).collect();
            let counters = run(&[&KNOWN[..], &script].concat());
            ended += counters.completed - counters.timed_out;
            bogus += counters.bogus;
            late += counters.late;
            again += counters.moved + counters.no_room + counters.unproven;
        }
        for count in [ended, bogus, late, again] {
            assert!(count > 300, "{ended} {bogus} {late} {again}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..Default::default() })]

        #[test]
        fn fuzz_client_with_any_script(script in prop::collection::vec(any::<u8>(), 0..600)) {
            client(&script);
        }

        #[test]
        fn fuzz_client_with_known_servers(script in prop::collection::vec(any::<u8>(), 0..600)) {
            client(&[&KNOWN[..], &script].concat());
        }
    }
}
