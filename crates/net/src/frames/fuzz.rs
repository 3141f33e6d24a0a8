//! Body of the fuzz target: takes any bytes and panics when an invariant is broken.

use std::net::SocketAddr;

use super::naive::{self, Corrections};
use super::testing::MemoryQueue;
use super::{Found, FramePort, Header, Local, MacAddress, NoHeader, ReceiveChecksums, ReplyTo, parse};
use crate::frames::Neighbours;

const MAC: MacAddress = [2, 0, 0, 0, 0, 2];
const PAYLOAD_BYTES_MAX: usize = 1472;
const FRAME_BYTES_MAX: usize = 1600;
const PEERS: [&str; 4] = ["10.0.0.1:4000", "[fd00::1]:4000", "192.0.2.1:9", "[ff02::1]:9"];

/// Passes arbitrary frames through a port that replies to datagrams. Checks that the port finds the same
/// datagrams as the slow parser, that every reply is valid and returns to its requester, that nothing
/// else leaves but neighbour replies, that no frame is lost, and that the counters add up.
///
/// `data` is a byte for the port ([`Station::new`]) and a sequence of frames. Each frame has a byte for
/// the way it arrives ([`How`]), two for its length, and that many bytes, or the rest. The first byte of
/// a payload selects the reply.
pub fn frames(data: &[u8]) {
    if !data.is_empty() {
        run(data).check_end();
    }
}

fn run(data: &[u8]) -> Station {
    let (setup, mut rest) = (data[0], &data[1..]);
    let mut station = Station::new(setup);
    while let Some((how, bytes)) = next(&mut rest) {
        let mut frame = bytes[..bytes.len().min(FRAME_BYTES_MAX)].to_vec();
        naive::correct(&mut frame, how.corrections);
        station.arrives(frame);
        if how.ends_round {
            station.rounds();
        }
        if how.asks {
            station.ask(how.peer);
        }
    }
    station.rounds();
    station
}

struct How {
    corrections: Corrections,
    ends_round: bool,
    asks: bool,
    peer: usize,
}

fn next<'d>(rest: &mut &'d [u8]) -> Option<(How, &'d [u8])> {
    let (&[how, low, high], behind) = rest.split_first_chunk()?;
    let bytes = usize::from(u16::from_le_bytes([low, high])).min(behind.len());
    let (bytes, behind) = behind.split_at(bytes);
    *rest = behind;
    let corrections = match how & 3 {
        0 => Corrections::Nothing,
        1 => Corrections::Sums,
        2 => Corrections::Lengths,
        _ => Corrections::PartialSum,
    };
    let how = How {
        corrections,
        ends_round: how & 4 != 0,
        asks: how & 8 != 0,
        peer: usize::from(how >> 4) % PEERS.len(),
    };
    Some((how, bytes))
}

struct Station {
    port: FramePort<MemoryQueue>,
    checksums: ReceiveChecksums,
    has_neighbours: bool,
    buffers: usize,
    arrived: u64,
    now_ms: u64,
    /// Expected datagrams. A neighbour request in a burst moves the last of them forward.
    founds: Vec<Found>,
    /// Expected replies, in any order: from, to, payload.
    replies: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    committed: u64,
    no_frame: u64,
    questions: u64,
    others_sent: u64,
}

impl Station {
    fn new(setup: u8) -> Self {
        let buffers = [1, 2, 8, 40][usize::from(setup & 3)];
        let room_bytes = if setup & 4 == 0 { 4096 } else { 2048 };
        let has_neighbours = setup & 8 == 0;
        let checksums = match setup >> 4 & 3 {
            0 | 1 => ReceiveChecksums::Unverified,
            2 => ReceiveChecksums::UnverifiedOrPartial,
            _ => ReceiveChecksums::Verified,
        };
        let mut queue = MemoryQueue::new(buffers, room_bytes, 64);
        queue.checksums = checksums;
        let own = [("10.0.0.2", 24), ("fd00::2", 64)]
            .map(|(address, prefix)| (address.parse().expect("an address"), prefix));
        let local =
            Local { addresses: own.iter().map(|(address, _)| *address).collect(), ports: 11300..=11303 };
        let mut port = FramePort::new(queue, local, PAYLOAD_BYTES_MAX);
        if has_neighbours {
            port = port.with_neighbours(Neighbours::new(MAC, &own, "10.0.0.254".parse().ok()));
        }
        Self {
            port,
            checksums,
            has_neighbours,
            buffers,
            arrived: 0,
            now_ms: 0,
            founds: Vec::new(),
            replies: Vec::new(),
            committed: 0,
            no_frame: 0,
            questions: 0,
            others_sent: 0,
        }
    }

    fn arrives(&mut self, frame: Vec<u8>) {
        self.arrived += 1;
        self.founds.extend(naive::parse(&frame, self.checksums).filter(is_ours));
        self.port.queue_mut().arriving.push_back(frame);
    }

    /// Runs rounds until everything was received.
    fn rounds(&mut self) {
        while !self.port.queue().arriving.is_empty() {
            let received = self.port.recv().expect("the queue never fails");
            let (datagrams, mut replies) = self.port.split();
            let mut seen = 0;
            for datagram in datagrams {
                seen += 1;
                let at = self.founds.iter().position(|found| *found == datagram.found);
                self.founds.remove(at.expect("an unexpected datagram"));
                let back = Header::of(datagram.frame, &datagram.found).flipped();
                assert_eq!(Header::from_bytes(back.as_bytes()), Some(back));
                let kind = datagram.bytes.first().copied().unwrap_or(1);
                let (to, times) = match kind & 3 {
                    0 => continue,
                    1 => (ReplyTo::Datagram(datagram.number), 1),
                    2 => (ReplyTo::Datagram(datagram.number), 2),
                    _ => (ReplyTo::Header(&back), 1 + usize::from(kind) % 40),
                };
                for _ in 0..times {
                    let bytes = reply_to(datagram.bytes);
                    let has_frame = replies.open(to);
                    replies.slot()[..bytes.len()].copy_from_slice(&bytes);
                    if kind & 4 != 0 {
                        replies.abandon();
                        continue;
                    }
                    replies.commit(bytes.len());
                    self.committed += 1;
                    self.no_frame += u64::from(!has_frame);
                    if has_frame {
                        let found = datagram.found;
                        let reply = (found.destination, found.source, bytes);
                        self.replies.push(reply);
                    }
                }
                // The request is still intact.
                let again = parse(datagram.frame, self.checksums);
                assert_eq!(again.ok(), Some(datagram.found));
            }
            assert_eq!(seen, received);
            self.port.send().expect("the queue never fails");
            self.check_sent();
        }
        assert!(self.founds.is_empty(), "a datagram was not found");
        assert!(self.replies.is_empty(), "a reply did not leave");
    }

    fn ask(&mut self, peer: usize) {
        self.now_ms += 400;
        let to: SocketAddr = PEERS[peer].parse().expect("an address");
        let header = self.port.header_to(11300, to, self.now_ms);
        match header {
            Ok(header) => {
                let stations = &header.as_bytes()[..12];
                assert!(stations[0] & 1 == 0 && stations[..6] != MAC && stations[6..] == MAC);
            }
            Err(NoHeader::NoWay) => assert!(peer >= 2 || !self.has_neighbours),
            Err(NoHeader::Asked) => assert!(peer <= 2 && self.has_neighbours),
        }
        self.questions += 1;
        self.check_sent();
    }

    fn check_sent(&mut self) {
        for frame in self.port.queue_mut().sent.drain(..) {
            let Ok(found) = parse(&frame, ReceiveChecksums::Unverified) else {
                // A neighbour message.
                assert_eq!(frame[6..12], MAC);
                assert!(frame[0] & 1 == 0 || frame.len() <= 90);
                self.others_sent += 1;
                continue;
            };
            let start = usize::from(found.payload_start);
            assert_eq!(frame.len(), start + usize::from(found.payload_bytes));
            let reply = (found.source, found.destination, frame[start..].to_vec());
            let at = self.replies.iter().position(|expected| *expected == reply);
            self.replies.swap_remove(at.expect("an unexpected reply"));
        }
    }

    fn check_end(mut self) {
        assert_eq!(self.port.recv().expect("the queue never fails"), 0);
        assert_eq!(self.port.queue().free_buffers(), self.buffers);
        let counters = self.port.counters();
        let refused = [
            counters.not_ours,
            counters.fragments,
            counters.options,
            counters.bad_lengths,
            counters.bad_checksums,
            counters.bad_sources,
        ];
        assert_eq!(counters.frames, self.arrived);
        assert_eq!(counters.frames, counters.datagrams + refused.iter().sum::<u64>());
        assert_eq!(counters.no_frame, self.no_frame);
        assert_eq!(counters.reused + counters.copied + counters.no_frame, self.committed);
        assert!(self.others_sent >= counters.neighbour_answers);
        assert!(self.others_sent <= counters.neighbour_answers + self.questions);
    }
}

fn is_ours(found: &Found) -> bool {
    let is_own = |address: SocketAddr| {
        let own = ["10.0.0.2", "fd00::2"];
        own.contains(&address.ip().to_string().as_str())
    };
    let port = found.destination.port();
    is_own(found.destination) && !is_own(found.source) && (11300..=11303).contains(&port)
}

/// Returns the reply to a datagram: its reverse, or a much longer one.
fn reply_to(bytes: &[u8]) -> Vec<u8> {
    if bytes.first().is_some_and(|byte| byte & 8 != 0) {
        return vec![7; PAYLOAD_BYTES_MAX];
    }
    let backwards = bytes.iter().rev().copied();
    backwards.take(PAYLOAD_BYTES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn seeds() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/corpus/frames");
        let entries = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let read = files.iter().map(|file| std::fs::read(file).unwrap());
        read.collect()
    }

    #[test]
    fn fuzz_frames_on_its_seeds() {
        let seeds = seeds();
        assert!(seeds.len() >= 10);
        for seed in seeds {
            for setup in 0..64 {
                frames(&[&[setup], &seed[1..]].concat());
            }
            for cut in 1..20 {
                frames(&seed[..seed.len() * cut / 20]);
            }
        }
    }

    /// Datagrams behind a neighbour request in one burst are all found.
    #[test]
    fn fuzz_frames_on_pairs_of_seeds_in_one_round() {
        let seeds = seeds();
        for (first, second) in seeds.iter().flat_map(|one| seeds.iter().map(move |two| (one, two))) {
            let mut input = vec![50];
            let both = [&first[1..], &second[1..]].concat();
            let mut rest = both.as_slice();
            while let Some((&[how, low, high], _)) = rest.split_first_chunk() {
                let (_, bytes) = next(&mut rest).expect("a frame");
                let ends_round = 4;
                input.extend_from_slice(&[how & !ends_round, low, high]);
                input.extend_from_slice(bytes);
            }
            frames(&input);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

        #[test]
        fn fuzz_frames_on_mutated_seeds(
            choice in any::<(prop::sample::Index, prop::sample::Index)>(),
            setup in any::<u8>(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..5, 0usize..40), 0..10),
        ) {
            let seeds = seeds();
            let mut input = seeds[choice.0.index(seeds.len())].clone();
            input[0] = setup;
            for (at, kind, with) in edits {
                let at = 1 + at.index(input.len());
                let end = input.len().min(at + with);
                let at = at.min(end);
                match kind {
                    0 => drop(input.splice(at..end, std::iter::empty())),
                    1 => drop(input.splice(at..end.min(at + 1), std::iter::once(with as u8 * 6))),
                    2 => input[at..end].fill(0xff),
                    3 => {
                        let again = input[at..end].to_vec();
                        input.splice(at..at, again);
                    }
                    _ => input.extend_from_slice(&seeds[choice.1.index(seeds.len())][1..]),
                }
            }
            frames(&input);
        }
    }

    /// The seeds reach replies of both kinds, and neighbour answers.
    #[test]
    fn fuzz_frames_covers_replies_and_answers() {
        let mut counters = [0; 4];
        for seed in seeds() {
            let of = run(&seed).port.counters();
            let seen = [of.reused, of.copied, of.no_frame, of.neighbour_answers];
            for (sum, count) in counters.iter_mut().zip(seen) {
                *sum += count;
            }
        }
        assert!(counters.iter().all(|count| *count > 0), "{counters:?}");
    }
}
