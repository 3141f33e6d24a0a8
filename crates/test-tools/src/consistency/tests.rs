//! The checker itself: what is right passes, and every kind of mistake is found.

use std::convert::Infallible;

use super::content::{Operation, operation, parse, push_value};
use super::history::{Absence, History, Wrong};
use super::reply::{Item, parse as parse_reply};

const KEYS: u32 = 64;

/// The first operations of a key from `from` on that are like this.
fn first(key: u32, from: u64, is_like: impl Fn(Operation) -> bool) -> u64 {
    (from..).find(|sequence| is_like(operation(key, *sequence))).unwrap()
}

fn is_set(operation: Operation) -> bool {
    matches!(operation, Operation::Set { .. })
}

fn value(key: u32, sequence: u64, expiry_s: Option<u32>) -> (Vec<u8>, u32) {
    let mut value = Vec::new();
    let (Operation::Set { bytes, flags } | Operation::SetExpiring { bytes, flags }) =
        operation(key, sequence)
    else {
        panic!("{sequence} writes no value");
    };
    push_value(&mut value, key, sequence, bytes, expiry_s);
    (value, flags)
}

/// A history in which a key has had so many operations, all of them acknowledged.
fn after(key: u32, operations: u64) -> History {
    let history = History::new(KEYS, false);
    for _ in 0..operations {
        let issued = history.issue(key);
        history.acknowledge(key, issued);
    }
    history
}

#[test]
fn every_byte_of_a_value_counts() {
    for sequence in 1..300 {
        if !is_set(operation(3, sequence)) {
            continue;
        }
        let (mut bytes, flags) = value(3, sequence, None);
        assert_eq!(parse(3, &bytes, flags).unwrap(), (sequence, None));
        assert!(parse(4, &bytes, flags).is_err(), "another key's");
        assert!(parse(3, &bytes, flags ^ 1).is_err(), "other flags");
        assert!(parse(3, &bytes[..bytes.len() - 1], flags).is_err(), "cut off");
        for place in 0..bytes.len() {
            bytes[place] ^= 1;
            assert!(parse(3, &bytes, flags).is_err(), "byte {place} of operation {sequence}");
            bytes[place] ^= 1;
        }
    }
}

#[test]
fn halves_of_two_values_of_a_length_are_torn() {
    let sequence = first(0, 1, is_set);
    let same = |other: &u64| operation(0, *other) != operation(0, sequence) && is_set(operation(0, *other));
    let (one, flags) = value(0, sequence, None);
    let other = (sequence + 1..)
        .filter(same)
        .map(|other| value(0, other, None))
        .find(|(other, _)| other.len() == one.len());
    let torn = [&one[..8], &other.unwrap().0[8..]].concat();
    assert!(torn == one || parse(0, &torn, flags).is_err());
}

#[test]
fn overwritten_values_are_stale_and_later_ones_early() {
    let second = first(0, first(0, 1, is_set) + 1, is_set);
    let history = after(0, second);
    let before = history.before(0, 0);
    let (now, flags) = value(0, second, None);
    history.judge_value(0, &before, &now, flags).unwrap();
    let (old, flags) = value(0, first(0, 1, is_set), None);
    assert!(matches!(history.judge_value(0, &before, &old, flags), Err(Wrong::Stale { .. })));
    let (next, flags) = value(0, first(0, second + 1, is_set), None);
    assert!(matches!(history.judge_value(0, &before, &next, flags), Err(Wrong::Early { .. })));
}

#[test]
fn values_never_get_older() {
    let (one, two) = (first(0, 1, is_set), first(0, first(0, 1, is_set) + 1, is_set));
    let history = after(0, one);
    while history.issue(0).0 < two {}
    let before = history.before(0, 0);
    let ((old, old_flags), (new, new_flags)) = (value(0, one, None), value(0, two, None));
    history.judge_value(0, &before, &new, new_flags).unwrap();
    history.judge_value(0, &before, &old, old_flags).unwrap();
    let before = history.before(0, 0);
    assert!(matches!(history.judge_value(0, &before, &old, old_flags), Err(Wrong::Stale { .. })));
}

#[test]
fn an_item_is_missing_only_for_a_reason() {
    let key = (0..KEYS / 2).find(|key| is_set(operation(*key, 1)) && is_set(operation(*key, 2))).unwrap();
    assert_eq!(
        after(key, 0).judge_absence(key, &after(key, 0).before(key, 0)).unwrap(),
        Absence::NeverWritten
    );
    let history = after(key, 2);
    let before = history.before(key, 0);
    assert!(matches!(history.judge_absence(key, &before), Err(Wrong::Missing { .. })));
    history.flush(|| Ok::<_, Infallible>(())).unwrap();
    assert_eq!(history.judge_absence(key, &before).unwrap(), Absence::Flushed);
    let (old, flags) = value(key, 2, None);
    history.judge_value(key, &before, &old, flags).unwrap();
    let before = history.before(key, 0);
    assert!(matches!(history.judge_value(key, &before, &old, flags), Err(Wrong::Flushed { .. })));
    let delete = first(key, 1, |operation| operation == Operation::Delete);
    let history = after(key, delete);
    assert_eq!(history.judge_absence(key, &history.before(key, 0)).unwrap(), Absence::Deleted);
    let history = History::new(KEYS, true);
    let issued = history.issue(key);
    history.acknowledge(key, issued);
    assert_eq!(history.judge_absence(key, &history.before(key, 0)).unwrap(), Absence::Evicted);
}

#[test]
fn expired_values_are_refused() {
    let expires = first(0, 1, |operation| matches!(operation, Operation::SetExpiring { .. }));
    let history = after(0, expires);
    let (value, flags) = value(0, expires, Some(1000));
    history.judge_value(0, &history.before(0, 1000), &value, flags).unwrap();
    let late = history.judge_value(0, &history.before(0, 1002), &value, flags);
    assert!(matches!(late, Err(Wrong::Expired { .. })));
    assert_eq!(history.judge_absence(0, &history.before(0, 1002)).unwrap(), Absence::Expired);
}

#[test]
fn replies_are_read_to_their_end() {
    let item = |value| Item { name: b"a", flags: 7, value };
    assert_eq!(parse_reply(b"END\r\n", false).unwrap(), []);
    assert_eq!(parse_reply(b"VALUE a 7 2\r\n\r\n\r\nEND\r\n", false).unwrap(), [item(b"\r\n")]);
    assert_eq!(parse_reply(b"VALUE a 7 0 9\r\n\r\nEND\r\n", true).unwrap(), [item(b"")]);
    for wrong in [
        &b""[..],
        b"END\r\nEND\r\n",
        b"VALUE a 7 2\r\nabc\r\nEND\r\n",
        b"VALUE a 7\r\n\r\nEND\r\n",
        b"VALUE a 7 1 9\r\nx\r\nEND\r\n",
    ] {
        assert!(parse_reply(wrong, false).is_err(), "{}", wrong.escape_ascii());
    }
}
