//! Latency of memory, and its bandwidth for all cores together.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use micanite_control::cores;
use micanite_workload::Random;

/// More than any cache.
const WORDS: usize = 24 << 20;
const STEPS: u32 = 2_000_000;
const COPIES: usize = 5;
const PARTS_MAX: usize = 8;

/// Measured costs.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Nanoseconds of a read that depends on the one before.
    pub latency_ns: f64,
    /// Read and written by all cores together, in GB/s.
    pub gb_s: f64,
}

/// Measures.
pub fn measure() -> Memory {
    Memory { latency_ns: latency_ns(), gb_s: gb_s() }
}

/// Follows one cycle through all lines in random order.
fn latency_ns() -> f64 {
    const WORDS_PER_LINE: usize = 16;
    let lines = WORDS / WORDS_PER_LINE;
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut random = Random::new(1);
    for at in (1..lines).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let mut next = vec![0u32; WORDS];
    for pair in order.windows(2) {
        next[pair[0] as usize * WORDS_PER_LINE] = pair[1];
    }
    next[order[lines - 1] as usize * WORDS_PER_LINE] = order[0];
    let begin = Instant::now();
    let mut at = 0u32;
    for _ in 0..STEPS {
        at = next[at as usize * WORDS_PER_LINE];
    }
    black_box(at);
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(STEPS)
}

/// Copies memory on all cores at once.
fn gb_s() -> f64 {
    let cores = cores::physical();
    // Together more than the caches, and not too much for machines with many cores.
    let words = WORDS / cores.min(PARTS_MAX);
    let ready = Barrier::new(cores + 1);
    let seconds = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(|| copy(words, &ready))).collect();
        ready.wait();
        let begin = Instant::now();
        let all_ended = threads.into_iter().all(|thread| thread.join().is_ok());
        if all_ended { begin.elapsed().as_secs_f64() } else { f64::INFINITY }
    });
    (2 * COPIES * words * 8 * cores) as f64 / seconds / 1e9
}

fn copy(words: usize, ready: &Barrier) {
    let from = vec![1u64; words];
    let mut to = vec![0u64; words];
    to.copy_from_slice(black_box(&from));
    ready.wait();
    for _ in 0..COPIES {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    }
}
