//! Causes of misses of exact policies beside naive ones.

use proptest::prelude::*;

use super::{Asked, gathered};
use crate::trace::Operation;
use crate::trace::simulate::Policy;

/// Key and value to the next eight bytes, header, index: what a reference counts.
const ITEM_BYTES: u64 = 16 + 8 + 15;

/// Hits, compulsory misses, invalidations, evictions of a list of keys that has so many places.
fn naive(requests: &[Asked], places: usize, renews: bool) -> [f64; 4] {
    let (mut list, mut known, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    let mut reads = [0.0; 4];
    for asked in requests {
        let key = asked.key;
        let was_there = list.contains(&key);
        if asked.operation == Operation::Delete {
            list.retain(|other| *other != key);
            if known.contains(&key) {
                gone.push(key);
            }
            continue;
        }
        let read = match (was_there, known.contains(&key), gone.contains(&key)) {
            (true, ..) => 0,
            (_, false, _) => 1,
            (_, _, true) => 2,
            _ => 3,
        };
        reads[read] += 1.0;
        if renews || !was_there {
            list.retain(|other| *other != key);
            list.push(key);
        }
        if list.len() > places {
            list.remove(0);
        }
        known.push(key);
        gone.retain(|other| *other != key);
    }
    reads
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn misses_of_references_are_those_of_a_naive_list(
        asked in proptest::collection::vec((0..20u8, 0..10u8), 1..500), places in 1..15usize,
    ) {
        let request = |(key, draw): (u8, u8)| {
            // Keys of six and of nine bytes: with their values they take 16 bytes.
            let operation = if draw == 0 { Operation::Delete } else { Operation::Get };
            let value_bytes = (draw > 0).then_some(4);
            Asked { gap_ms: 1, key: 20 + key, operation, value_bytes, expiry_s: None }
        };
        let requests: Vec<_> = asked.into_iter().map(request).collect();
        for (policy, renews) in [(Policy::Lru, true), (Policy::Fifo, false)] {
            let bytes = places as u64 * ITEM_BYTES;
            let gathered = gathered(&requests, 1000, Some((policy, bytes)));
            let all = gathered.groups.shown(0).remove(0).2;
            prop_assert_eq!(all.reads, naive(&requests, places, renews), "{}", policy);
        }
    }
}

#[test]
fn belady_is_refused_with_a_reason() {
    let refused = crate::trace::stats::causes::MissCauses::new(Policy::Belady, 1 << 20, 1.0);
    assert!(refused.err().is_some_and(|failure| failure.to_string().contains("simulate")));
}
