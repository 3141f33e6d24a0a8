//! The cache against a model that never forgets: a miss is legal only if the engine says that it
//! evicted something; a wrong value, flag, count or CAS never is.

use std::collections::HashMap;

use proptest::prelude::*;

use super::support::*;
use crate::*;

/// What the model knows of a key.
#[derive(Clone, Debug)]
struct Known {
    value: Vec<u8>,
    flags: u32,
    expiry: Expiry,
    /// The CAS values that were given for this key, and whether the last is still in force.
    given: Vec<u64>,
    in_force: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Get {
        cas: bool,
    },
    GetAndTouch {
        expiry_in_s: u32,
    },
    Store {
        condition: u8,
        value_bytes: usize,
        number: bool,
        flags: u32,
        expiry_in_s: u32,
    },
    Concatenate {
        before: bool,
        value_bytes: usize,
    },
    Arithmetic {
        up: bool,
        delta: u64,
    },
    Touch {
        expiry_in_s: u32,
    },
    Delete,
    Flush,
    PassTime {
        seconds: u32,
    },
    Maintain,
}

fn step(value_bytes_max: usize) -> impl Strategy<Value = Step> {
    let expiry = || prop_oneof![4 => Just(0u32), 1 => 1u32..20];
    let flags = || prop_oneof![Just(0u32), any::<u32>()];
    let store = (
        0u8..4,
        0..value_bytes_max + 2,
        any::<bool>(),
        flags(),
        expiry(),
    )
        .prop_map(
            |(condition, value_bytes, number, flags, expiry_in_s)| Step::Store {
                condition,
                value_bytes,
                number,
                flags,
                expiry_in_s,
            },
        );
    prop_oneof![
        20 => any::<bool>().prop_map(|cas| Step::Get { cas }),
        3 => expiry().prop_map(|expiry_in_s| Step::GetAndTouch { expiry_in_s }),
        20 => store,
        5 => (any::<bool>(), 0usize..20).prop_map(|(before, value_bytes)| Step::Concatenate { before, value_bytes }),
        5 => (any::<bool>(), 0u64..200).prop_map(|(up, delta)| Step::Arithmetic { up, delta }),
        3 => expiry().prop_map(|expiry_in_s| Step::Touch { expiry_in_s }),
        3 => Just(Step::Delete),
        1 => (0u8..20).prop_map(|n| if n == 0 { Step::Flush } else { Step::Maintain }),
        2 => (0u32..3).prop_map(|seconds| Step::PassTime { seconds }),
    ]
}

struct Model {
    known: HashMap<Vec<u8>, Known>,
    client: Client,
    other: Option<Client>,
    value_bytes_max: usize,
    is_store: bool,
    refused: u64,
    lost: u64,
    stamp: u64,
}

impl Model {
    fn new(geometry: &Geometry) -> Self {
        let cache = geometry.cache();
        Self {
            known: HashMap::new(),
            client: Client::new(&cache, 0),
            other: (geometry.workers > 1).then(|| Client::new(&cache, 1)),
            value_bytes_max: geometry.value_bytes_max,
            is_store: geometry.semantics == Semantics::Store,
            refused: 0,
            lost: 0,
            stamp: 0,
        }
    }

    fn now_s(&self) -> u32 {
        self.client.now_s
    }

    fn expiry(&self, in_s: u32) -> Expiry {
        Expiry(if in_s == 0 { 0 } else { self.now_s() + in_s })
    }

    /// A value that no other write has, so that a stale or foreign one is noticed.
    fn value(&mut self, bytes: usize, number: bool) -> Vec<u8> {
        self.stamp += 1;
        if number {
            return (self.stamp % 1000).to_string().into_bytes();
        }
        let stamp = self.stamp.to_le_bytes();
        (0..bytes)
            .map(|at| b'a' + (stamp[at % 8] as usize + at / 8) as u8 % 26)
            .collect()
    }

    /// What the model has, unless it has expired.
    fn live(&mut self, key: &[u8]) -> Option<Known> {
        let now_s = self.now_s();
        self.known
            .retain(|_, known| !known.expiry.has_passed(now_s));
        self.known.get(key).cloned()
    }

    /// The engine does not have what the model has: something must have been evicted for it.
    fn lose(&mut self, key: &[u8]) {
        assert!(!self.is_store, "a store lost {key:?}");
        self.known.remove(key);
        self.lost += 1;
        let stats = self.client.worker.cache().stats();
        assert!(
            self.lost <= stats.evicted_log + stats.evicted_bucket,
            "{} items lost, only {} + {} evicted",
            self.lost,
            stats.evicted_log,
            stats.evicted_bucket
        );
    }

    fn run(&mut self, key: &[u8], step: &Step) {
        match *step {
            Step::Get { cas } => self.get(key, Operation::Get { cas }, cas, None),
            Step::GetAndTouch { expiry_in_s } => {
                let expiry = self.expiry(expiry_in_s);
                self.get(
                    key,
                    Operation::GetAndTouch { expiry, cas: true },
                    true,
                    Some(expiry),
                );
            }
            Step::Store {
                condition,
                value_bytes,
                number,
                flags,
                expiry_in_s,
            } => {
                let value = self.value(value_bytes, number);
                self.store(key, condition, value, flags, self.expiry(expiry_in_s));
            }
            Step::Concatenate {
                before,
                value_bytes,
            } => {
                let more = self.value(value_bytes, false);
                self.concatenate(key, before, &more);
            }
            Step::Arithmetic { up, delta } => self.arithmetic(key, up, delta),
            Step::Touch { expiry_in_s } => {
                let expiry = self.expiry(expiry_in_s);
                let outcome = self.client.outcome(key, Operation::Touch { expiry });
                if self.is_refused(outcome) {
                    return;
                }
                self.check_found(
                    key,
                    outcome == Outcome::Touched,
                    outcome == Outcome::NotFound,
                );
                if let Some(known) = self.known.get_mut(key) {
                    known.expiry = expiry;
                }
            }
            Step::Delete => {
                let outcome = self.client.outcome(key, Operation::Delete);
                self.check_found(
                    key,
                    outcome == Outcome::Deleted,
                    outcome == Outcome::NotFound,
                );
                self.known.remove(key);
            }
            Step::Flush => {
                let now_s = self.now_s();
                self.client.worker.flush_all(0, now_s);
                self.known.clear();
                assert_eq!(self.client.worker.cache().stats().items_live, 0);
            }
            Step::PassTime { seconds } => {
                self.client.now_s += seconds;
                if let Some(other) = &mut self.other {
                    other.now_s += seconds;
                    std::mem::swap(other, &mut self.client);
                }
            }
            Step::Maintain => {
                let now_s = self.now_s();
                self.client.worker.maintain(now_s);
            }
        }
    }

    /// Whether a write was refused for want of space, as only a store may.
    fn is_refused(&mut self, outcome: Outcome) -> bool {
        let refused = outcome == Outcome::OutOfMemory;
        assert!(self.is_store || !refused);
        self.refused += u64::from(refused);
        refused
    }

    /// Compares "there was such an item" with the model; afterwards the model has it or not, as
    /// the engine.
    fn check_found(&mut self, key: &[u8], found: bool, missing: bool) {
        assert!(found != missing, "neither found nor missing");
        match (self.live(key).is_some(), found) {
            (true, false) => self.lose(key),
            (false, true) => panic!("found what is not there: {key:?}"),
            _ => {}
        }
    }

    fn get(&mut self, key: &[u8], operation: Operation<'_>, cas: bool, touch: Option<Expiry>) {
        let reply = self.client.ask(key, operation);
        if reply
            .outcome
            .is_some_and(|outcome| self.is_refused(outcome))
        {
            return;
        }
        let found = reply.outcome == Some(Outcome::Hit);
        self.check_found(key, found, reply.outcome == Some(Outcome::NotFound));
        let Some(known) = self.known.get_mut(key).filter(|_| found) else {
            return;
        };
        assert_eq!(
            (&reply.value, reply.flags),
            (&known.value, known.flags),
            "{key:?}"
        );
        if cas {
            assert_ne!(reply.cas, 0);
            if known.in_force {
                assert_eq!(
                    known.given.last(),
                    Some(&reply.cas),
                    "CAS changed without a write"
                );
            } else {
                assert!(
                    !known.given.contains(&reply.cas),
                    "CAS did not change with a write"
                );
                known.given.push(reply.cas);
                known.in_force = true;
            }
        }
        if let Some(expiry) = touch {
            known.expiry = expiry;
        }
    }

    fn store(&mut self, key: &[u8], condition: u8, value: Vec<u8>, flags: u32, expiry: Expiry) {
        let known = self.live(key);
        let in_force = known.as_ref().is_some_and(|known| known.in_force);
        let given = known
            .as_ref()
            .map(|known| known.given.clone())
            .unwrap_or_default();
        let condition = match condition {
            0 => Condition::Always,
            1 => Condition::Absent,
            2 => Condition::Present,
            _ => Condition::Unchanged(given.last().copied().unwrap_or(u64::MAX)),
        };
        let store = Operation::Store {
            condition,
            value: &value,
            flags,
            expiry,
        };
        let outcome = self.client.outcome(key, store);
        if self.is_refused(outcome) {
            return;
        }
        let mut stored = outcome == Outcome::Stored;
        match (condition, outcome) {
            (_, Outcome::TooLarge) => assert!(value.len() > self.value_bytes_max),
            (Condition::Always, Outcome::Stored) => {}
            (Condition::Absent, _) => {
                self.check_found(key, outcome == Outcome::NotStored, stored);
            }
            (Condition::Present, _) => {
                self.check_found(key, stored, outcome == Outcome::NotStored);
            }
            (Condition::Unchanged(_), _) => {
                let found = matches!(outcome, Outcome::Stored | Outcome::Exists);
                self.check_found(key, found, outcome == Outcome::NotFound);
                if found {
                    assert_eq!(
                        stored, in_force,
                        "cas stored with a stale value, or did not"
                    );
                }
                stored &= found;
            }
            other => panic!("{other:?}"),
        }
        if stored {
            self.known.insert(
                key.into(),
                Known {
                    value,
                    flags,
                    expiry,
                    given,
                    in_force: false,
                },
            );
        }
    }

    fn concatenate(&mut self, key: &[u8], before: bool, more: &[u8]) {
        let operation = if before {
            Operation::Prepend { value: more }
        } else {
            Operation::Append { value: more }
        };
        let outcome = self.client.outcome(key, operation);
        if self.is_refused(outcome) {
            return;
        }
        let max = self.value_bytes_max;
        let found = matches!(outcome, Outcome::Stored | Outcome::TooLarge);
        self.check_found(key, found, outcome == Outcome::NotStored);
        let Some(known) = self.known.get_mut(key).filter(|_| found) else {
            return;
        };
        assert_eq!(
            outcome == Outcome::TooLarge,
            known.value.len() + more.len() > max
        );
        if outcome == Outcome::Stored {
            let at = if before { 0 } else { known.value.len() };
            known.value.splice(at..at, more.iter().copied());
            known.in_force = false;
        }
    }

    fn arithmetic(&mut self, key: &[u8], up: bool, delta: u64) {
        let operation = if up {
            Operation::Increment { delta }
        } else {
            Operation::Decrement { delta }
        };
        let outcome = self.client.outcome(key, operation);
        if self.is_refused(outcome) {
            return;
        }
        let found = matches!(outcome, Outcome::Number(_) | Outcome::NotANumber);
        self.check_found(key, found, outcome == Outcome::NotFound);
        let Some(known) = self.known.get_mut(key).filter(|_| found) else {
            return;
        };
        let text = String::from_utf8_lossy(&known.value).into_owned();
        let word = text.split(' ').next().unwrap_or_default();
        let number = word.parse::<u64>().ok();
        let expected = number.map(|n| {
            if up {
                n.wrapping_add(delta)
            } else {
                n.saturating_sub(delta)
            }
        });
        match (outcome, expected) {
            (Outcome::Number(number), Some(expected)) => {
                assert_eq!(number, expected);
                let width = known.value.len();
                known.value = format!("{number:<width$}").into_bytes();
                known.in_force = false;
            }
            (Outcome::NotANumber, None) => {}
            (outcome, expected) => panic!("{outcome:?}, expected {expected:?} of {text:?}"),
        }
    }

    /// Every key, once more; then the engine's own count must be right.
    fn check_all(&mut self) {
        let keys: Vec<_> = self.known.keys().cloned().collect();
        for key in keys {
            self.run(&key, &Step::Get { cas: false });
        }
        // What has expired unnoticed counts as live until somebody comes by.
        let cache = self.client.worker.cache();
        assert_eq!(cache.items_in_index(), cache.stats().items_live);
    }
}

fn geometry(number: usize) -> Geometry {
    let eviction = Eviction::ALL[number % 5];
    let (buckets, data_units, offset_bits, value_bytes_max, grows) = match number / 5 % 5 {
        0 => (64, 16 * 512, 45, 300, false), // room for everything
        1 => (4, 1024, 13, 300, false),      // log and buckets too small, offsets that wrap often
        2 => (2, 512, 12, 2000, false),      // items of half a log
        3 => (48, 512, 11, 40, false),       // offsets of 11 bits: they repeat after 4 logs
        _ => (2, 2048, 20, 100, true),       // an index that grows
    };
    Geometry {
        buckets,
        data_units,
        grows,
        offset_bits,
        value_bytes_max,
        eviction,
        workers: 1 + number / 25 % 2,
        ..Geometry::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_cache_may_miss_but_never_lies(
        number in 0usize..50,
        keys in 1u32..60,
        steps in prop::collection::vec((any::<u32>(), step(400)), 1..600),
    ) {
        let geometry = geometry(number);
        let mut model = Model::new(&geometry);
        for (key, step) in &steps {
            let key = format!("key-{}{}", key % keys, "x".repeat((key % keys) as usize % 9));
            model.run(key.as_bytes(), step);
        }
        model.check_all();
        if number / 5 % 5 == 0 && geometry.eviction == Eviction::Fifo {
            prop_assert!(model.lost <= model.client.worker.cache().stats().evicted_bucket + model.client.worker.cache().stats().evicted_log);
        }
    }
}

fn store_geometry(number: usize) -> Geometry {
    let (buckets, data_units, value_bytes_max, grows) = match number % 4 {
        0 => (64, 16 * 512, 300, false), // room for everything
        1 => (32, 400, 300, false),      // too little space
        2 => (2, 4096, 100, false),      // too few entries
        _ => (2, 2048, 100, true),       // an index that grows
    };
    Geometry {
        buckets,
        data_units,
        grows,
        value_bytes_max,
        semantics: Semantics::Store,
        workers: 1 + number / 4 % 2,
        ..Geometry::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_store_loses_nothing_that_it_acknowledged(
        number in 0usize..8,
        keys in 1u32..120,
        steps in prop::collection::vec((any::<u32>(), step(400)), 1..600),
    ) {
        let geometry = store_geometry(number);
        let mut model = Model::new(&geometry);
        for (key, step) in &steps {
            let key = format!("key-{}{}", key % keys, "x".repeat((key % keys) as usize % 9));
            model.run(key.as_bytes(), step);
        }
        model.check_all();
        if number % 4 == 0 {
            prop_assert_eq!(model.refused, 0);
        }
        // Once everything is deleted, all of the space is one free region again.
        for key in model.known.keys().cloned().collect::<Vec<_>>() {
            model.run(&key, &Step::Delete);
        }
        model.run(b"", &Step::PassTime { seconds: 100 });
        for _ in 0..8 {
            model.run(b"", &Step::Maintain);
            model.run(b"", &Step::PassTime { seconds: 0 }); // the other worker's turn
        }
        let heap_units = model.client.worker.cache().heap_units();
        prop_assert_eq!(heap_units.0, heap_units.1, "largest free block, free units");
    }
}

/// Runs long enough for offsets to repeat hundreds of times: a dangling entry that came back to
/// life would answer with another item's bytes, or with one that the model has lost.
#[test]
fn dangling_entries_are_cleared_before_offsets_repeat() {
    for number in [15, 16, 17, 18, 19, 44] {
        let geometry = geometry(number);
        let mut model = Model::new(&geometry);
        let lap_units = 1u64 << geometry.offset_bits;
        let mut written_units = 0;
        let mut round = 0u32;
        while written_units < 200 * lap_units {
            round += 1;
            let key = format!("k{}", round.wrapping_mul(2_654_435_761) % 997);
            let value_bytes = (round % 40) as usize;
            let step = Step::Store {
                condition: 0,
                value_bytes,
                number: false,
                flags: 0,
                expiry_in_s: 0,
            };
            model.run(key.as_bytes(), &step);
            written_units += 2 + value_bytes as u64 / 8;
            let asked = format!("k{}", round.wrapping_mul(40_503) % 997);
            model.run(
                asked.as_bytes(),
                &Step::Get {
                    cas: round.is_multiple_of(5),
                },
            );
        }
        model.check_all();
        assert!(model.client.worker.cache().stats().dangling_cleared > 0);
    }
}
