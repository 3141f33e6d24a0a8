//! Bodies of the fuzz targets: they take any bytes and panic when an invariant is broken.

mod images;

pub use images::images;

use crate::tests::model::{CACHE_SHAPES, Model, STORE_SHAPES, cache_geometry, store_geometry};

/// Runs requests, changes of modes and owners, flushes and the passing of time against the model of
/// the engine's tests.
///
/// The first three bytes of `data` choose an engine and the number of keys; every eight further
/// bytes are a step.
pub fn operations(data: &[u8]) {
    let [shape, drawn, keys, steps @ ..] = data else {
        return;
    };
    let (shape, drawn) = (usize::from(*shape), usize::from(*drawn));
    let geometry = match (shape % (CACHE_SHAPES + STORE_SHAPES)).checked_sub(CACHE_SHAPES) {
        None => cache_geometry(shape % (CACHE_SHAPES + STORE_SHAPES), drawn),
        Some(shape) => store_geometry(shape, drawn),
    };
    let mut model = Model::new(&geometry, 1 + usize::from(*keys));
    for step in steps.chunks(8) {
        let mut word = [0; 8];
        word[..step.len()].copy_from_slice(step);
        model.step(u64::from_le_bytes(word));
    }
    model.clear();
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn seeds() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/corpus/operations");
        let entries = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| std::fs::read(file).unwrap()).collect()
    }

    #[test]
    fn fuzz_operations_on_its_seeds() {
        let seeds = seeds();
        assert!(seeds.len() >= CACHE_SHAPES + STORE_SHAPES);
        for seed in seeds {
            for drawn in 0..=255 {
                let mut input = seed.clone();
                input[1] = drawn;
                operations(&input);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

        #[test]
        fn fuzz_operations_on_mutated_seeds(
            choice in any::<prop::sample::Index>(),
            engine in any::<[u8; 3]>(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..24, any::<u64>()), 0..12),
        ) {
            let mut input = seeds()[choice.index(seeds().len())].clone();
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
}
