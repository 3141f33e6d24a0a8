//! NUMA: the nodes that memory comes from, and pages that move between nodes while others use them.
//!
//! | file | holds |
//! |---|---|
//! | `policy.rs` | sets of nodes, and policies for the choice of a node |
//! | `calls.rs` | the system calls |
//! | `slice.rs` | moves the pages of a part of a region to where its policy wants them |
//!
//! A policy is a preference: a page comes from another node if the wanted one has no room. A strict binding
//! would let the kernel end the process while other nodes have memory.

mod calls;
mod policy;
mod slice;

pub use calls::{nodes_allowed, policy_of_thread, with_policy};
pub use policy::{NODES_MAX, NodeSet, Policy};
pub use slice::Moved;
