//! One pass over a trace.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::causes::{MissCauses, Read};
use super::figures::{HOURS, covered};
use super::groups::{ALL, Groups};
use super::keys::{KeyState, Keys};
use super::popularity::{self, Popularity};
use super::times::{Bursts, Touch};
use crate::recording::Seen;
use crate::trace::open::Reader;
use crate::trace::progress::REQUESTS_PER_LOOK;
use crate::trace::simulate::Policy;
use crate::trace::{DELIMITER, Failure, Key, Request, prefix_of};

/// The question, and bounds on the work.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// Ends the prefix of a key.
    pub delimiter: u8,
    /// The fraction of the keys that is looked at.
    pub sample: f64,
    /// Keys that are remembered, at most.
    pub keys_max: usize,
    /// Stop after so many requests.
    pub requests_max: u64,
    /// The policy and the memory at which causes of misses are found.
    pub cache: Option<(Policy, u64)>,
    /// Length of the intervals in which bursts are looked for.
    pub interval_s: u32,
}

impl Question {
    /// What is asked if nobody says, of so many keys at most.
    pub fn new(keys_max: usize) -> Self {
        Self {
            delimiter: DELIMITER,
            sample: 1.0,
            keys_max,
            requests_max: u64::MAX,
            cache: None,
            interval_s: 1,
        }
    }
}

pub(super) struct Gathered {
    pub groups: Groups,
    pub keys: Keys,
    pub bursts: Bursts,
    /// The policy that causes of misses were found with.
    pub policy: Option<Policy>,
    pub start_ms: u64,
    pub end_ms: u64,
    pub is_dated: bool,
    /// Fraction of the keys that the trace has.
    pub trace_fraction: f64,
    /// Counts of all keys, where the trace tells.
    pub seen: Option<Seen>,
    pub remarks: Vec<String>,
    popularities: RefCell<HashMap<u16, Rc<Popularity>>>,
}

impl Gathered {
    /// Number of keys that a remembered one stands for, those included that are not in the trace.
    pub fn weight(&self) -> f64 {
        self.keys.weight() / self.trace_fraction
    }

    pub fn objects(&self, group: u16) -> (f64, f64) {
        let of_group = self.keys.states().filter(|state| group == ALL || state.group == group);
        let (objects, bytes) = of_group.fold((0u64, 0u64), |(objects, bytes), state| {
            (objects + 1, bytes + u64::from(state.payload_bytes))
        });
        (objects as f64 * self.weight(), bytes as f64 * self.weight())
    }

    /// Share of the keys of a group that are never read twice in an hour, of those that are read; none if
    /// none is.
    pub fn never_twice_in_an_hour(&self, group: u16) -> Option<f64> {
        let of_group = self.keys.states().filter(|state| group == ALL || state.group == group);
        let read = of_group.filter(|state| state.reads.is_read());
        let (keys, twice) = read.fold((0u64, 0u64), |(keys, twice), state| {
            (keys + 1, twice + u64::from(state.reads.is_read_twice_in_an_hour()))
        });
        (keys > 0).then(|| (keys - twice) as f64 / keys as f64)
    }

    /// Spread of the requests of a group over its keys.
    pub fn popularity(&self, group: u16) -> Rc<Popularity> {
        let curve = || {
            let of_group = self.keys.states().filter(|state| group == ALL || state.group == group);
            Rc::new(popularity::curve(of_group.map(|state| state.requests).collect()))
        };
        // The curve of many keys takes long to compute, so it is kept.
        let mut known = self.popularities.borrow_mut();
        Rc::clone(known.entry(group).or_insert_with(curve))
    }

    /// Milliseconds of the trace in each hour of the week (UTC).
    pub fn covered(&self) -> [u64; HOURS] {
        covered(self.start_ms, self.end_ms)
    }

    pub fn seconds(&self) -> f64 {
        (self.end_ms - self.start_ms) as f64 / 1000.0
    }
}

const MORE_KEYS: &str = "there are more keys than --keys-max, and causes of misses need all of those that \
                         are looked \
                         at: raise it, or take --sample 0.1";

/// Reads a trace to its end; `progress` is told the number of requests now and then.
pub(super) fn gather(
    reader: &mut dyn Reader,
    question: &Question,
    progress: &mut dyn FnMut(u64),
) -> Result<Gathered, Failure> {
    let mut keys = Keys::new(question.sample, question.keys_max);
    let mut groups = Groups::new();
    let trace_fraction = reader.sampled_fraction();
    let first_weight = keys.weight();
    let cause = |(policy, bytes)| MissCauses::new(policy, bytes, trace_fraction / first_weight);
    let mut causes = question.cache.map(cause).transpose()?;
    let mut bursts = Bursts::new(u64::from(question.interval_s) * 1000);
    let (mut start_ms, mut end_ms, mut requests) = (None, 0, 0);
    // The prefix of the last request's key, copied so that the reader is not borrowed.
    let mut prefix = Vec::new();
    while requests < question.requests_max {
        let Some(request) = reader.next()? else {
            break;
        };
        requests += 1;
        if requests.is_multiple_of(REQUESTS_PER_LOOK) {
            progress(requests);
        }
        let start_ms = *start_ms.get_or_insert(request.time_ms);
        end_ms = request.time_ms;
        let hash = request.key.hash();
        let mut has_prefix = prefix_of_key(request.key, question.delimiter, &mut prefix);
        let request = Request { key: Key::Number(hash), ..request };
        if let (false, Some(named)) = (has_prefix, reader.prefix()) {
            prefix.extend_from_slice(named);
            has_prefix = true;
        }
        let group = groups.of(has_prefix.then_some(&prefix[..]));
        for number in [ALL, group] {
            groups.get(number).count(&request, start_ms);
        }
        let since_ms = request.time_ms - start_ms;
        // What the simulated cache says of a read counts instead of what the trace says.
        bursts.add(since_ms, if causes.is_none() { request.told_hit() } else { None });
        let weight = keys.weight() / trace_fraction;
        if causes.is_some() && keys.weight() > first_weight {
            break;
        }
        let Some(state) = keys.of(hash) else {
            continue;
        };
        let of_key = OfKey { hash, group, since_ms, weight, start_ms };
        of_key.count(&request, state, (&mut groups, &mut bursts, &mut causes));
        state.requests += 1;
        state.group = group;
        state.last_ms = request.time_ms;
    }
    if causes.is_some() && keys.weight() > first_weight {
        return Err(Failure::new(MORE_KEYS));
    }
    groups.close();
    bursts.close();
    let mut remarks = reader.remarks();
    remarks.extend(groups.remark());
    remarks.extend(bursts.remark());
    Ok(Gathered {
        groups,
        keys,
        bursts,
        policy: question.cache.map(|(policy, _)| policy),
        start_ms: start_ms.unwrap_or(0),
        end_ms,
        is_dated: reader.is_dated(),
        trace_fraction,
        seen: reader.seen(),
        remarks,
        popularities: RefCell::default(),
    })
}

/// One request of a key that is remembered.
struct OfKey {
    hash: u64,
    group: u16,
    /// Since the beginning of the trace.
    since_ms: u64,
    weight: f64,
    start_ms: u64,
}

impl OfKey {
    /// Counts it by key: for all keys and for its group, in its interval, in the simulated cache.
    fn count(
        &self,
        request: &Request<'_>,
        state: &mut KeyState,
        (groups, bursts, causes): (&mut Groups, &mut Bursts, &mut Option<MissCauses>),
    ) {
        let (since_ms, weight) = (self.since_ms, self.weight);
        let last = (state.requests > 0).then(|| (state.last_ms - self.start_ms, state.payload_bytes));
        if let Some(bytes) = request.payload_bytes() {
            state.payload_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        }
        let bytes = state.payload_bytes;
        let read = causes.as_mut().and_then(|causes| causes.ask(request, self.hash, state, since_ms));
        if last.is_none_or(|(last_ms, _)| bursts.number(last_ms) < bursts.number(since_ms)) {
            bursts.add_key(weight);
        }
        if let Some(read) = read {
            bursts.end_read(read == Read::Hit, weight);
        }
        let touch = Touch { time_ms: since_ms, last, bytes, reads: request.operation.reads(), weight };
        let before = state.reads;
        for number in [ALL, self.group] {
            let figures = groups.get(number);
            state.reads = before.after(figures.touch(&touch, before));
            if let Some(read) = read {
                figures.read(since_ms, read, weight);
            }
        }
    }
}

/// Copies the prefix of a key; returns whether it has one.
fn prefix_of_key(key: Key<'_>, delimiter: u8, to: &mut Vec<u8>) -> bool {
    to.clear();
    let Key::Text(key) = key else {
        return false;
    };
    let prefix = prefix_of(key, delimiter);
    to.extend_from_slice(prefix.unwrap_or_default());
    prefix.is_some()
}
