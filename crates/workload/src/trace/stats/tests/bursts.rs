//! Bursts and hits over time beside naive ones.

use std::collections::HashSet;

use proptest::prelude::*;

use crate::trace::open::Reader;
use crate::trace::stats::gather::{Question, gather};
use crate::trace::stats::groups::ALL;
use crate::trace::stats::times::{Burst, Count};
use crate::trace::{Failure, Key, Operation, Outcome, Request};

/// A read at a second, of a key, and its end.
#[derive(Clone, Copy, Debug)]
struct Read {
    second: u64,
    key: u64,
    outcome: Outcome,
}

struct Reads(std::vec::IntoIter<Read>);

impl Reader for Reads {
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        Ok(self.0.next().map(|read| Request {
            time_ms: read.second * 1000,
            key: Key::Number(read.key),
            operation: Operation::Get,
            key_bytes: 8,
            value_bytes: Some(1),
            expiry_s: None,
            outcome: read.outcome,
        }))
    }
}

/// Parts of a trace: seconds, requests in each, different keys, one in so many misses.
fn parts() -> impl Strategy<Value = Vec<(u64, u64, u64, u64)>> {
    let usual = (30..300u64, 25..40u64, 1..50u64, 2..5u64);
    let burst = (1..5u64, 70..150u64, 1..5u64, 1..9u64);
    let long = (600..700u64, 100..120u64, 1..5u64, 1..9u64);
    let quiet = (1..700u64, 0..3u64, 1..5u64, 1..9u64);
    proptest::collection::vec(prop_oneof![8 => usual, 5 => burst, 1 => long, 1 => quiet], 1..25)
}

fn reads_of(parts: &[(u64, u64, u64, u64)]) -> Vec<Read> {
    let (mut reads, mut second, mut drawn) = (Vec::new(), 0, 1u64);
    for (seconds, requests, keys, misses) in parts {
        for at in second..second + seconds {
            for _ in 0..*requests {
                drawn = drawn.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let outcome = match (drawn >> 33) % misses {
                    0 => Outcome::Miss,
                    1 => Outcome::Unknown,
                    _ => Outcome::Hit,
                };
                reads.push(Read { second: at, key: (drawn >> 40) % keys, outcome });
            }
        }
        second += seconds;
    }
    reads
}

/// The counts of each second from the first request on.
fn seconds(reads: &[Read]) -> Vec<Count> {
    let first = reads[0].second;
    let mut seconds = vec![Count::default(); (reads[reads.len() - 1].second - first + 1) as usize];
    let mut keys = vec![HashSet::new(); seconds.len()];
    for read in reads {
        let at = (read.second - first) as usize;
        keys[at].insert(read.key);
        seconds[at].requests += 1;
        seconds[at].reads += f64::from(u8::from(read.outcome != Outcome::Unknown));
        seconds[at].hits += f64::from(u8::from(read.outcome == Outcome::Hit));
    }
    seconds.iter_mut().zip(keys).for_each(|(second, keys)| second.keys = keys.len() as f64);
    seconds
}

fn sum(counts: &[Count]) -> Count {
    counts.iter().fold(Count::default(), |sum, count| Count {
        requests: sum.requests + count.requests,
        keys: sum.keys + count.keys,
        reads: sum.reads + count.reads,
        hits: sum.hits + count.hits,
    })
}

/// Goes over all seconds, and over the 600 before each.
fn naive(seconds: &[Count]) -> Vec<Burst> {
    let (mut usual, mut found): (Vec<Count>, Vec<Burst>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < seconds.len() {
        let before = &usual[usual.len().saturating_sub(600)..];
        let mean = sum(before).requests as f64 / before.len().max(1) as f64;
        let is_burst = |count: &Count| {
            let above = count.requests as f64 - mean;
            before.len() >= 60 && mean >= 20.0 && above > mean / 2.0 && above > 6.0 * mean.sqrt()
        };
        let length = seconds[at..].iter().take_while(|count| is_burst(count)).count();
        if length == 0 {
            usual.push(seconds[at]);
            at += 1;
        } else if length > 600 {
            usual.clear();
            at += 601;
        } else {
            let of_burst = &seconds[at..at + length];
            let peak = of_burst.iter().map(|count| count.requests).max().unwrap_or(0) as f64 / mean;
            found.push(Burst {
                first: at as u64,
                intervals: length as u64,
                all: sum(of_burst),
                peak,
                before_intervals: before.len(),
                before: sum(before),
            });
            at += length;
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn bursts_are_those_of_a_naive_search(parts in parts()) {
        let reads = reads_of(&parts);
        prop_assume!(!reads.is_empty());
        let mut reader = Reads(reads.clone().into_iter());
        let gathered = gather(&mut reader, &Question::new(1000), &mut |_| {}).unwrap();
        let seconds = seconds(&reads);
        prop_assert_eq!(gathered.bursts.listed(), naive(&seconds));
        // Hits over time are joined in parts of equal width.
        let all = gathered.groups.shown(0).remove(0);
        prop_assert_eq!(all.0, ALL);
        let hits = &all.2.hits;
        for (bin, part) in hits.counts.iter().zip(seconds.chunks((hits.width_ms / 1000) as usize)) {
            let expected = sum(part);
            prop_assert_eq!(bin.told, [expected.reads, expected.hits]);
        }
        prop_assert_eq!(hits.counts.iter().map(|bin| bin.told[0]).sum::<f64>(), sum(&seconds).reads);
    }
}
