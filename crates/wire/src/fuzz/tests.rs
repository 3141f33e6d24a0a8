//! Runs the fuzz bodies on their committed inputs, and briefly on mutations of them.

use std::path::Path;

use proptest::prelude::*;

use super::*;

fn seeds(corpus: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/corpus").join(corpus);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = files.iter().map(|file| std::fs::read(file).unwrap());
    read.collect()
}

#[test]
fn fuzz_text_parser_on_its_seeds() {
    let seeds = seeds("text");
    assert!(seeds.len() >= 10);
    for seed in seeds {
        for piece in 0..=255 {
            text_parser(&[&[piece], seed.as_slice()].concat());
        }
    }
}

#[test]
fn fuzz_binary_parser_on_its_seeds() {
    let seeds = seeds("binary");
    assert!(seeds.len() >= 10);
    for seed in seeds {
        for end in 0..=seed.len() {
            binary_parser(&seed[..end]);
        }
    }
}

/// All bodies get the inputs of the others, too.
#[test]
fn fuzz_native_on_its_seeds() {
    for (corpus, seeds_min) in [("native-requests", 20), ("native-replies", 20), ("native-fabric", 8)] {
        let seeds = seeds(corpus);
        assert!(seeds.len() >= seeds_min);
        for seed in seeds {
            for end in 0..=seed.len() {
                native_requests(&seed[..end]);
                native_replies(&seed[..end]);
                native_fabric(&seed[..end]);
            }
        }
    }
}

/// Place, number of bytes, and the byte that replaces them.
type Edit = (prop::sample::Index, usize, u8);

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = (any::<prop::sample::Index>(), 0usize..4, any::<u8>());
    prop::collection::vec(edit, 0..12)
}

/// Replaces bytes by as many others, or by more or fewer, so that lengths change or stay.
fn mutate(mut input: Vec<u8>, edits: Vec<Edit>) -> Vec<u8> {
    for (at, length, byte) in edits {
        let at = at.index(input.len() + 1);
        let end = input.len().min(at + length);
        let with = [byte; 2].into_iter().take(usize::from(byte) % 3);
        if byte % 2 == 0 {
            input.splice(at..end, with);
        } else {
            input[at..end].fill(byte);
        }
    }
    input
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn fuzz_text_parser_on_mutated_seeds(
        choice in any::<prop::sample::Index>(),
        piece in any::<u8>(),
        edits in edits(),
    ) {
        let seeds = seeds("text");
        let input = mutate(seeds[choice.index(seeds.len())].clone(), edits);
        text_parser(&[&[piece], input.as_slice()].concat());
    }

    #[test]
    fn fuzz_binary_parser_on_mutated_seeds(choice in any::<prop::sample::Index>(), edits in edits()) {
        let seeds = seeds("binary");
        binary_parser(&mutate(seeds[choice.index(seeds.len())].clone(), edits));
    }

    #[test]
    fn fuzz_udp_frames_on_any_bytes(
        head in prop::collection::vec(0u8..3, 0..12),
        bytes in prop::collection::vec(any::<u8>(), 0..4000),
    ) {
        udp_frames(&[head, bytes].concat());
    }

    #[test]
    fn fuzz_native_requests_on_mutated_seeds(choice in any::<prop::sample::Index>(), edits in edits()) {
        let seeds = seeds("native-requests");
        native_requests(&mutate(seeds[choice.index(seeds.len())].clone(), edits));
    }

    #[test]
    fn fuzz_native_replies_on_mutated_seeds(choice in any::<prop::sample::Index>(), edits in edits()) {
        let seeds = seeds("native-replies");
        native_replies(&mutate(seeds[choice.index(seeds.len())].clone(), edits));
    }

    #[test]
    fn fuzz_native_fabric_on_mutated_seeds(choice in any::<prop::sample::Index>(), edits in edits()) {
        let seeds = seeds("native-fabric");
        native_fabric(&mutate(seeds[choice.index(seeds.len())].clone(), edits));
    }
}
