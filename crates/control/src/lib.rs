//! The control protocol: what a server and the commands beside it agree on.
//!
//! ```text
//!  micanite ctl    one line: a request             OK, then text  |  REFUSED and why
//!  control thread  reads it, does it, answers, closes; one client at a time, with deadlines
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `request.rs`, `record.rs`, `balance.rs`, `numa.rs` | requests, as arguments and as a line |
//! | `answer.rs` | answers, as text and as the lines that are sent |
//! | [`paths`] | the path of the socket |
//! | [`cores`], [`nodes`] | the CPUs of a server's workers, and the NUMA nodes of CPUs |
//! | [`metrics`] | names of metrics that a server shows and `top` reads |
//! | [`size`] | sizes, as people write and read them |
//! | [`stderr`] | lines of commands on standard error |

pub mod answer;
mod balance;
pub mod cores;
pub mod metrics;
pub mod nodes;
mod numa;
pub mod paths;
mod pin;
mod record;
mod request;
pub mod size;
pub mod stderr;
#[cfg(test)]
mod tests;

pub use balance::Balance;
pub use numa::Numa;
pub use pin::{Pin, Placement};
pub use record::{FileBytes, Fraction, RecordOptions};
pub use request::{Format, Request};
