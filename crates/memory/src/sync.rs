//! The atomics of everything that races, switched to loom's by the feature `loom`.

#[cfg(loom)]
pub use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
    thread::yield_now,
};
#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
    thread::yield_now,
};
