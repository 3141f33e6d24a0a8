//! Tests of the engine as a whole. The model is also what the fuzz target runs against.

#[cfg(not(loom))]
pub(crate) mod area;
#[cfg(all(test, not(any(loom, miri))))]
mod batches;
#[cfg(all(test, not(any(loom, miri))))]
mod chains;
#[cfg(all(test, not(any(loom, miri))))]
mod chunks;
#[cfg(all(test, not(any(loom, miri))))]
mod damaged;
#[cfg(not(loom))]
pub mod fuzz;
#[cfg(all(test, not(any(loom, miri))))]
mod kill;
#[cfg(all(test, loom))]
mod loom_models;
#[cfg(not(loom))]
pub(crate) mod model;
#[cfg(all(test, not(loom)))]
mod operations;
#[cfg(all(test, not(any(loom, miri))))]
mod readers;
#[cfg(all(test, not(any(loom, miri))))]
mod store;
pub(crate) mod support;
#[cfg(all(test, not(any(loom, miri))))]
mod threads;
