//! Eviction: the policy that chooses what leaves, and the listener that is told of it. The head of a
//! log (`log/head.rs`) carries the policy out.

pub(crate) mod listener;
mod policy;

pub use policy::Eviction;
pub(crate) use policy::Policy;
