//! Figures beside naive ones, on random traces.

mod bursts;
mod lru;

use std::collections::{BTreeMap, HashMap, HashSet};

use micanite_engine::Eviction;
use proptest::prelude::*;

use super::gather::{Gathered, Question, gather};
use super::groups::ALL;
use crate::trace::open::Reader;
use crate::trace::simulate::Policy;
use crate::trace::{Failure, Key, Operation, Outcome, Request};

#[derive(Clone, Debug)]
struct Asked {
    gap_ms: u64,
    key: u8,
    operation: Operation,
    value_bytes: Option<u32>,
    expiry_s: Option<u32>,
}

struct Trace {
    requests: Vec<Asked>,
    next: usize,
    time_ms: u64,
    key: Vec<u8>,
}

impl Trace {
    fn new(requests: Vec<Asked>) -> Self {
        Self { requests, next: 0, time_ms: 1_000_000, key: Vec::new() }
    }
}

/// One of three prefixes, or none.
fn key_of(number: u8) -> Vec<u8> {
    match number % 4 {
        0 => format!("none{number}").into_bytes(),
        group => format!("group{group}:{number}").into_bytes(),
    }
}

impl Reader for Trace {
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        let Some(asked) = self.requests.get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        self.time_ms += asked.gap_ms;
        self.key = key_of(asked.key);
        Ok(Some(Request {
            time_ms: self.time_ms,
            key: Key::Text(&self.key),
            operation: asked.operation,
            key_bytes: self.key.len() as u32,
            value_bytes: asked.value_bytes,
            expiry_s: asked.expiry_s,
            outcome: Outcome::Unknown,
        }))
    }

    fn is_dated(&self) -> bool {
        true
    }
}

fn gathered(requests: &[Asked], keys_max: usize, cache: Option<(Policy, u64)>) -> Gathered {
    let question = Question { cache, ..Question::new(keys_max) };
    gather(&mut Trace::new(requests.to_vec()), &question, &mut |_| {}).unwrap()
}

fn requests() -> impl Strategy<Value = Vec<Asked>> {
    let operation = proptest::sample::select(Operation::ALL.to_vec());
    let gap_ms = prop_oneof![0..1000u64, 0..10_000_000u64];
    let value_bytes = proptest::option::of(prop_oneof![0..10u32, 0..5000u32]);
    let expiry_s = proptest::option::of(prop_oneof![Just(0), 1..3u32, 1..20_000u32]);
    let asked = (gap_ms, any::<u8>(), operation, value_bytes, expiry_s).prop_map(
        |(gap_ms, key, operation, value_bytes, expiry_s)| Asked {
            gap_ms,
            key: key % 100,
            operation,
            value_bytes,
            expiry_s,
        },
    );
    proptest::collection::vec(asked, 1..400)
}

/// The requests of a group with their times since the first one.
fn of_group<'a>(requests: &'a [Asked], name: &str) -> Vec<(u64, &'a Asked)> {
    let mut time_ms = 0;
    let mut of_group = Vec::new();
    for (at, asked) in requests.iter().enumerate() {
        time_ms += if at == 0 { 0 } else { asked.gap_ms };
        let key = key_of(asked.key);
        let prefix = crate::trace::prefix_of(&key, b':')
            .map_or("(others)".into(), |prefix| String::from_utf8(prefix.to_vec()).unwrap());
        if name == "all" || prefix == name {
            of_group.push((time_ms, asked));
        }
    }
    of_group
}

/// Bytes of key and value.
fn payload_bytes(asked: &Asked) -> Option<u64> {
    let key_bytes = key_of(asked.key).len() as u64;
    asked.value_bytes.map(|bytes| key_bytes + u64::from(bytes))
}

/// Returns for each window the keys that are read in it, and those that are read once.
fn reads(requests: &[(u64, &Asked)], width_ms: u64) -> Vec<(f64, f64)> {
    let mut windows: BTreeMap<u64, HashMap<u8, u32>> = BTreeMap::new();
    for (time_ms, asked) in requests {
        let window = windows.entry(time_ms / width_ms).or_default();
        if asked.operation.reads() {
            *window.entry(asked.key).or_default() += 1;
        }
    }
    let once = |keys: &HashMap<u8, u32>| keys.values().filter(|reads| **reads == 1).count();
    windows.values().map(|keys| (keys.len() as f64, once(keys) as f64)).collect()
}

/// Returns the share of the keys that are read, and never twice in an hour.
fn never_twice_in_an_hour(requests: &[(u64, &Asked)]) -> Option<f64> {
    let mut hours: HashMap<(u8, u64), u32> = HashMap::new();
    for (time_ms, asked) in requests.iter().filter(|(_, asked)| asked.operation.reads()) {
        *hours.entry((asked.key, time_ms / 3_600_000)).or_default() += 1;
    }
    let keys: HashSet<u8> = hours.keys().map(|(key, _)| *key).collect();
    let twice = hours.iter().filter(|(_, reads)| **reads > 1).map(|((key, _), _)| *key);
    let twice: HashSet<u8> = twice.collect();
    (!keys.is_empty()).then(|| (keys.len() - twice.len()) as f64 / keys.len() as f64)
}

/// Returns for each window its different keys and the bytes of their items, as they were known last in it.
fn windows(requests: &[(u64, &Asked)], width_ms: u64) -> Vec<(u64, f64, f64)> {
    let mut known: HashMap<u8, u64> = HashMap::new();
    let mut windows: BTreeMap<u64, HashMap<u8, u64>> = BTreeMap::new();
    for (time_ms, asked) in requests {
        if let Some(bytes) = payload_bytes(asked) {
            known.insert(asked.key, bytes);
        }
        let bytes = known.get(&asked.key).copied().unwrap_or(0);
        let window = windows.entry(time_ms / width_ms).or_default();
        window.insert(asked.key, bytes);
    }
    let window = |(number, items): (&u64, &HashMap<u8, u64>)| {
        (*number, items.len() as f64, items.values().sum::<u64>() as f64)
    };
    windows.iter().map(window).collect()
}

/// An item of a cache that has room for everything: bytes, seconds that it was given, its end.
#[derive(Clone, Copy, Default)]
struct Naive {
    bytes: u64,
    given_s: u32,
    end_s: Option<u64>,
    is_there: bool,
    was_there: bool,
}

/// Reads that hit, and those that miss: compulsory, invalidated.
fn causes(requests: &[(u64, &Asked)]) -> [f64; 4] {
    let mut items: HashMap<u8, Naive> = HashMap::new();
    let mut reads = [0.0; 4];
    for (time_ms, asked) in requests {
        let now_s = time_ms / 1000;
        let item = items.entry(asked.key).or_default();
        item.bytes = payload_bytes(asked).unwrap_or(item.bytes);
        if item.end_s.is_some_and(|end_s| end_s <= now_s) {
            item.is_there = false;
        }
        let (was_there, was_known) = (item.is_there, item.was_there);
        let end = |given_s: u32| (given_s > 0).then(|| now_s + u64::from(given_s));
        let store = |item: &mut Naive, given_s: Option<u32>| {
            item.given_s = given_s.unwrap_or(item.given_s);
            item.end_s = end(item.given_s);
            (item.is_there, item.was_there) = (true, true);
        };
        match asked.operation {
            operation if operation.reads() => {
                let read = match (was_there, was_known) {
                    (true, _) => 0,
                    (false, false) => 1,
                    (false, true) => 2,
                };
                reads[read] += 1.0;
                if !was_there && item.bytes > 0 {
                    store(item, None);
                }
                if operation == Operation::GetAndTouch
                    && let Some(given_s) = asked.expiry_s
                {
                    (item.given_s, item.end_s) = (given_s, end(given_s));
                }
            }
            Operation::Touch => {
                if let Some(given_s) = asked.expiry_s {
                    (item.given_s, item.end_s) = (given_s, end(given_s));
                }
            }
            Operation::Delete => item.is_there = false,
            Operation::Set if item.bytes > 0 => store(item, asked.expiry_s),
            Operation::Add if item.bytes > 0 && !was_there => store(item, asked.expiry_s),
            Operation::Set if asked.expiry_s.is_some() => item.given_s = asked.expiry_s.unwrap_or(0),
            Operation::Add if !was_there => item.given_s = asked.expiry_s.unwrap_or(item.given_s),
            Operation::Append | Operation::Prepend | Operation::Set | Operation::Add => {}
            // Replaced, changed, counted.
            _ if was_there && asked.expiry_s.is_some() => store(item, asked.expiry_s),
            _ => {}
        }
    }
    reads
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn figures_are_those_of_a_naive_count(requests in requests()) {
        let gathered = gathered(&requests, 100_000, None);
        let shown = gathered.groups.shown(9);
        for (number, name, figures) in &shown {
            prop_assert_eq!(*number == ALL, name == "all");
            let of_group = of_group(&requests, name);
            prop_assert_eq!(figures.requests, of_group.len() as u64);
            let keys: HashSet<u8> = of_group.iter().map(|(_, asked)| asked.key).collect();
            prop_assert_eq!(gathered.objects(*number).0, keys.len() as f64);
            let mut last: HashMap<u8, u64> = HashMap::new();
            let mut reuse = vec![0.0; super::figures::HOURS];
            let mut sizes = HashMap::new();
            let mut week = [0; super::figures::HOURS];
            for (time_ms, asked) in &of_group {
                if let Some(last_ms) = last.insert(asked.key, *time_ms) {
                    reuse[(((time_ms - last_ms) / 3_600_000) as usize).min(167)] += 1.0;
                }
                if let Some(bytes) = payload_bytes(asked) {
                    sizes.insert(asked.key, bytes);
                }
                // Traces begin a while after midnight; 1970 began on a Thursday.
                let first_ms = 1_000_000 + requests[0].gap_ms;
                let hour = (first_ms + time_ms) / 3_600_000;
                week[((3 * 24 + hour) % 168) as usize] += 1;
            }
            prop_assert_eq!(&figures.reuse, &reuse);
            prop_assert_eq!(&figures.week, &week);
            prop_assert_eq!(gathered.objects(*number).1, sizes.values().sum::<u64>() as f64);
            for windowed in [&figures.minutes, &figures.hours, &figures.days] {
                let listed = windowed.listed.iter();
                let listed: Vec<_> = listed.map(|at| (at.number, at.keys, at.bytes)).collect();
                prop_assert_eq!(listed, windows(&of_group, windowed.width_ms));
                let read = windowed.listed.iter().map(|at| (at.read_keys, at.read_once));
                prop_assert_eq!(read.collect::<Vec<_>>(), reads(&of_group, windowed.width_ms));
            }
            prop_assert_eq!(gathered.never_twice_in_an_hour(*number), never_twice_in_an_hour(&of_group));
            let whole = |asked: &&(u64, &Asked)| asked.1.operation.stores_whole();
            let mut of_sets: Vec<_> =
                of_group.iter().filter(whole).filter_map(|(_, asked)| asked.value_bytes).collect();
            of_sets.sort_unstable();
            prop_assert_eq!(figures.set_value_bytes.count(), of_sets.len() as u64);
            prop_assert_eq!(figures.set_key_bytes.count(), of_group.iter().filter(whole).count() as u64);
            let median = of_sets.get(of_sets.len().saturating_sub(1) / 2).copied().unwrap_or(0);
            let found = figures.set_value_bytes.quantile(0.5, false);
            prop_assert!(found <= median && median - found <= median / 64, "{} {}", found, median);
            let mut lengths: Vec<u32> = of_group.iter().filter_map(|(_, asked)| asked.value_bytes).collect();
            lengths.sort_unstable();
            let all_bytes: u64 = lengths.iter().copied().map(u64::from).sum();
            for up_to in figures.value_bytes.cumulative().iter().filter(|up_to| up_to.bytes < 4096) {
                let below = lengths.iter().filter(|bytes| **bytes <= up_to.bytes);
                let add = |(count, sum), bytes: &u32| (count + 1, sum + u64::from(*bytes));
                let (count, bytes) = below.fold((0, 0), add);
                prop_assert!((up_to.count_share - count as f64 / lengths.len() as f64).abs() < 1e-9);
                // Longer lengths are rounded.
                let share = bytes as f64 / all_bytes.max(1) as f64;
                prop_assert!((up_to.bytes_share - share).abs() < 0.02 || all_bytes == 0);
            }
            let mut counts = HashMap::new();
            for (_, asked) in &of_group {
                *counts.entry(asked.key).or_insert(0u64) += 1;
            }
            let mut counts: Vec<u64> = counts.into_values().collect();
            counts.sort_unstable();
            for (keys_share, requests_share) in &gathered.popularity(*number).points {
                let keys = (keys_share * counts.len() as f64).round() as usize;
                let sum: u64 = counts[..keys].iter().sum();
                prop_assert!((requests_share - sum as f64 / of_group.len() as f64).abs() < 1e-9);
            }
            let once = counts.iter().filter(|count| **count == 1).count();
            let share = once as f64 / counts.len() as f64;
            prop_assert!((gathered.popularity(*number).once_share - share).abs() < 1e-9);
            for operation in Operation::ALL {
                let asked = of_group.iter().filter(|(_, asked)| asked.operation == operation).count();
                prop_assert_eq!(figures.operations[operation as usize], asked as u64);
            }
            prop_assert_eq!(figures.rate.counts.iter().sum::<u64>(), figures.requests);
        }
        let of_groups: u64 = shown[1..].iter().map(|(_, _, figures)| figures.requests).sum();
        prop_assert!(shown.len() == 1 || of_groups == requests.len() as u64);
    }

    #[test]
    fn misses_are_those_of_a_naive_cache(requests in requests()) {
        // The engine's upkeep of long pauses takes time.
        let shortened = |asked: &Asked| Asked {
            gap_ms: if !asked.gap_ms.is_multiple_of(16) { asked.gap_ms % 2000 } else { asked.gap_ms / 100 },
            expiry_s: asked.expiry_s.map(|expiry_s| expiry_s % 40),
            key: asked.key % 30,
            ..*asked
        };
        let requests: Vec<_> = requests.iter().map(shortened).collect();
        let gathered = gathered(&requests, 1000, Some((Policy::Engine(Eviction::default()), 2 << 20)));
        for (_, name, figures) in gathered.groups.shown(9) {
            prop_assert_eq!(figures.reads, causes(&of_group(&requests, &name)));
        }
    }

    #[test]
    fn tables_and_figures_are_made_of_anything(requests in requests()) {
        let gathered = gathered(&requests, 1000, None);
        prop_assert!(super::tables::text(&gathered, 4).contains("requests"));
        for table in super::tables::all(&gathered, 4) {
            let columns = table.columns.matches(',').count();
            for row in &table.rows {
                prop_assert_eq!(row.matches(',').count(), columns, "{}", row);
            }
        }
        for (_, svg) in super::drawing::all(&gathered, 4) {
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}

/// A remembered part of many keys comes close to all of them.
#[test]
fn a_sample_stands_for_all() {
    struct Many(u64);
    impl Reader for Many {
        fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
            self.0 += 1;
            Ok((self.0 <= 400_000).then_some(Request {
                time_ms: self.0 * 10,
                key: Key::Number(self.0 % 100_000),
                operation: Operation::Get,
                key_bytes: 0,
                value_bytes: Some(100),
                expiry_s: None,
                outcome: Outcome::Unknown,
            }))
        }
    }
    let question = |sample, keys_max| Question { sample, ..Question::new(keys_max) };
    for (sample, keys_max) in [(1.0, 10_000), (0.1, 1_000_000)] {
        let gathered = gather(&mut Many(0), &question(sample, keys_max), &mut |_| {}).unwrap();
        let (objects, bytes) = gathered.objects(ALL);
        assert!((objects / 100_000.0 - 1.0).abs() < 0.05, "{objects}");
        assert!((bytes / 1e7 - 1.0).abs() < 0.05, "{bytes}");
        let all = gathered.groups.shown(0).remove(0).2;
        assert_eq!(all.requests, 400_000, "requests are counted, not estimated");
        let repeats: f64 = all.reuse.iter().sum();
        assert!((repeats / 300_000.0 - 1.0).abs() < 0.05, "{repeats}");
    }
}
