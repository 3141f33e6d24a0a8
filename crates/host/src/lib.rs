//! `micanite ctl`: asks a running server, sets up network interfaces, examines the machine.
//!
//! | module | |
//! |---|---|
//! | `ctl.rs` | the command line; sends a request to the server and prints its answer |
//! | `nic` | `micanite ctl nic`: queues, flow rules and interrupts of network interfaces |
//! | `doctor` | `micanite ctl doctor`: what the machine allows, and what leads to the best port |
//! | `machine` | facts of the machine and its interfaces: sysfs, `/proc`, `ethtool` |

mod ctl;
mod doctor;
mod machine;
mod nic;

pub use ctl::{ControlOptions, Errand, control};
