//! Refused frames, and comparison with the slow parser.

use std::net::SocketAddr;

use proptest::prelude::*;

use super::naive::{self, Corrections};
use super::*;

const PAYLOAD: &[u8] = b"sixteen bytes...and 3";

/// Builds an IPv4 datagram from 10.0.0.1:4000 to 10.0.0.2:11300, with valid checksums.
fn v4() -> Vec<u8> {
    naive::datagram("10.0.0.1:4000", "10.0.0.2:11300", &[], PAYLOAD)
}

fn v6() -> Vec<u8> {
    naive::datagram("[fd00::1]:4000", "[fd00::2]:11300", &[], PAYLOAD)
}

/// Replaces bytes, then corrects the checksums.
fn with(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    naive::correct(&mut frame, Corrections::Sums);
    frame
}

fn verdict(frame: &[u8]) -> Result<Found, NotTaken> {
    parse(frame, ReceiveChecksums::Unverified)
}

#[track_caller]
fn refused(frame: &[u8], why: NotTaken) {
    for checksums in
        [ReceiveChecksums::Unverified, ReceiveChecksums::UnverifiedOrPartial, ReceiveChecksums::Verified]
    {
        assert_eq!(parse(frame, checksums), Err(why));
    }
}

#[test]
fn datagrams_are_found_with_and_without_a_tag() {
    for (from, to, ip_bytes) in
        [("10.0.0.1:4000", "10.0.0.2:11300", 20), ("[fd00::1]:4000", "[fd00::2]:11300", 40)]
    {
        for tag in [&[][..], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0x0f, 0xff]] {
            for payload in [PAYLOAD, b""] {
                let mut frame = naive::datagram(from, to, tag, payload);
                let expected = Found {
                    source: from.parse::<SocketAddr>().unwrap(),
                    destination: to.parse::<SocketAddr>().unwrap(),
                    link_bytes: 14 + tag.len() as u8,
                    payload_start: (14 + tag.len() + ip_bytes + 8) as u8,
                    payload_bytes: payload.len() as u16,
                };
                assert_eq!(verdict(&frame), Ok(expected));
                // Short frames are padded; the padding is ignored.
                frame.extend([0xee; 30]);
                assert_eq!(verdict(&frame), Ok(expected));
            }
        }
    }
}

#[test]
fn frames_cut_off_anywhere_are_refused() {
    for whole in [v4(), v6(), naive::datagram("1.2.3.4:5", "6.7.8.9:1", &[0x81, 0, 0, 7], b"")] {
        for bytes in 0..whole.len() {
            refused(&whole[..bytes], NotTaken::Length);
        }
    }
}

#[test]
fn frames_other_than_udp_over_ip_are_refused() {
    for kind in [0x0806u16, 0x88cc, 0x0000, 0x05dc, 0x8847, 0xffff] {
        refused(&with(v4(), 12, &kind.to_be_bytes()), NotTaken::OtherProtocol);
    }
    for protocol in [1, 6, 2, 50, 132] {
        refused(&with(v4(), 23, &[protocol]), NotTaken::OtherProtocol);
        refused(&with(v6(), 20, &[protocol]), NotTaken::OtherProtocol);
    }
    refused(&with(v6(), 20, &[58]), NotTaken::OtherProtocol);
    // No next header.
    refused(&with(v6(), 20, &[59]), NotTaken::OtherProtocol);
}

#[test]
fn two_tags_are_refused() {
    let tags = [0x88, 0xa8, 0, 1, 0x81, 0, 0, 7];
    let frame = naive::datagram("10.0.0.1:4000", "10.0.0.2:11300", &tags, PAYLOAD);
    refused(&frame, NotTaken::OtherProtocol);
}

#[test]
fn fragments_are_refused_the_first_the_middle_and_the_last() {
    for flags in [0x2000u16, 0x2001, 0x20b9, 0x00b9, 0x1fff, 0x0001, 0x6000] {
        refused(&with(v4(), 20, &flags.to_be_bytes()), NotTaken::Fragment);
    }
    // All values of "do not fragment" and the reserved bit are accepted.
    for flags in [0x0000u16, 0x4000, 0x8000] {
        assert!(verdict(&with(v4(), 20, &flags.to_be_bytes())).is_ok());
    }
    // An "atomic" fragment is refused, too.
    refused(&with(v6(), 20, &[44]), NotTaken::Fragment);
}

#[test]
fn options_and_extension_headers_are_refused() {
    for words in 6..=15 {
        refused(&with(v4(), 14, &[0x40 | words]), NotTaken::Options);
    }
    for next in [0, 43, 51, 60, 135, 139, 140] {
        refused(&with(v6(), 20, &[next]), NotTaken::Options);
    }
}

#[test]
fn wrong_versions_and_short_headers_are_refused() {
    for first in [0x00, 0x05, 0x35, 0x40, 0x44, 0x55, 0x65, 0xf5] {
        refused(&with(v4(), 14, &[first]), NotTaken::Length);
    }
    for first in [0x00, 0x40, 0x45, 0x50, 0x70, 0xf0] {
        refused(&with(v6(), 14, &[first]), NotTaken::Length);
    }
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let udp_bytes = 8 + PAYLOAD.len() as u16;
    for wrong in [0, 1, 7, 8, udp_bytes - 1, udp_bytes + 1, 0xffff] {
        refused(&with(v4(), 38, &wrong.to_be_bytes()), NotTaken::Length);
        refused(&with(v6(), 58, &wrong.to_be_bytes()), NotTaken::Length);
        // The result does not depend on the frame's length.
        let mut padded = with(v4(), 38, &wrong.to_be_bytes());
        padded.extend([0; 100]);
        refused(&padded, NotTaken::Length);
    }
    for wrong in [0, 19, 20, 27, udp_bytes + 19, udp_bytes + 21, 0xffff] {
        refused(&with(v4(), 16, &wrong.to_be_bytes()), NotTaken::Length);
    }
    // 0 marks a jumbogram.
    for wrong in [0, 7, udp_bytes - 1, udp_bytes + 1, 0xffff] {
        refused(&with(v6(), 18, &wrong.to_be_bytes()), NotTaken::Length);
    }
}

#[test]
fn wrong_checksums_are_refused_for_any_byte() {
    for (frame, udp) in [(v4(), 34), (v6(), 54)] {
        for at in udp..frame.len() {
            let mut broken = frame.clone();
            broken[at] ^= 0x40;
            // The length is checked before the checksum.
            let is_length = (udp + 4..udp + 6).contains(&at);
            let why = if is_length { NotTaken::Length } else { NotTaken::Checksum };
            assert_eq!(verdict(&broken), Err(why), "{at}");
        }
        // The checksum covers the addresses, too.
        let mut broken = frame.clone();
        broken[udp - 1] ^= 1;
        assert_eq!(verdict(&broken), Err(NotTaken::Checksum));
    }
    for at in [15, 18, 19, 22, 24, 25, 26, 30] {
        let mut broken = v4();
        broken[at] ^= 1;
        refused(&broken, NotTaken::Checksum);
    }
}

#[test]
fn only_verified_checksums_are_skipped() {
    for (mut frame, udp) in [(v4(), 34), (v6(), 54)] {
        frame[udp + 6] ^= 1;
        assert!(parse(&frame, ReceiveChecksums::Verified).is_ok());
        for checksums in [ReceiveChecksums::Unverified, ReceiveChecksums::UnverifiedOrPartial] {
            assert_eq!(parse(&frame, checksums), Err(NotTaken::Checksum));
        }
    }
}

#[test]
fn no_sum_is_permitted_over_ipv4_only() {
    let (mut over_v4, mut over_v6) = (v4(), v6());
    over_v4[40..42].fill(0);
    over_v6[60..62].fill(0);
    assert!(verdict(&over_v4).is_ok());
    assert_eq!(verdict(&over_v6), Err(NotTaken::Checksum));
}

#[test]
fn a_sum_of_zero_is_sent_as_all_ones() {
    // Chooses a payload that leads to a checksum of zero.
    for (from, to, udp) in
        [("10.0.0.1:4000", "10.0.0.2:11300", 34), ("[fd00::1]:4000", "[fd00::2]:11300", 54)]
    {
        let zero = naive::datagram(from, to, &[], &[0, 0]);
        let payload = [zero[udp + 6], zero[udp + 7]];
        let frame = naive::datagram(from, to, &[], &payload);
        assert_eq!(frame[udp + 6..udp + 8], [0xff, 0xff]);
        assert!(verdict(&frame).is_ok());
    }
}

#[test]
fn partial_checksums_pass_only_from_local_senders() {
    for (mut frame, udp) in [(v4(), 34), (v6(), 54)] {
        naive::correct(&mut frame, Corrections::PartialSum);
        let partial = parse(&frame, ReceiveChecksums::UnverifiedOrPartial);
        assert!(partial.is_ok());
        assert_eq!(verdict(&frame), Err(NotTaken::Checksum));
        frame[udp + 7] ^= 1;
        let partial = parse(&frame, ReceiveChecksums::UnverifiedOrPartial);
        assert_eq!(partial, Err(NotTaken::Checksum));
    }
}

#[test]
fn impossible_sources_are_refused() {
    for source in [
        [224, 0, 0, 1],
        [239, 255, 255, 255],
        [255; 4],
        [0; 4],
        [0, 1, 2, 3],
        [127, 0, 0, 1],
        [127, 255, 0, 9],
    ] {
        refused(&with(v4(), 26, &source), NotTaken::Source);
    }
    for source in ["ff02::1", "::", "::1", "::ffff:10.0.0.1", "::10.0.0.1"] {
        let source: std::net::Ipv6Addr = source.parse().unwrap();
        refused(&with(v6(), 22, &source.octets()), NotTaken::Source);
    }
    refused(&with(v4(), 34, &[0, 0]), NotTaken::Source);
    refused(&with(v6(), 54, &[0, 0]), NotTaken::Source);
    // The sending station is a group.
    refused(&with(v4(), 6, &[1]), NotTaken::Source);
}

#[test]
fn multicast_frames_are_refused() {
    refused(&with(v4(), 0, &[0xff; 6]), NotTaken::OtherProtocol);
    refused(&with(v6(), 0, &[0x33, 0x33, 0, 0, 0, 1]), NotTaken::OtherProtocol);
}

#[test]
fn own_sources_and_other_destinations_are_refused() {
    let local = Local {
        addresses: vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()],
        ports: 11300..=11301,
    };
    let mut port = FramePort::new(testing::MemoryQueue::new(40, 2048, 64), local, 500);
    let arriving = [
        naive::datagram("10.0.0.2:9", "10.0.0.2:11300", &[], b""),
        naive::datagram("[fd00::2]:11301", "[fd00::2]:11300", &[], b""),
        naive::datagram("10.0.0.1:9", "10.0.0.3:11300", &[], b""),
        naive::datagram("10.0.0.1:9", "10.0.0.2:11299", &[], b""),
        naive::datagram("10.0.0.1:9", "10.0.0.2:11302", &[], b""),
        naive::datagram("10.0.0.1:9", "10.0.0.2:11301", &[], b""),
    ];
    port.queue_mut().arriving.extend(arriving);
    assert_eq!(port.recv().unwrap(), 1);
    let counters = port.counters();
    assert_eq!((counters.bad_sources, counters.not_ours), (2, 3));
}

/// Edits a datagram and then corrects parts of it, because mutations rarely have a valid checksum.
fn edited() -> impl Strategy<Value = Vec<u8>> {
    let base = (any::<bool>(), 0usize..3, prop::collection::vec(any::<u8>(), 0..80));
    let interesting = prop::sample::select(&[0u8, 1, 4, 5, 6, 8, 17, 20, 44, 58, 0x45, 0x60, 0x81, 0xff][..]);
    let edit = (any::<prop::sample::Index>(), prop_oneof![any::<u8>(), interesting]);
    let edits = prop::collection::vec(edit, 0..4);
    let corrections = prop::sample::select(
        &[Corrections::Nothing, Corrections::Sums, Corrections::Lengths, Corrections::PartialSum][..],
    );
    (base, edits, corrections, -4isize..8).prop_map(
        |((is_v6, tags, payload), edits, corrections, padding)| {
            let tags = &[0x81, 0, 0, 7, 0x81, 0, 0, 8][..4 * tags];
            let mut frame = match is_v6 {
                true => naive::datagram("[fd00::1]:4000", "[fd00::2]:11300", tags, &payload),
                false => naive::datagram("10.0.0.1:4000", "10.0.0.2:11300", tags, &payload),
            };
            for (at, byte) in edits {
                // Mostly in the headers.
                let at = at.index(frame.len().min(80));
                frame[at] = byte;
            }
            frame.resize(frame.len().saturating_add_signed(padding), 0xee);
            naive::correct(&mut frame, corrections);
            frame
        },
    )
}

fn check(frame: &[u8]) {
    for checksums in
        [ReceiveChecksums::Unverified, ReceiveChecksums::UnverifiedOrPartial, ReceiveChecksums::Verified]
    {
        let found = parse(frame, checksums);
        assert_eq!(found.ok(), naive::parse(frame, checksums), "{found:?}");
        if let Ok(found) = found {
            let link = usize::from(found.link_bytes);
            let end = usize::from(found.payload_start) + usize::from(found.payload_bytes);
            let packet = match found.source {
                SocketAddr::V4(_) => u16::from_be_bytes([frame[link + 2], frame[link + 3]]),
                SocketAddr::V6(_) => 40 + u16::from_be_bytes([frame[link + 4], frame[link + 5]]),
            };
            assert!(end == link + usize::from(packet) && end <= frame.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn edited_datagrams_match_the_naive_parser(frame in edited()) {
        check(&frame);
    }

    #[test]
    fn any_bytes_match_the_naive_parser(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&frame);
    }
}

/// Edits in the property above reach both verdicts, and every reason.
#[test]
fn edits_of_datagrams_reach_every_verdict() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..4000 {
        let frame = edited().new_tree(&mut runner).unwrap().current();
        seen.insert(format!("{:?}", verdict(&frame).map(|_| ())));
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}
