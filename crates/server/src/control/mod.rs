//! Control: what a person changes and asks while the server runs, over a Unix socket.
//!
//! ```text
//!  micanite ctl    one line: a request             OK, then text  |  REFUSED and why
//!  control thread  reads it, does it, answers, closes; one client at a time, with deadlines
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `paths.rs` | where the socket is |
//! | `socket.rs` | opens it |
//! | `request.rs` | requests and their line |
//! | `execute.rs` | what they do |
//! | `thread.rs` | the thread that serves them |
//! | `client.rs` | `micanite ctl` |

mod client;
mod execute;
mod paths;
mod request;
mod socket;
#[cfg(test)]
mod tests;
mod thread;

pub use client::{ControlOptions, EXIT_CONTROL_USAGE, control};
pub use request::Request;
pub(crate) use socket::{NoSocket, Socket};
pub(crate) use thread::{ControlThread, text as answer_text};

/// The first line of an answer to what was done.
const OK: &str = "OK";
/// Begins the answer to what was not done; the reason follows.
const REFUSED: &str = "REFUSED ";
