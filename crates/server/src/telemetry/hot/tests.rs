//! The sketch against loads whose hot keys are known.

use micanite_engine::{KeyHash, Operation};

use super::*;

/// Draws of a Zipf distribution by inverting its cumulated weights.
struct Zipf {
    cumulated: Vec<f64>,
    random: u64,
}

impl Zipf {
    fn new(keys: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weight = |rank: usize| ((rank + 1) as f64).powf(-exponent);
        let cumulated = (0..keys).map(|rank| {
            sum += weight(rank);
            sum
        });
        Self { cumulated: cumulated.collect(), random: 0x9e37_79b9_7f4a_7c15 }
    }

    fn share(&self, rank: usize) -> f64 {
        let before = rank.checked_sub(1).map_or(0.0, |rank| self.cumulated[rank]);
        (self.cumulated[rank] - before) / self.cumulated[self.cumulated.len() - 1]
    }

    fn draw(&mut self) -> usize {
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let part = (bits >> 11) as f64 / (1u64 << 53) as f64;
        let wanted = part * self.cumulated[self.cumulated.len() - 1];
        self.cumulated.partition_point(|sum| *sum < wanted)
    }
}

fn name(rank: usize) -> Vec<u8> {
    format!("key {rank}").into_bytes()
}

/// One batch of a load.
fn batch(sketch: &HotKeys, ranks: &[usize], now_s: u32) {
    let keys: Vec<_> = ranks.iter().map(|rank| name(*rank)).collect();
    let requests: Vec<_> = keys
        .iter()
        .zip(ranks)
        .map(|(key, rank)| Request {
            hash: KeyHash((*rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            key,
            operation: Operation::Get { cas: false },
        })
        .collect();
    sketch.note(&requests, now_s);
}

/// Seconds of a load of so many requests a second, in batches of 32.
fn load(sketch: &HotKeys, zipf: &mut Zipf, seconds: std::ops::Range<u32>, per_second: usize) {
    for now_s in seconds {
        for _ in 0..per_second / 32 {
            let ranks: [usize; 32] = std::array::from_fn(|_| zipf.draw());
            batch(sketch, &ranks, now_s);
        }
    }
}

#[test]
fn the_ten_hottest_of_a_zipf_load_are_found_with_their_shares() {
    let mut zipf = Zipf::new(1_000_000, 0.99);
    let workers = [HotKeys::new(1), HotKeys::new(2)];
    for worker in &workers {
        load(worker, &mut zipf, 100..160, 40_000);
    }
    let found = hottest(&workers, 160, 20);
    assert!(found.samples > 5000.0, "{}", found.samples);
    for rank in 0..10 {
        let key = name(rank);
        let hot = found.keys.iter().find(|hot| *hot.key == *key);
        let hot = hot.unwrap_or_else(|| panic!("rank {rank} is not among {:?}", found.keys));
        let ratio = hot.share / zipf.share(rank);
        assert!((0.7..1.3).contains(&ratio), "rank {rank}: {ratio}");
    }
}

#[test]
fn hot_keys_fade() {
    let workers = [HotKeys::new(1)];
    for now_s in 0..100 {
        (0..100).for_each(|_| batch(&workers[0], &[1; 32], now_s));
    }
    assert_eq!(*hottest(&workers, 100, 1).keys[0].key, *name(1));
    for now_s in 100..160 {
        (0..100).for_each(|_| batch(&workers[0], &[2; 32], now_s));
    }
    let found = hottest(&workers, 160, 2);
    assert_eq!(*found.keys[0].key, *name(2));
    // Three half-lives.
    assert!(found.keys[0].share > 0.8 && found.keys[1].share < 0.2);
    // Nobody asks for anything any more.
    assert_eq!(hottest(&workers, 10_000, 2), Hottest::default());
}

#[test]
fn a_load_that_repeats_itself_is_not_sampled_in_step() {
    let workers = [HotKeys::new(1)];
    let ranks: [usize; 64] = std::array::from_fn(|rank| rank);
    for now_s in 0..40 {
        (0..2000).for_each(|_| batch(&workers[0], &ranks, now_s));
    }
    let found = hottest(&workers, 40, 64);
    assert_eq!(found.keys.len(), 64);
    let ratio = found.keys[0].share / found.keys[63].share;
    assert!(ratio < 2.0, "{ratio}");
}

#[test]
fn samples_become_rare_under_load_and_frequent_again() {
    let worker = [HotKeys::new(1)];
    let samples = |of: &[HotKeys], now_s| hottest(of, now_s, 1).samples;
    (0..50_000).for_each(|_| batch(&worker[0], &[1; 32], 1));
    let busy = samples(&worker, 1);
    assert!(busy < 10_000.0, "{busy}");
    // Few requests: before long each of them is a sample.
    for now_s in 2..40 {
        worker[0].calm(now_s);
        (0..10).for_each(|_| batch(&worker[0], &[2], now_s));
    }
    let before = samples(&worker, 39);
    (0..10).for_each(|_| batch(&worker[0], &[2], 39));
    assert!((samples(&worker, 39) - before - 10.0).abs() < 0.5);
}

#[test]
fn keys_are_printed_without_surprises() {
    assert_eq!(printed(b"user:1/a b\xff"), "user%3A1%2Fa%20b%FF");
}
