//! Mapped memory: huge pages, files, descriptors, NUMA nodes, racy word copy, prefetch.
//!
//! One thread writes a [`Region`], and any thread may read it meanwhile. So a region is a sequence of
//! relaxed atomic words. All users address it by word index, never by pointer.
//!
//! | backing | used |
//! |---|---|
//! | `mapped` | normally: anonymous memory, a file, or a descriptor of the kernel's memory |
//! | `readable` | sealed memory that other processes map read-only; the life of its owner (`owner`) |
//! | `heap` | under loom and miri, which cannot map |
//!
//! Huge pages are tried in order: hugetlb (reserved by the administrator), transparent ones
//! (file mappings get them only by `MADV_COLLAPSE`, [`Region::collapse`]), 4 KiB pages.
//! [`Region::pages`] returns the result.

#![expect(unsafe_code, reason = "the mappings of the whole project are made here")]

mod allocate;
mod allocated;
pub mod barrier;
#[cfg(not(any(loom, miri)))]
mod commit;
mod copy;
pub mod folder;
#[cfg(any(loom, miri))]
mod heap;
pub mod hold;
#[cfg(not(any(loom, miri)))]
mod mapped;
pub mod numa;
mod process;
#[cfg(not(any(loom, miri)))]
mod readable;
pub mod sync;
mod wait;

pub use allocate::{allocate, reopen_for_loads};
pub use allocated::allocated_bytes;
#[cfg(any(loom, miri))]
pub use heap::Region;
#[cfg(not(any(loom, miri)))]
pub use mapped::Region;
pub use process::{ForkMark, Owner, is_owned};
pub use wait::{Futex, Patience, shorten_slices};

/// Bytes of a word, the unit of all racing accesses.
pub const WORD_BYTES: usize = 8;
pub const HUGE_PAGE_BYTES: usize = 2 << 20;
pub const PAGE_BYTES: usize = 4096;
/// Words at the beginning that every region has ([`Region::head`]).
pub const HEAD_WORDS: usize = 64;

/// Pages that back a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pages {
    /// 2 MiB pages from the reserved pool.
    Hugetlb,
    /// 2 MiB pages that the kernel creates when it can.
    Transparent,
    /// 4 KiB pages.
    Small,
}

impl Pages {
    /// Returns a name for logs and statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hugetlb => "hugetlb 2 MiB pages",
            Self::Transparent => "transparent huge pages",
            Self::Small => "4 KiB pages",
        }
    }
}
