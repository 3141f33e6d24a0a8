//! Computed figures.
//!
//! | file | subject |
//! |---|---|
//! | `hottest.rs` | load of the hottest partition, and of all |
//! | `batching.rs` | delay of batching at the client (equation 1) |
//! | `capacity.rs`, `factors.rs`, `packet.rs` | throughput by mode, and what binds it |
//! | `latency.rs` | latency against the rate, by simulation |
//! | `fleet.rs` | several servers |

pub mod batching;
pub mod capacity;
pub mod factors;
pub mod fleet;
pub mod hottest;
pub mod latency;
pub mod packet;
