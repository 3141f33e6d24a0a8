//! Writes on their way, which gets of their keys wait for.

use std::sync::atomic::{AtomicU32, Ordering};

/// Places of the table, a power of two.
const WRITES_PLACES: usize = 256;

/// Writes that are not acknowledged, by parts of their keys' hashes.
#[derive(Debug)]
pub(crate) struct Writes(Box<[AtomicU32]>);

impl Default for Writes {
    fn default() -> Self {
        Self((0..WRITES_PLACES).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Writes {
    fn place(&self, hash: u64) -> &AtomicU32 {
        &self.0[hash as usize & (WRITES_PLACES - 1)]
    }

    /// Returns whether a write of this key may be on its way.
    #[inline]
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        self.place(hash).load(Ordering::Acquire) != 0
    }

    pub(crate) fn begin(&self, hash: u64) {
        self.place(hash).fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end(&self, hash: u64) {
        self.place(hash).fetch_sub(1, Ordering::AcqRel);
    }
}
