//! The checker itself: linearizable histories pass, and every kind of mistake is found.

use micanite_workload::Random;

use super::check::{Refusal, Violation, check};
use super::explain::explain;
use super::journal::{Entry, Journal, Pipe, Record, Recorder};
use super::operation::{Action, Found, Operation, State};
use super::value;

const NEVER: u64 = u64::MAX;

/// Operations with consecutive client numbers.
fn history(operations: &[(u64, u64, Action, Found)]) -> Vec<Operation> {
    (0..)
        .zip(operations)
        .map(|(client, &(called_ns, returned_ns, action, found))| Operation {
            client,
            called_ns,
            returned_ns,
            action,
            found,
        })
        .collect()
}

fn set(from: u64, to: u64, value: u64) -> (u64, u64, Action, Found) {
    let found = if to == NEVER { Found::Unknown } else { Found::Done };
    (from, to, Action::Set(value), found)
}

fn get(from: u64, to: u64, state: State) -> (u64, u64, Action, Found) {
    (from, to, Action::Get, state.map_or(Found::Missing, Found::Value))
}

fn delete(from: u64, to: u64, found: Found) -> (u64, u64, Action, Found) {
    (from, to, Action::Delete, found)
}

#[track_caller]
fn passes(operations: &[(u64, u64, Action, Found)]) {
    assert_eq!(check(&history(operations), false), Ok(()));
}

/// The operation with this number cannot be explained.
#[track_caller]
fn fails(operations: &[(u64, u64, Action, Found)], operation: usize) {
    match check(&history(operations), false) {
        Err(Refusal::Violation(found)) => assert_eq!(found.operation, operation, "{found:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_get_beside_a_set_finds_either_value() {
    passes(&[set(0, 1, 1), set(2, 9, 2), get(3, 4, Some(1)), get(5, 6, Some(2))]);
    passes(&[set(0, 1, 1), set(2, 9, 2), get(3, 8, Some(2)), get(5, 6, Some(1))]);
    passes(&[get(0, 1, None), set(1, 3, 1), get(1, 2, None)]);
}

#[test]
fn a_value_that_was_seen_stays_seen() {
    fails(&[set(0, 1, 1), set(2, 9, 2), get(3, 4, Some(2)), get(5, 6, Some(1))], 3);
}

#[test]
fn a_stale_read_is_found() {
    fails(&[set(0, 1, 1), set(2, 3, 2), get(4, 5, Some(1))], 2);
}

#[test]
fn a_lost_write_is_found() {
    fails(&[set(0, 1, 1), get(2, 3, None)], 1);
    fails(&[set(0, 1, 1), delete(2, 3, Found::Missing)], 1);
    fails(&[set(0, 1, 1), (2, 3, Action::Add(2), Found::Done)], 1);
}

#[test]
fn a_read_from_the_future_is_found() {
    fails(&[set(0, 1, 1), get(2, 3, Some(2)), set(4, 5, 2)], 1);
}

#[test]
fn a_value_that_nobody_wrote_is_found() {
    fails(&[set(0, 1, 1), get(2, 3, Some(7))], 1);
}

#[test]
fn a_deleted_value_that_returns_is_found() {
    fails(&[set(0, 1, 1), delete(2, 3, Found::Done), get(4, 5, Some(1))], 2);
    fails(&[set(0, 1, 1), (2, 3, Action::FlushAll, Found::Done), get(4, 5, Some(1))], 2);
    passes(&[set(0, 1, 1), (2, 5, Action::FlushAll, Found::Done), get(3, 4, Some(1)), get(6, 7, None)]);
}

#[test]
fn two_writes_in_turn_cannot_both_be_last() {
    // Two gets disagree on the order of two sets.
    let sets = [set(0, 9, 1), set(0, 9, 2)];
    passes(&[&sets[..], &[get(1, 2, Some(1)), get(3, 4, Some(2))]].concat());
    fails(&[&sets[..], &[get(1, 2, Some(1)), get(3, 4, Some(2)), get(5, 6, Some(1))]].concat(), 4);
}

#[test]
fn one_of_two_adds_is_refused() {
    let add = |from, to, value, found| (from, to, Action::Add(value), found);
    passes(&[add(0, 5, 1, Found::Done), add(0, 5, 2, Found::Refused), get(6, 7, Some(1))]);
    fails(&[add(0, 5, 1, Found::Done), add(0, 4, 2, Found::Done)], 0);
    fails(&[add(0, 5, 1, Found::Refused)], 0);
}

#[test]
fn a_cas_stores_on_what_was_seen_alone() {
    let cas = |from, to, seen, stored, found| (from, to, Action::Cas { seen, stored }, found);
    passes(&[
        set(0, 1, 1),
        cas(2, 3, 1, 2, Found::Done),
        cas(4, 5, 1, 3, Found::Refused),
        get(6, 7, Some(2)),
    ]);
    fails(&[set(0, 1, 1), cas(2, 4, 1, 2, Found::Done), cas(2, 5, 1, 3, Found::Done)], 2);
    fails(&[set(0, 1, 1), cas(2, 3, 1, 2, Found::Refused)], 1);
    fails(&[set(0, 1, 1), cas(2, 3, 1, 2, Found::Missing)], 1);
}

#[test]
fn an_operation_without_a_reply_may_happen_late_or_never() {
    passes(&[set(0, 1, 1), set(2, NEVER, 2), get(3, 4, Some(1)), get(8, 9, Some(2))]);
    passes(&[set(0, 1, 1), set(2, NEVER, 2), get(3, 4, Some(1)), get(8, 9, Some(1))]);
    passes(&[set(0, 1, 1), delete(2, NEVER, Found::Unknown), get(8, 9, None)]);
    // But once, and not before it was sent.
    fails(&[set(0, 1, 1), set(2, NEVER, 2), get(3, 4, Some(2)), set(5, 6, 3), get(8, 9, Some(2))], 4);
    fails(&[set(0, 1, 1), get(2, 3, Some(2)), set(4, NEVER, 2)], 1);
    fails(
        &[set(0, 1, 1), delete(2, NEVER, Found::Unknown), get(3, 4, None), set(5, 6, 2), get(8, 9, None)],
        4,
    );
    // A late copy may happen again.
    let copy = (2, NEVER, Action::LateCopy(Some(2)), Found::Unknown);
    passes(&[set(0, 1, 1), set(2, 3, 2), copy, set(5, 6, 3), get(8, 9, Some(2))]);
}

#[test]
fn a_killed_server_loses_once_and_never_goes_back() {
    let loss = (4, 7, Action::Loss, Found::Unknown);
    passes(&[set(0, 1, 1), set(2, 3, 2), loss, get(8, 9, None)]);
    passes(&[set(0, 1, 1), set(2, 3, 2), loss, get(8, 9, Some(2))]);
    fails(&[set(0, 1, 1), set(2, 3, 2), loss, get(8, 9, Some(1))], 3);
    fails(&[set(0, 1, 1), loss, get(8, 9, Some(1)), get(10, 11, None)], 3);
}

#[test]
fn a_miss_needs_a_reason_unless_items_may_leave() {
    let history = history(&[set(0, 1, 1), get(2, 3, Some(1)), get(4, 5, None), get(6, 7, None)]);
    assert!(check(&history, false).is_err());
    assert_eq!(check(&history, true), Ok(()));
    let back = self::history(&[set(0, 1, 1), get(2, 3, None), get(4, 5, Some(1))]);
    assert!(check(&back, true).is_err(), "what has left does not come back");
}

#[test]
fn many_operations_without_a_reply_are_no_problem() {
    let mut operations = vec![set(0, 1, 1)];
    for number in 0..100 {
        operations.push(set(2, NEVER, 100 + number));
        operations.push(set(10 + 4 * number, 11 + 4 * number, 1000 + number));
        operations.push(get(12 + 4 * number, 13 + 4 * number, Some(1000 + number)));
    }
    operations.push(get(5000, 5001, Some(150)));
    passes(&operations);
    operations.push(get(5002, 5003, Some(1050)));
    fails(&operations, operations.len() - 1);
}

/// Draws operations and lets each take effect at a moment of its own; replies are right by construction.
fn draw(random: &mut Random, count: u64, clients: u64) -> Vec<Operation> {
    let mut moments = Vec::new();
    let mut free_ns = vec![0; clients as usize];
    for number in 0..count {
        let client = random.below(clients) as usize;
        let called_ns = free_ns[client] + 1 + random.below(20);
        let effect_ns = called_ns + random.below(30);
        let returned_ns = effect_ns + random.below(30);
        free_ns[client] = returned_ns;
        let value = number + 1;
        let action = match random.below(10) {
            0..4 => Action::Get,
            4..6 => Action::Set(value),
            6 => Action::Add(value),
            7 => Action::Cas { seen: 1 + random.below(value), stored: value },
            8 => Action::Touch,
            _ => Action::Delete,
        };
        moments.push((effect_ns, client, called_ns, returned_ns, action));
    }
    moments.sort_unstable_by_key(|(effect_ns, client, ..)| (*effect_ns, *client));
    let mut state: State = None;
    let mut operations = Vec::new();
    for (_, client, called_ns, returned_ns, action) in moments {
        let before = state;
        let found = match (action, before) {
            (Action::Get, Some(value)) => Found::Value(value),
            (Action::Set(value), _) | (Action::Add(value), None) => {
                state = Some(value);
                Found::Done
            }
            (Action::Add(_), Some(_)) => Found::Refused,
            (Action::Cas { seen, stored }, Some(value)) if value == seen => {
                state = Some(stored);
                Found::Done
            }
            (Action::Cas { .. }, Some(_)) => Found::Refused,
            (Action::Delete, Some(_)) => {
                state = None;
                Found::Done
            }
            (_, Some(_)) => Found::Done,
            (_, None) => Found::Missing,
        };
        // Some replies get lost.
        let (found, returned_ns) =
            if random.below(50) == 0 { (Found::Unknown, NEVER) } else { (found, returned_ns) };
        operations.push(Operation { client: client as u32, called_ns, returned_ns, action, found });
    }
    operations
}

#[test]
fn histories_of_a_register_are_linearizable_and_mutated_ones_are_not() {
    let mut random = Random::new(5);
    let (mut found, mut tried) = (0, 0);
    for _ in 0..60 {
        let mut operations = draw(&mut random, 400, 8);
        assert_eq!(check(&operations, false), Ok(()));
        // A get that is replaced by an old value: it is wrong unless a late write explains it.
        let gets: Vec<_> = (200..operations.len())
            .filter(|place| matches!(operations[*place].found, Found::Value(_)))
            .collect();
        let stale = operations.iter().find_map(|operation| match (operation.action, operation.found) {
            (Action::Set(value), Found::Done) => Some(value),
            _ => None,
        });
        let place = gets[random.below(gets.len() as u64) as usize];
        operations[place].found = Found::Value(stale.unwrap());
        tried += 1;
        found += u32::from(check(&operations, false).is_err());
    }
    assert_eq!(found, tried);
}

/// A slow twin of the search: every order of a short history.
fn is_linearizable(left: &mut Vec<Operation>, state: State) -> bool {
    let first_return_ns = left.iter().map(|operation| operation.returned_ns).min().unwrap_or(NEVER);
    if left.iter().all(|operation| operation.returned_ns == NEVER) {
        return true;
    }
    (0..left.len()).any(|place| {
        let operation = left[place];
        if operation.called_ns > first_return_ns {
            return false;
        }
        let Some(step) = operation.step() else {
            left.remove(place);
            let is = is_linearizable(left, state);
            left.insert(place, operation);
            return is;
        };
        let Some(after) = step.apply(state, false) else { return false };
        left.remove(place);
        let is = is_linearizable(left, after);
        left.insert(place, operation);
        is
    })
}

#[test]
fn the_search_agrees_with_its_slow_twin() {
    let mut random = Random::new(9);
    let (mut legal, mut illegal) = (0, 0);
    for _ in 0..4000 {
        let mut operations = draw(&mut random, 7, 4);
        let place = random.below(operations.len() as u64) as usize;
        if operations[place].returned_ns != NEVER {
            operations[place].found = match operations[place].action {
                Action::Get => match random.below(7) {
                    0 => Found::Missing,
                    value => Found::Value(value),
                },
                Action::Add(_) => [Found::Done, Found::Refused][random.below(2) as usize],
                Action::Delete | Action::Touch => [Found::Done, Found::Missing][random.below(2) as usize],
                Action::Cas { .. } => [Found::Done, Found::Missing, Found::Refused][random.below(3) as usize],
                _ => Found::Done,
            };
        }
        let expected = is_linearizable(&mut operations.clone(), None);
        *(if expected { &mut legal } else { &mut illegal }) += 1;
        assert_eq!(check(&operations, false).is_ok(), expected, "{operations:#?}");
    }
    assert!(legal > 500 && illegal > 500, "{legal} {illegal}");
}

#[test]
fn every_byte_of_a_value_counts() {
    let mut bytes = Vec::new();
    for length in [16, 23, 100] {
        value::fill(&mut bytes, 3, 77, length);
        let flags = value::flags(77);
        assert_eq!(value::parse(3, &bytes, flags), Ok(77));
        assert!(value::parse(4, &bytes, flags).is_err(), "another key's");
        assert!(value::parse(3, &bytes, flags ^ 1).is_err(), "other flags");
        assert!(value::parse(3, &bytes[..length - 1], flags).is_err(), "cut off");
        for place in 0..length {
            bytes[place] ^= 1;
            assert!(value::parse(3, &bytes, flags).is_err(), "byte {place}");
            bytes[place] ^= 1;
        }
    }
}

#[test]
fn a_violation_is_shown_with_the_write_of_its_value() {
    let operations = history(&[set(0, 1, 1), set(2, 3, 2), get(4, 5, Some(1))]);
    let violation = Violation { operation: 2, states: vec![Some(2)] };
    let text = explain("k", &operations, &violation, |_| "text".to_owned());
    assert!(text.contains("\"get -> 0x1\"") && text.contains("The key could be: 0x2"), "{text}");
    assert!(text.contains("set 0x1 -> done") && text.contains("> "), "{text}");
}

#[test]
fn the_pipe_of_a_killed_client_is_read_to_its_last_whole_record() {
    let operation = history(&[set(5, NEVER, 1)])[0];
    let mut pipe = Pipe(Vec::new());
    let returned = Record::Return { returned_ns: 8, found: Found::Done, one_sided: false };
    for record in [
        Record::Call(Entry { key: Some(1), operation }),
        returned.clone(),
        Record::Call(Entry { key: Some(2), operation }),
    ] {
        pipe.record(record).unwrap();
    }
    let whole = pipe.0.len();
    pipe.record(returned).unwrap();
    let mut journal = Journal::default();
    journal.read(&pipe.0[..whole + 5]).unwrap();
    let ended = Operation { returned_ns: 8, found: Found::Done, ..operation };
    let expected = [Entry { key: Some(1), operation: ended }, Entry { key: Some(2), operation }];
    assert_eq!(journal.entries, expected);
}
