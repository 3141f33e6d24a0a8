//! The pools' streams against the published figures: sizes, operations, hit rates; and that they
//! are the same everywhere.

use std::collections::HashSet;

use micanite_workload::{Miss, Pool, PoolItem, PoolOperation, PoolOptions, PoolRequest, PoolStream};

const KEYS: u64 = 100_000;
const REQUESTS: usize = 1_000_000;

fn stored(pool: Pool) -> Vec<PoolItem> {
    let updates = pool.stream(KEYS, 3).filter(|request| request.operation == PoolOperation::Update);
    updates.take(100_000).map(|request| request.item).collect()
}

/// The length that this part of the items does not exceed.
fn quantile(lengths: &mut [usize], part: f64) -> usize {
    lengths.sort_unstable();
    lengths[(part * (lengths.len() - 1) as f64).round() as usize]
}

fn share<T>(items: &[T], matches: impl Fn(&T) -> bool) -> f64 {
    items.iter().filter(|item| matches(item)).count() as f64 / items.len() as f64
}

/// Key and value lengths at the 99th percentile; of what is stored, and of what is prefilled.
#[test]
fn ninety_ninth_percentiles() {
    let published = [
        (Pool::Usr, 21, 2),
        (Pool::App, 45, 450),
        (Pool::Etc, 80, 512),
        (Pool::Var, 30, 200),
        (Pool::Sys, 45, 640),
    ];
    for (pool, key_bytes, value_bytes) in published {
        for items in [stored(pool), pool.prefill(KEYS).collect()] {
            let mut keys: Vec<_> = items.iter().map(|item| item.key_bytes()).collect();
            let mut values: Vec<_> = items.iter().map(|item| item.value_bytes()).collect();
            for (what, found, published) in [
                ("keys", quantile(&mut keys, 0.99), key_bytes),
                ("values", quantile(&mut values, 0.99), value_bytes),
            ] {
                let relative = found as f64 / published as f64 - 1.0;
                assert!(relative.abs() < 0.05, "{pool} {what}: {found}, not {published}");
            }
        }
    }
}

#[test]
fn lengths_that_stand_out() {
    let usr = stored(Pool::Usr);
    assert!(usr.iter().all(|item| matches!(item.key_bytes(), 16 | 21)));
    assert!(usr.iter().all(|item| item.value_bytes() == 2));
    let app = stored(Pool::App);
    assert!(share(&app, |item| item.key_bytes() == 31) > 0.9);
    assert!(share(&app, |item| (255..=285).contains(&item.value_bytes())) > 0.3);
    let etc = stored(Pool::Etc);
    let tiny = share(&etc, |item| matches!(item.value_bytes(), 2 | 3 | 11));
    assert!((tiny - 0.4).abs() < 0.02, "{tiny}");
    let large = Pool::Etc.prefill(1_000_000);
    let large = large.filter(|item| item.value_bytes() >= 900_000).count();
    assert!((10..=40).contains(&large), "{large}");
}

/// Except in ETC, 90 % of the values' memory is in those below 500 bytes; in SYS 8 % is in those of
/// 320 bytes, and nearly 80 % in those of almost 500.
#[test]
fn weight_of_lengths() {
    let weight = |pool: Pool, range: std::ops::Range<usize>| {
        let lengths: Vec<_> = pool.prefill(KEYS).map(|item| item.value_bytes()).collect();
        let within: usize = lengths.iter().filter(|length| range.contains(length)).sum();
        within as f64 / lengths.iter().sum::<usize>() as f64
    };
    for pool in [Pool::Usr, Pool::App, Pool::Var, Pool::Sys] {
        assert!(weight(pool, 0..500) > 0.9, "{pool}");
    }
    assert!(weight(Pool::Etc, 0..500) < 0.9);
    let (at_320, nearly_500) = (weight(Pool::Sys, 318..323), weight(Pool::Sys, 485..500));
    assert!((at_320 - 0.08).abs() < 0.02, "{at_320}");
    assert!((nearly_500 - 0.8).abs() < 0.05, "{nearly_500}");
}

#[test]
fn operations() {
    for (pool, published) in [
        (Pool::Usr, [99.7, 0.2, 0.1]),
        (Pool::App, [83.4, 5.2, 11.4]),
        // The published ones add up to 99.7.
        (Pool::Etc, [73.6, 2.3, 24.1]),
        (Pool::Var, [18.0, 82.0, 0.0]),
        (Pool::Sys, [67.5, 32.5, 0.0]),
    ] {
        let mut counts = [0; 3];
        for request in pool.stream(KEYS, 1).take(REQUESTS) {
            counts[request.operation as usize] += 1;
        }
        for (count, published) in counts.into_iter().zip(published) {
            let found = 100.0 * f64::from(count) / REQUESTS as f64;
            assert!((found - published).abs() < 0.15, "{pool}: {found}, not {published}");
        }
    }
}

/// A mix of one's own changes the operations, and neither the hit rate nor what is asked for.
#[test]
fn another_mix() {
    for pool in Pool::ALL {
        let options = PoolOptions { mix: Some([1.0, 1.0, 0.0]), ..PoolOptions::new(KEYS, 1) };
        let requests: Vec<_> = PoolStream::new(pool, options).take(REQUESTS).collect();
        let gets: Vec<_> =
            requests.iter().filter(|request| request.operation == PoolOperation::Get).collect();
        assert!((gets.len() as f64 / REQUESTS as f64 - 0.5).abs() < 0.003);
        assert!(requests.iter().all(|request| request.operation != PoolOperation::Delete));
        let hits = share(&gets, |request| request.miss.is_none());
        assert!((hits - pool.hit_rate()).abs() < 0.003, "{pool}: {hits}");
    }
}

/// A server that holds what was prefilled, and whose clients do not store what they miss: GETs hit
/// at the published rate, those that are meant to, from the start and for as long as it goes on.
#[test]
fn hits_of_the_prefilled_set() {
    let published = [98.2, 92.9, 81.4, 93.7, 98.7];
    for (pool, published) in Pool::ALL.into_iter().zip(published) {
        let keys = 2000;
        let mut server: HashSet<_> = pool.prefill(keys).collect();
        let mut streams: Vec<_> =
            (0..2).map(|thread| PoolStream::new(pool, of_thread(keys, thread))).collect();
        for round in 0..4 {
            let (mut gets, mut hits) = (0.0, 0.0);
            for turn in 0..REQUESTS / 2 {
                let Some(request) = streams[turn % 2].next() else {
                    panic!("a stream has no end");
                };
                let found = handle(&mut server, &request);
                if request.operation == PoolOperation::Get {
                    assert_eq!(found, request.miss.is_none(), "{pool}: {request:?}");
                    (gets, hits) = (gets + 1.0, hits + f64::from(u8::from(found)));
                }
            }
            let rate = 100.0 * hits / gets;
            assert!((rate - published).abs() < 0.5, "{pool} {round}: {rate}");
        }
    }
}

fn of_thread(keys: u64, thread: usize) -> PoolOptions {
    PoolOptions { part: (thread, 2), ..PoolOptions::new(keys, 5) }
}

/// Returns whether the item was there.
fn handle(server: &mut HashSet<PoolItem>, request: &PoolRequest) -> bool {
    match request.operation {
        PoolOperation::Get => server.contains(&request.item),
        PoolOperation::Update => !server.insert(request.item),
        PoolOperation::Delete => server.remove(&request.item),
    }
}

/// Several pools may share a server.
#[test]
fn pools_have_keys_of_their_own() {
    let mut keys = HashSet::new();
    for item in Pool::ALL.iter().flat_map(|pool| pool.prefill(2000)) {
        let mut key = Vec::new();
        item.push_key(&mut key);
        assert!(keys.insert(key));
    }
}

/// New keys are new, also beside those of other threads and seeds.
#[test]
fn new_keys_are_new() {
    let mut seen = HashSet::new();
    for (seed, thread) in [(1, 0), (1, 1), (2, 0)] {
        let options = PoolOptions { part: (thread, 2), ..PoolOptions::new(1000, seed) };
        for request in PoolStream::new(Pool::Var, options).take(100_000) {
            if request.miss == Some(Miss::Compulsory) {
                let mut key = Vec::new();
                request.item.push_key(&mut key);
                assert!(seen.insert(key));
            }
        }
    }
    assert!(seen.len() > 2000);
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    for pool in Pool::ALL {
        let first = |seed| pool.stream(KEYS, seed).take(1000).collect::<Vec<_>>();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }
}

/// Pins the streams: whoever changes them changes what was measured with them.
#[test]
fn the_first_requests() {
    let expected = [
        "Get SvZFmdQDJgSvZFmdQDJgS 2 e9f84339c290d10e",
        "Get 2_jv6vS3bm2_jv6vS3bm2_jv6vS3bm2 265 f65e7e80f9579d02",
        "Get o8aEt9hAIbo8aEt9hAIbo8aEt9hAIbo8aEt9hAIbo8aEt9hAI 115 67b5f4081d9e8771",
        "Update iyKG_NVwCniyKG_NVwCniyK 99 4401796fb74169ff",
        "Get AID_3RWAatAID_3RWAatAID_3RWAatAID 497 0b3c17c94bd00612",
    ];
    assert_eq!(Pool::ALL.map(digest), expected);
}

/// The first request in words, and all of the first 100,000 in a number (FNV-1a).
fn digest(pool: Pool) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut words = String::new();
    let mut bytes = Vec::new();
    for request in pool.stream(KEYS, 1).take(100_000) {
        bytes.clear();
        bytes.push(request.operation as u8);
        request.item.push_key(&mut bytes);
        if words.is_empty() {
            let key = String::from_utf8_lossy(&bytes[1..]);
            words = format!("{:?} {key} {}", request.operation, request.item.value_bytes());
        }
        bytes.extend((request.item.value_bytes() as u32).to_le_bytes());
        for byte in &bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    format!("{words} {hash:016x}")
}
