//! Requests of one client: results, expiry, flushes, namespaces, bytes that they move.

mod behaviour;
#[cfg(not(miri))]
mod copy_budget;
#[cfg(not(miri))]
mod expiry;
#[cfg(not(miri))]
mod flush;
mod limits;
mod meta;
#[cfg(not(miri))]
mod namespaces;
