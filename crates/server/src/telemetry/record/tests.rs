//! Rings and samples.

use micanite_control::Fraction;
use micanite_engine::KeyHash;
use micanite_workload::recording::{Operation, Outcome, Record};

use super::ring::{Ring, Tag};
use super::sample::sampling_number;

fn record(number: u64) -> Record {
    Record {
        key_hash: number,
        time_ms: number as u32,
        value_bytes: Some(number as u32),
        expiry_s: None,
        prefix: 0,
        key_bytes: 9,
        operation: Operation::Set,
        outcome: Outcome::Hit,
    }
}

fn tag(generation: u16, time_us: u64) -> Tag {
    Tag { generation, time_us }
}

/// A prefix of 0 to 249 bytes.
fn prefix(number: u64) -> Vec<u8> {
    vec![number as u8; (number % 250) as usize]
}

#[test]
fn a_ring_returns_the_entries_that_fit() {
    let ring = Ring::default();
    assert!(!ring.push(tag(1, 0), &record(0), b""), "it has no memory yet");
    ring.clear();
    let (mut pushed, mut drained) = (0, 0);
    // Several laps: entries of all lengths lie across its end.
    for _ in 0..5 {
        while ring.push(tag(1, pushed << 16), &record(pushed), &prefix(pushed)) {
            pushed += 1;
        }
        assert!(!ring.push(tag(1, 0), &record(pushed), &[0; 249]));
        ring.drain(1, |found_tag, found, text| {
            assert_eq!((found, text), (record(drained), &*prefix(drained)));
            assert_eq!(found_tag, tag(1, drained << 16));
            drained += 1;
        });
        assert_eq!(drained, pushed);
    }
    assert!(pushed > 20_000, "{pushed}");
}

#[test]
fn entries_of_an_earlier_recording_are_dropped() {
    let ring = Ring::default();
    ring.clear();
    for (generation, number) in [(1, 1), (2, 2), (1, 3), (2, 4)] {
        assert!(ring.push(tag(generation, 0), &record(number), b"user"));
    }
    let mut found = Vec::new();
    ring.drain(2, |_, record, _| found.push(record.key_hash));
    assert_eq!(found, [2, 4]);
    assert!(ring.push(tag(2, 0), &record(5), b""));
    ring.clear();
    ring.drain(2, |_, _, _| panic!("it was cleared"));
}

#[test]
fn a_sample_is_its_fraction_of_every_partition() {
    let keys: Vec<_> =
        (0..200_000u32).map(|number| KeyHash::of(format!("key{number}").as_bytes(), 7)).collect();
    let of = |text: &str| text.parse::<Fraction>().unwrap().hash_max();
    for partition in 0..4 {
        let here = || keys.iter().filter(|key| key.partition(2) == partition);
        let sampled = |limit| here().filter(|key| sampling_number(**key) <= limit).count();
        let all = here().count();
        for (fraction, share) in [("0.01", 0.01), ("0.1", 0.1), ("0.5", 0.5)] {
            let (found, expected) = (sampled(of(fraction)) as f64, share * all as f64);
            let spread = (expected * (1.0 - share)).sqrt();
            assert!((found - expected).abs() < 5.0 * spread, "{found} {expected}");
        }
        assert_eq!(sampled(of("1")), all);
    }
}
