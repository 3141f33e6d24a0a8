//! The bodies of the fuzz targets on their committed inputs, and on drawn ones.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;

use super::images::EDIT_BYTES;
use super::*;

fn seeds(corpus: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/corpus").join(corpus);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn fuzz_operations_on_its_seeds() {
    let seeds = seeds("operations");
    assert!(seeds.len() >= CACHE_SHAPES + STORE_SHAPES);
    for seed in seeds {
        for drawn in (0..=255).step_by(5) {
            let mut input = seed.clone();
            input[1] = drawn;
            operations(&input);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 700, failure_persistence: None, ..Default::default() })]

    #[test]
    fn fuzz_operations_on_mutated_seeds(
        choice in any::<prop::sample::Index>(),
        engine in any::<[u8; 3]>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..24, any::<u64>()), 0..12),
    ) {
        let seeds = seeds("operations");
        let mut input = seeds[choice.index(seeds.len())].clone();
        input[..3].copy_from_slice(&engine);
        for (at, length, step) in edits {
            let at = at.index(input.len() + 1).max(3);
            let end = input.len().min(at + length);
            let inserted = &step.to_le_bytes()[..(step >> 60) as usize % 9];
            input.splice(at..end, inserted.iter().copied());
        }
        operations(&input);
    }
}

/// Longest time for one input before it counts as endless.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs inputs on a thread of their own, which is given up when one does not end.
fn run_all(inputs: impl Iterator<Item = Vec<u8>>) {
    let (sender, receiver) = mpsc::channel::<Vec<u8>>();
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        for input in receiver {
            let result = std::panic::catch_unwind(|| images(&input));
            if done.send(result.is_ok()).is_err() {
                return;
            }
        }
    });
    for input in inputs {
        sender.send(input.clone()).unwrap();
        let is_fine = ended.recv_timeout(DEADLINE);
        assert_eq!(is_fine, Ok(true), "{input:02x?}");
    }
}

/// Runs each committed damage in each kind of image.
#[test]
fn fuzz_images_on_its_seeds() {
    let seeds = seeds("images");
    assert!(seeds.len() >= 8);
    run_all(seeds.iter().cloned());
    run_all(seeds.into_iter().flat_map(|seed| {
        (0..128u8).step_by(7).map(move |shape| {
            let mut input = seed.clone();
            input[0] = shape;
            input
        })
    }));
}

/// Runs entries that lead into the middle of an item whose bytes look like an expired one.
#[test]
fn fuzz_images_on_shifted_entries() {
    let inputs: [&[u8]; 2] = [
        b"\x93\xc1\x0c\x4f\x0e\xdd\x11\x69\xac\x4e\xc3\x59\xa9\x7d",
        b"\x37\xb3\x0c\x31\x1e\x0c\x68\x8c\x4d\xea\xb9\xf7\xbb\
          \x0b\xfb\x58\xb3\xb7\x10\x84\xb6\x60\x84\xa5\xe2\xcd",
    ];
    run_all(inputs.into_iter().map(<[u8]>::to_vec));
}

/// Runs the largest stamp: the next write once overflowed it.
#[test]
fn fuzz_images_on_the_last_stamp() {
    run_all(std::iter::once(vec![57, 2, 194, 208, 43, 24, 64, 0, 0, 0, 0, 0, 0, 0]));
}

/// Runs a few changes outside of the items, most of them in the index.
#[test]
fn fuzz_images_on_changes_outside_of_the_items() {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    run_all((0..400).map(|_| {
        let mut input = vec![next(), 100 + next() % 150];
        for _ in 0..1 + next() % 2 {
            let kind = [0, 1, 2, 2, 2, 3][usize::from(next() % 6)];
            input.push(next() % 6 * 5 + kind);
            (1..EDIT_BYTES).for_each(|_| input.push(next()));
        }
        input
    }));
}

/// Runs flipped bits, high and low ones, in each of the header's first words.
#[test]
fn fuzz_images_on_flipped_bits_of_a_header() {
    let bits = |word: u8| (0..64u8).filter(move |bit| bit % 8 == word % 8);
    let words = (0..64).flat_map(|word| bits(word).map(move |bit| (word, bit)));
    run_all(words.enumerate().map(|(at, (word, bit))| {
        let shape = at as u8 & 0x3f;
        vec![shape, 150, 0, word, 0, 0, bit, 0, 0, 0, 0, 0, 0, 0]
    }));
}

proptest! {
    // The draws are the same each time. Once in some ten thousand, a change copies the key of one
    // item over another's, which nothing can tell from a real item. `make fuzz` draws others.
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(17),
        ..Default::default()
    })]

    /// Runs a few changes anywhere.
    #[test]
    fn fuzz_images_on_drawn_changes(
        shape in any::<u8>(),
        filled in any::<u8>(),
        edits in prop::collection::vec(any::<[u8; EDIT_BYTES]>(), 1..6),
    ) {
        let mut input = vec![shape, filled];
        input.extend_from_slice(edits.as_flattened());
        run_all(std::iter::once(input));
    }
}
