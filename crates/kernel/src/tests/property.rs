//! Runs the program and its model on arbitrary frames, and compares them.

use std::cell::RefCell;
use std::collections::HashSet;

use micanite_engine::{Config, Expiry, Operation, Semantics};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::fixture::{Fixture, PASS, SENT, can_load, datagram, fix_checksums, now_s};
use super::model;

/// Operations before a frame arrives.
#[derive(Clone, Debug)]
enum Change {
    Set(usize, usize, u32, Expiry),
    Delete(usize),
    GiveCas(usize),
}

/// Changes to a frame.
#[derive(Clone, Debug)]
enum Damage {
    Byte(Index, u8),
    Header(usize, u8),
    Length(usize),
    Checksum(u16),
}

const KEYS: usize = 19;
/// Longest line: some datagrams are longer than the program takes.
const LINE_BYTES_MAX: usize = 1600;

/// Returns keys of many lengths that share a prefix.
fn key(number: usize) -> String {
    let length = [1, 2, 3, 4, 7, 8, 9, 16, 17, 33, 64, 65, 97, 128, 129, 144, 240, 241, 250][number];
    "kKkKkKkK".repeat(32)[..length].to_owned()
}

fn change() -> impl Strategy<Value = Change> {
    let ends = select(vec![Expiry::NEVER, Expiry::NEVER, Expiry::PAST, Expiry(now_s() + 1000)]);
    let length = prop_oneof![4 => 0..100usize, 2 => 1300..1400usize, 1 => 100..3000usize];
    prop_oneof![
        6 => (0..KEYS, length, any::<u32>(), ends).prop_map(|(key, bytes, flags, end)| {
            Change::Set(key, bytes, flags >> (flags % 32), end)
        }),
        1 => (0..KEYS).prop_map(Change::Delete),
        3 => (0..KEYS).prop_map(Change::GiveCas),
    ]
}

fn line() -> impl Strategy<Value = String> {
    let odd = select(vec!["gat", "mg", " get", "GET", ""]);
    let verb = prop_oneof![6 => Just("get"), 3 => Just("gets"), 1 => odd];
    let word = prop_oneof![
        40 => (0..KEYS).prop_map(key),
        1 => Just(String::new()),
        1 => select(vec!["\t", "a\r", "none", "\u{e9}\u{df}", "\0", "a\nb"]).prop_map(str::to_owned),
    ];
    let odd = select(vec!["", "\r", "\n\n", "\r\nget k\r\n", "\t\r\n"]);
    let end = prop_oneof![6 => Just("\r\n"), 2 => Just("\n"), 1 => Just(" \r\n"), 1 => odd];
    let words = prop_oneof![
        4 => prop::collection::vec(word.clone(), 1..3),
        1 => prop::collection::vec(word, 0..70),
    ];
    (verb, words, end).prop_map(|(verb, words, end)| {
        let mut line = format!("{verb} {}", words.join(" "));
        // The kernel runs programs on frames of one page.
        while line.len() > LINE_BYTES_MAX {
            line.pop();
        }
        line + end
    })
}

fn addresses() -> impl Strategy<Value = (&'static str, &'static str)> {
    let v4 = ["10.0.0.1:40000", "10.255.0.1:1024"];
    let v6 = ["[fd00::1]:40000", "[fdff:1::9]:65535"];
    let odd = [
        ("11.0.0.1:40000", "10.0.0.2:11211"),
        ("10.0.0.1:1023", "10.0.0.2:11211"),
        ("10.0.0.1:11211", "10.0.0.2:11211"),
        ("10.0.0.1:40000", "10.0.0.3:11211"),
        ("10.0.0.1:40000", "10.0.0.2:11212"),
        ("127.0.0.1:40000", "10.0.0.2:11211"),
        ("224.0.0.1:40000", "10.0.0.2:11211"),
        ("[fe00::1]:40000", "[fd00::2]:11211"),
        ("[::ffff:10.0.0.1]:40000", "[::ffff:10.0.0.2]:11211"),
        ("[::ffff:10.0.0.1]:40000", "[fd00::2]:11211"),
        ("[fd00::1]:40000", "[::ffff:10.0.0.2]:11211"),
        ("[ff02::1]:40000", "[fd00::2]:11211"),
    ];
    prop_oneof![
        6 => select(v4.to_vec()).prop_map(|from| (from, "10.0.0.2:11211")),
        3 => select(v6.to_vec()).prop_map(|from| (from, "[fd00::2]:11211")),
        1 => select(odd.to_vec()),
    ]
}

fn damage() -> impl Strategy<Value = (Vec<Damage>, bool)> {
    let one = prop_oneof![
        2 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        3 => (0..64usize, any::<u8>()).prop_map(|(at, byte)| Damage::Header(at, byte)),
        2 => (0..200usize).prop_map(Damage::Length),
        1 => select(vec![0, 0xffff]).prop_map(Damage::Checksum),
    ];
    let some = prop_oneof![3 => Just(Vec::new()), 2 => prop::collection::vec(one, 1..3)];
    (some, any::<bool>())
}

/// Returns a priority tag, a VLAN tag, or no tag.
fn tag() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => Just(vec![]),
        1 => Just(vec![0x81, 0, 0xe0, 0]),
        1 => select(vec![vec![0x81, 0, 0, 5], vec![0x81, 0, 1, 0], vec![0x88, 0xa8, 0, 0]]),
    ]
}

prop_compose! {
    fn frame()(
        (from, to) in addresses(),
        line in line(),
        start in any::<[u8; 3]>(),
        padding in 0..20usize,
        total in prop_oneof![9 => Just(1), 1 => 0..260u16],
        tag in tag(),
        (damages, has_valid_checksums) in damage(),
    ) -> Vec<u8> {
        let total = total.to_be_bytes();
        let header = [0x12, start[0], 0, start[1] & 1, total[0], total[1], 0, start[2]];
        let mut frame = datagram(from, to, &[&header, line.as_bytes()].concat());
        frame.extend(vec![0xee; padding]);
        frame.splice(12..12, tag);
        for damage in damages {
            match damage {
                Damage::Byte(at, byte) => *at.get_mut(&mut frame) = byte,
                Damage::Header(at, byte) => {
                    let at = at.min(frame.len() - 1);
                    frame[at] = byte;
                }
                Damage::Length(bytes) => frame.resize(bytes.max(14), 0),
                Damage::Checksum(sum) => {
                    let at = if frame[12..14] == [8, 0] { 40 } else { 60 };
                    if let Some(place) = frame.get_mut(at..at + 2) {
                        place.copy_from_slice(&sum.to_be_bytes());
                    }
                    continue;
                }
            }
            if has_valid_checksums {
                fix_checksums(&mut frame);
            }
        }
        frame
    }
}

/// Checks the property over one cache, which keeps its contents between cases.
fn holds(config: Config) {
    if !can_load() {
        return;
    }
    let is_store = config.semantics == Semantics::Store;
    let state = RefCell::new((Fixture::new(config), HashSet::new()));
    let answered = RefCell::new(0);
    let cases = ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() };
    let all = (prop::collection::vec(change(), 0..3), frame());
    proptest!(cases, |((changes, frame) in all)| {
        let (fixture, given) = &mut *state.borrow_mut();
        for change in changes {
            apply(fixture, given, &change, is_store);
        }
        let (verdict, out) = fixture.run(&frame);
        let counters = fixture.counters();
        match model::reply(fixture, given, &frame) {
            Some(reply) => {
                *answered.borrow_mut() += 1;
                prop_assert_eq!(verdict, SENT, "passed on: {:?} {:?}", frame, counters);
                prop_assert_eq!(out, reply, "to {:?}", frame);
            }
            None => prop_assert_eq!((verdict, &out), (PASS, &frame)),
        }
    });
    let (answered, hits) = (answered.into_inner(), state.borrow().0.counters().hits);
    let enough = answered > 300 && hits > 150;
    assert!(enough, "{answered} answered, {hits} found: that says too little");
}

fn apply(fixture: &mut Fixture, given: &mut HashSet<Vec<u8>>, change: &Change, is_store: bool) {
    match *change {
        Change::Set(number, bytes, flags, ends) => {
            let key = key(number);
            let value: Vec<u8> = (0..bytes).map(|at| (at * 31 + bytes) as u8).collect();
            fixture.set(&key, &value, flags, ends);
            match is_store {
                true => given.insert(key.into_bytes()),
                false => given.remove(key.as_bytes()),
            };
        }
        Change::Delete(number) => {
            fixture.execute(key(number).as_bytes(), Operation::Delete);
            given.remove(key(number).as_bytes());
        }
        Change::GiveCas(number) => {
            let key = key(number).into_bytes();
            if fixture.execute(&key, Operation::Get { cas: true }).is_some() {
                given.insert(key);
            }
        }
    }
}

#[test]
fn any_frame_matches_the_model() {
    holds(Config { memory_bytes: 16 << 20, ..Config::default() });
}

#[test]
fn any_frame_matches_the_model_with_a_store() {
    holds(Config { memory_bytes: 16 << 20, semantics: Semantics::Store, ..Config::default() });
}
