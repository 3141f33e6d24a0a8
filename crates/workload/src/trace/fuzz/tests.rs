//! The fuzz bodies on their committed inputs, and briefly on mutations of them.

use std::path::Path;

use proptest::prelude::*;

use super::*;

fn seeds(corpus: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/corpus").join(corpus);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn fuzz_on_the_seeds() {
    for (corpus, body, seeds_min) in
        [("formats", trace_readers as fn(&[u8]), 10), ("packets", trace_packets, 8)]
    {
        let seeds = seeds(corpus);
        assert!(seeds.len() >= seeds_min, "{corpus}");
        for seed in seeds {
            for end in (0..=seed.len()).rev().step_by(1 + seed.len() / 64) {
                body(&seed[..end]);
            }
        }
    }
}

/// Place and number of bytes, and their replacement.
type Edit = (prop::sample::Index, usize, u8);

fn mutate(mut input: Vec<u8>, edits: Vec<Edit>) -> Vec<u8> {
    for (at, length, byte) in edits {
        let at = at.index(input.len() + 1);
        let end = input.len().min(at + length);
        if byte % 2 == 0 {
            let with = [byte; 2].into_iter().take(usize::from(byte) % 3);
            input.splice(at..end, with);
        } else {
            input[at..end].fill(byte);
        }
    }
    input
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn fuzz_on_mutated_seeds(
        choice in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..4, any::<u8>()), 0..12),
    ) {
        for (corpus, body) in [("formats", trace_readers as fn(&[u8])), ("packets", trace_packets)] {
            let seeds = seeds(corpus);
            body(&mutate(seeds[choice.index(seeds.len())].clone(), edits.clone()));
        }
    }
}
