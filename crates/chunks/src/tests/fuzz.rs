//! Runs the fuzz body on its committed inputs, and briefly on mutations of them.

use std::path::Path;

use proptest::prelude::*;

use crate::fuzz::chunks;

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/corpus/chunks");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn fuzz_chunks_on_their_seeds() {
    let seeds = seeds();
    assert!(seeds.len() >= 4);
    for seed in seeds {
        for end in (0..=seed.len()).rev().step_by(3) {
            chunks(&seed[..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn fuzz_chunks_on_mutated_seeds(
        choice in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        end in any::<prop::sample::Index>(),
    ) {
        let seeds = seeds();
        let mut input = seeds[choice.index(seeds.len())].clone();
        for (at, byte) in edits {
            let at = at.index(input.len());
            input[at] = byte;
        }
        chunks(&input);
        chunks(&input[..end.index(input.len())]);
    }

    #[test]
    fn fuzz_chunks_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        chunks(&bytes);
    }
}
