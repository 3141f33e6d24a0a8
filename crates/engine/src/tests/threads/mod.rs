//! Several workers at once: changes of modes and owners, retries, delegation, hot keys.

mod modes;
mod pages;
mod panics;
mod retries;
mod steps;
mod waits;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Access, Cache, Route};

/// Returns the operations of all threads together: `make soak` sets more.
pub(crate) fn operations() -> u64 {
    std::env::var("MICANITE_STRESS_OPERATIONS").map_or(1_000_000, |operations| operations.parse().unwrap())
}

/// Gives a partition another mode and another owner, and counts the change.
pub(crate) fn change_a_route(cache: &Cache, changes: &AtomicU64, threads: usize) {
    let partitions = cache.layout().partitions;
    let changes = changes.fetch_add(1, Ordering::Relaxed) + 1;
    let drawn = changes.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let access = [Access::Erew, Access::Crew, Access::Crcw][(drawn >> 60) as usize % 3];
    let route = Route { access, owner: (drawn >> 50) as usize % threads };
    cache.set_route((drawn >> 40) as usize % partitions, route).unwrap();
    std::thread::sleep(std::time::Duration::from_micros(200));
}
