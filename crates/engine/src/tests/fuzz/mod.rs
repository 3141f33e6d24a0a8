//! Bodies of the fuzz targets: they take any bytes and panic when an invariant is broken.

mod images;
#[cfg(all(test, not(miri)))]
mod seeded;

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
