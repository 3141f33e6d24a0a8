//! The model in small: its invariants, and what it is there to show.

use super::*;
use micanite_engine::Secret;
use micanite_wire::hash::KeyHash;

const S3: Policy = Policy::TwoLogs {
    small: 0.25,
    threshold: 2,
    warm_up: false,
};

fn hashes(objects: u64) -> Vec<IndexHash> {
    (0..objects)
        .map(|object| IndexHash::of(KeyHash::of(&object.to_le_bytes(), 7), Secret::KNOWN))
        .collect()
}

/// Requests of pseudo-random objects, small numbers more often.
fn skewed(objects: u32, count: usize) -> Vec<u32> {
    let mut random = crate::popularity::Random::new(3);
    let mut draw = || random.unit() * random.unit() * f64::from(objects);
    (0..count).map(|_| draw() as u32).collect()
}

fn parameters() -> [Parameters; 4] {
    let standard = Parameters::default();
    [
        standard,
        Parameters {
            perfect_ghosts: true,
            ..standard
        },
        Parameters {
            grow_on_shortage: false,
            ..standard
        },
        Parameters {
            load: 0.3,
            buckets_per_spare: 2,
            ghost_window: 3.0,
            reappends_max: 0,
            ..standard
        },
    ]
}

/// After every request: what the index, the logs and the places say agrees, and together
/// they keep within the capacity.
#[test]
fn index_and_logs_agree_and_keep_within_the_capacity() {
    let (objects, capacity) = (600, 20_000);
    let hashes = hashes(objects);
    let sizes: Vec<u32> = (0..objects as u32).map(|n| 1 + n * 37 % 200).collect();
    for policy in [
        S3,
        Policy::Fifo,
        Policy::Lru,
        Policy::ApproximateLru { oldest: 0.5 },
        Policy::Clock {
            bits: 2,
            reappends_max: 9,
        },
    ] {
        for parameters in parameters() {
            let mut engine = Engine::new(policy, parameters, capacity, &sizes, &hashes);
            for object in skewed(objects as u32, 5_000) {
                engine.request(object);
                let items = &engine.items;
                assert!(items.small.used() <= items.small.capacity);
                assert!(items.main.used() <= items.main.capacity);
                let logs = items.small.capacity + items.main.capacity;
                assert!(logs + engine.index_bytes() <= capacity);
            }
            let live = (0..objects as usize).filter_map(|number| {
                let place = engine.items.place[number]?;
                Some((hashes[number], place))
            });
            let found =
                live.map(|(hash, place)| engine.index.slot_of(hash, place.log, place.position));
            let found: Vec<_> = found.collect();
            assert!(found.iter().all(Option::is_some), "{policy} {parameters:?}");
            assert_eq!(found.len() as u64, engine.live());
            assert!(engine.live() > 50);
        }
    }
}

/// Without overwrites an entry that is no longer live is a ghost or worthless: the same
/// object asked for again soon after it left the small log goes to the main log.
#[test]
fn a_ghost_returns_to_the_main_log() {
    let hashes = hashes(1_000);
    let sizes = vec![56; 1_000];
    for perfect_ghosts in [false, true] {
        let parameters = Parameters {
            perfect_ghosts,
            load: 0.3,
            ..Parameters::default()
        };
        let mut engine = Engine::new(S3, parameters, 64 * 1024, &sizes, &hashes);
        let small = (engine.items.small.capacity / 64) as u32;
        for object in 0..=small {
            assert!(!engine.request(object));
        }
        assert_eq!(engine.items.place[0], None, "it left as the oldest");
        assert!(!engine.request(0));
        let place = engine.items.place[0].expect("it is back");
        assert_eq!(place.log, Which::Main);
        assert!(!engine.request(999), "a stranger");
        let place = engine.items.place[999].expect("it is in");
        assert_eq!(place.log, Which::Small);
    }
}

#[test]
fn two_hits_promote_and_one_does_not() {
    let hashes = hashes(1_000);
    let sizes = vec![56; 1_000];
    let mut engine = Engine::new(S3, Parameters::default(), 64 * 1024, &sizes, &hashes);
    for object in [0, 0, 0, 1, 1] {
        engine.request(object);
    }
    for object in 2..300 {
        engine.request(object);
    }
    assert_eq!(
        engine.items.place[0].map(|place| place.log),
        Some(Which::Main)
    );
    assert_eq!(engine.items.place[1], None);
}

/// The index is small enough at the start for buckets to overflow; growing on a shortage of
/// spare buckets keeps items that growing by load alone loses.
#[test]
fn growing_on_a_shortage_loses_fewer_items() {
    let hashes = hashes(20_000);
    let sizes = vec![56; 20_000];
    let lost = |grow_on_shortage| {
        let parameters = Parameters {
            load: 0.9,
            grow_on_shortage,
            ..Parameters::default()
        };
        let mut engine = Engine::new(Policy::Fifo, parameters, 4 << 20, &sizes, &hashes);
        for object in 0..20_000 {
            engine.request(object);
        }
        engine.counts().lost
    };
    assert!(lost(true) * 10 < lost(false));
}
