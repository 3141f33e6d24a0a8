//! Traces: what a cache was asked for, request by request.
//!
//! ```text
//!   file --> open --> Reader --Request--> cat | convert | stats | simulate | replay (crate load)
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`Request`], [`Key`], [`Operation`], [`Outcome`] | a request, whatever format it comes from |
//! | [`Reader`], [`open()`] | a trace request by request; name and content tell the format |
//! | `formats` | the readers |
//! | [`StatusLine`] | how far a command is, on standard error |
//! | [`mod@simulate`] | misses against memory: the engine itself, and references |
//! | [`cat()`], [`convert()`], [`generate()`], [`stats()`], [`simulate::simulate()`] | `micanite trace` |
//!
//! `docs/traces.md` describes the formats and the command.

mod cat;
mod convert;
mod failure;
mod formats;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod generate;
mod open;
mod prefix;
mod progress;
mod request;
pub mod simulate;
mod stats;
mod stdout;
mod unpack;

pub use cat::{CatOptions, cat};
pub use convert::{ConvertOptions, convert};
pub use failure::Failure;
pub use generate::{GenerateOptions, generate};
pub use open::{Format, Opened, Reader, open};
pub use prefix::{DELIMITER, prefix_of};
pub use progress::StatusLine;
pub use request::{Key, Operation, Outcome, Request};
pub use stats::{StatsOptions, Summary, stats, summary};
