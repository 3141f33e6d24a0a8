//! Eviction: the policy that chooses items, and the listener that is notified of them. The head of
//! a log (`writer/log_head.rs`) carries the policy out.

pub(crate) mod listener;
mod policy;

pub use policy::Eviction;
pub(crate) use policy::Policy;
