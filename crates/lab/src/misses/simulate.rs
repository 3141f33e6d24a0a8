//! A trace through a policy: payload bytes only, or in the model of the engine.

use micanite_engine::{IndexHash, Secret};
use micanite_wire::hash::KeyHash;

use super::model::{Counts, Engine, Parameters};
use super::one_log::OneLog;
use super::policy::{Outcome, Policy, replay};
use super::trace::Trace;
use super::two_logs::{Setup, TwoLogs};

/// The policy that the others are compared with: S3-FIFO as published.
pub(crate) const S3_FIFO: Policy = Policy::TwoLogs {
    small: 0.1,
    threshold: 2,
    warm_up: true,
};

/// A perfect index that costs nothing; so many bytes of header per item.
pub(crate) fn payload_only(
    trace: &Trace,
    policy: Policy,
    capacity: u64,
    header_bytes: u32,
) -> Outcome {
    let Trace {
        requests, sizes, ..
    } = trace;
    if let Policy::TwoLogs {
        small,
        threshold,
        warm_up,
    } = policy
    {
        let setup = Setup {
            small,
            threshold,
            warm_up,
            header_bytes,
        };
        return replay(requests, sizes, &mut TwoLogs::new(setup, capacity, sizes));
    }
    let mut cache = OneLog::new(policy, capacity, sizes, header_bytes);
    let cache = cache.as_mut().expect("one log is enough for the others");
    replay(requests, sizes, cache)
}

/// What the model of the engine says besides the miss ratios.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Modelled {
    pub outcome: Outcome,
    pub counts: Counts,
    pub index_bytes: u64,
    pub live: u64,
}

/// Everything counts against the capacity, which the partitions share equally.
pub(crate) fn modelled(
    trace: &Trace,
    hashes: &[IndexHash],
    policy: Policy,
    capacity: u64,
    parameters: Parameters,
) -> Modelled {
    let bits = parameters.partition_bits;
    let partitions = 1usize << bits;
    let mut sum = Modelled::default();
    for partition in 0..partitions {
        let here =
            |object: &u32| key_hash(trace.names[*object as usize]).partition(bits) == partition;
        let requests: Vec<u32> = trace.requests.iter().copied().filter(here).collect();
        if requests.is_empty() {
            continue;
        }
        let mut engine = Engine::new(policy, parameters, capacity >> bits, &trace.sizes, hashes);
        let outcome = replay(&requests, &trace.sizes, &mut engine);
        let share = requests.len() as f64 / trace.requests.len() as f64;
        sum.outcome.object_miss += outcome.object_miss * share;
        sum.outcome.moves_per_request += outcome.moves_per_request * share;
        let bytes = |requests: &[u32]| -> f64 {
            let sizes = requests.iter().map(|&o| f64::from(trace.sizes[o as usize]));
            sizes.sum()
        };
        sum.outcome.byte_miss += outcome.byte_miss * bytes(&requests) / bytes(&trace.requests);
        let counts = engine.counts();
        sum.counts.lost += counts.lost;
        sum.counts.ghosts += counts.ghosts;
        sum.counts.false_ghosts += counts.false_ghosts;
        sum.index_bytes += engine.index_bytes();
        sum.live += engine.live();
    }
    sum
}

fn key_hash(name: u64) -> KeyHash {
    KeyHash::of(&name.to_le_bytes(), 0)
}

/// The index hashes of a trace's objects.
pub(crate) fn hashes(trace: &Trace) -> Vec<IndexHash> {
    let names = trace.names.iter();
    names
        .map(|name| IndexHash::of(key_hash(*name), Secret::KNOWN))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_add_up() {
        let mut trace = Trace::new("loop");
        for request in 0..4_000u64 {
            trace.push(request % 400, 100);
        }
        let hashes = hashes(&trace);
        for partition_bits in [0, 2] {
            let parameters = Parameters {
                partition_bits,
                ..Parameters::default()
            };
            let all = modelled(&trace, &hashes, S3_FIFO, 1 << 20, parameters);
            assert_eq!(all.live, 400, "everything fits");
            assert!((all.outcome.object_miss - 0.1).abs() < 1e-9);
            assert!((all.outcome.byte_miss - 0.1).abs() < 1e-9);
        }
    }
}
