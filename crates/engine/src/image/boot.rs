//! The boot of the machine in which an image was written: one that was not closed is of use in the same boot.

use std::fs;

use micanite_wire::hash::KeyHash;

use crate::cache::error::{CreateError, CreateErrorKind};
use crate::image::source::{HeaderWords, Source};
use crate::region::Field;
use crate::region::fields::MAGIC;

/// Returns a number for this boot of the machine, never zero, if the kernel has one.
fn boot() -> Option<u64> {
    let id = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    Some(KeyHash::of(&id, 0).0 | 1)
}

/// The boot of an image whose kernel had no number.
const UNKNOWN: u64 = 0;
/// The boot of a copy that is not complete. Numbers of boots are odd.
const COPY: u64 = 2;

/// Reason for which such a copy is of no use.
pub(super) const UNFINISHED: &str = "it is a copy that was not finished";

/// Returns why partitions of these boots that were not closed are of no use; `None` if they are.
pub(super) fn distrust(mut boots: impl Iterator<Item = u64> + Clone) -> Option<&'static str> {
    let now = boot();
    if boots.clone().all(|boot| Some(boot) == now) {
        return None;
    }
    if boots.clone().all(|boot| boot == COPY) {
        return Some(UNFINISHED);
    }
    match now.is_none() || boots.any(|boot| boot == UNKNOWN) {
        true => Some("it was not closed, and the kernel does not tell in which boot it was written"),
        false => Some("the machine was started anew while it was in use"),
    }
}

/// Returns whether a first partition is that of a copy that was not finished.
pub(super) fn is_unfinished_copy(header: &HeaderWords) -> bool {
    let word = |field: Field| header[field as usize];
    word(Field::Magic) == MAGIC && word(Field::Boot) == COPY && word(Field::Clean) == 0
}

/// Returns the error for the image of a store that was not closed in this boot.
pub(super) fn distrusted(source: &Source<'_>, reason: &str) -> CreateError {
    let text = format!(
        "cannot trust the image in {source}: {reason}; to begin with an empty store, remove it: this \
         discards all items"
    );
    CreateError::of(CreateErrorKind::Mismatch, text)
}

/// Purpose of a new image.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// A server's. After a kill in the same boot, it holds everything.
    Served,
    /// A copy, which is nothing until it is complete.
    Copy,
}

impl Use {
    /// Returns the boot that a new image has.
    pub fn boot(self) -> u64 {
        match self {
            Self::Served => boot().unwrap_or(UNKNOWN),
            Self::Copy => COPY,
        }
    }
}
