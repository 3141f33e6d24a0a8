//! Tests of the engine as a whole. The model is also what the fuzz target runs against.

#[cfg(all(test, not(loom)))]
mod behaviour;
#[cfg(all(test, not(any(loom, miri))))]
mod chains;
#[cfg(all(test, not(any(loom, miri))))]
mod compaction;
#[cfg(all(test, not(any(loom, miri))))]
mod copies;
#[cfg(all(test, not(any(loom, miri))))]
mod copy_budget;
#[cfg(all(test, not(any(loom, miri))))]
mod damaged;
#[cfg(all(test, not(any(loom, miri))))]
mod delegated_panics;
#[cfg(all(test, not(any(loom, miri))))]
mod expiry;
#[cfg(all(test, not(any(loom, miri))))]
mod external_requests;
#[cfg(all(test, not(any(loom, miri))))]
mod flush;
#[cfg(all(test, not(any(loom, miri))))]
mod full_store;
#[cfg(not(loom))]
pub mod fuzz;
#[cfg(all(test, not(any(loom, miri))))]
mod kill;
#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod meta;
#[cfg(not(loom))]
pub(crate) mod model;
#[cfg(all(test, not(any(loom, miri))))]
mod modes;
#[cfg(all(test, not(any(loom, miri))))]
mod namespaces;
#[cfg(all(test, not(any(loom, miri))))]
mod nearly_empty_store;
#[cfg(all(test, not(any(loom, miri))))]
mod retries;
#[cfg(all(test, not(any(loom, miri))))]
mod shrink;
#[cfg(all(test, not(any(loom, miri))))]
mod stress;
pub(crate) mod support;
#[cfg(all(test, not(any(loom, miri))))]
mod walk;
