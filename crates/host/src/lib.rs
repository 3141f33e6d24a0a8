//! `micanite ctl`: asks a running server, sets up network interfaces, examines the machine. `micanite top`:
//! watches a server in a terminal.
//!
//! | module | |
//! |---|---|
//! | `ctl.rs` | the command line; sends a request to the server and prints its answer |
//! | `nic` | `micanite ctl nic`: queues, flow rules and interrupts of network interfaces |
//! | `doctor` | `micanite ctl doctor`: what the machine allows, and what leads to the best port |
//! | `top` | `micanite top`: rates, latencies, workers and hot keys, live |
//! | `machine` | facts of the machine and its interfaces: sysfs, `/proc`, `ethtool` |

mod ctl;
mod doctor;
mod machine;
mod nic;
mod top;

pub use ctl::{ControlOptions, Errand, control};
pub use top::{TopOptions, top};
