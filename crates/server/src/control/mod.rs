//! The control thread: requests of a person while the server runs, over a Unix socket.
//! Their protocol is the crate `control`.
//!
//! | file | |
//! |---|---|
//! | `socket.rs` | opens the socket |
//! | `thread.rs` | the thread that serves it: one client at a time, with deadlines |
//! | `execute.rs` | executes requests |

mod execute;
mod socket;
mod thread;

pub(crate) use socket::{NoSocket, Socket};
pub(crate) use thread::ControlThread;
