//! The command `micanite trace`; replay.

mod command;
mod replay;

pub use command::{EXIT_TRACE_FAILED, EXIT_TRACE_USAGE, TraceCommand, TraceOptions, trace};
