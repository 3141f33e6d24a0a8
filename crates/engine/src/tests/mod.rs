//! Tests of the engine as a whole.

#[cfg(not(loom))]
mod behaviour;
#[cfg(not(any(loom, miri)))]
mod expiry;
#[cfg(loom)]
mod loom_models;
#[cfg(not(loom))]
mod model;
#[cfg(not(any(loom, miri)))]
mod modes;
#[cfg(not(any(loom, miri)))]
mod namespaces;
#[cfg(not(any(loom, miri)))]
mod stress;
mod support;
