//! Traces: what a cache was asked for, request by request.
//!
//! ```text
//!   file --> open --> Reader --Request--> cat | convert | stats | simulate | replay
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`Request`], [`Key`], [`Operation`], [`Outcome`] | a request, whatever format it comes from |
//! | [`Reader`], [`open()`] | a trace request by request, in bounded memory; the format is found by name and content |
//! | [`recording`] | our own format: what a server writes that records a sample of its requests |
//! | `formats` | the readers |
//! | [`simulate`] | misses against memory: the engine itself, and references |
//! | [`trace`] | the command `micanite trace` |
//!
//! `docs/traces.md` describes the formats and the command.

mod cat;
mod command;
mod convert;
mod failure;
mod formats;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod generate;
mod open;
mod prefix;
mod printed;
mod progress;
pub mod recording;
mod replay;
mod request;
pub mod simulate;
mod stats;
mod unpack;

pub use command::{EXIT_TRACE_FAILED, EXIT_TRACE_USAGE, TraceCommand, TraceOptions, trace};
pub use failure::Failure;
pub use open::{Format, Reader, open};
pub use prefix::{DELIMITER, prefix_of};
pub use request::{Key, Operation, Outcome, Request};
