//! The log on standard error: events with a level, the time and fields, by `tracing`.
//!
//! ```text
//!  start!(INFO, ...)     micanite: ready                                        the report of the start
//!  info!(...)            2026-01-31T12:00:00.000000Z  INFO ended                an event
//!  limited!(WARN, ...)   2026-01-31T12:00:00.000000Z  WARN login refused ...    the same, so many a minute
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `form.rs` | lines as text and as JSON, for a terminal and for the journal |
//! | `limit.rs` | limits of what a client can provoke |
//! | `output.rs` | the thread that writes to standard error, for which nothing else waits |
//!
//! An event that the level leaves out costs one load. Nothing on the way of a request logs.

mod form;
mod limit;
mod output;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use form::Form;
pub use limit::{Limit, end_limits, note_dropped};
use output::Output;
pub use output::{begin_thread, finish, report_panic};
pub use tracing::{debug, error, info, warn};

/// Target of the events that the report of the start consists of.
pub const START: &str = "start";

/// Logs an event of the start. As text it has neither level nor time.
macro_rules! start {
    ($level:ident, $($event:tt)+) => {
        tracing::event!(target: $crate::telemetry::log::START, tracing::Level::$level, $($event)+)
    };
}
pub(crate) use start;

/// Logs an event that a client can provoke: its text, then its fields. Each place in the code logs a limited
/// number of them a minute.
macro_rules! limited {
    ($level:ident, $text:literal, $($fields:tt)+) => {
        if tracing::enabled!(tracing::Level::$level) {
            static LIMIT: $crate::telemetry::log::Limit = $crate::telemetry::log::Limit::new($text);
            if LIMIT.admits() {
                tracing::event!(tracing::Level::$level, $($fields)+, $text);
            }
        }
    };
}
pub(crate) use limited;

/// Form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    /// A JSON object in each line.
    Json,
}

static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();
static IS_JSON: AtomicBool = AtomicBool::new(false);
/// The second step of verbosity lifts the limits.
static IS_UNLIMITED: AtomicBool = AtomicBool::new(false);

/// Begins to log, as text. A line that cannot be written is lost, and the program goes on.
pub fn begin() {
    let (level, handle) = reload::Layer::new(LevelFilter::INFO);
    let lines = fmt::Layer::default()
        .event_format(Form::of_standard_error())
        .with_writer(Output)
        .with_ansi(false)
        .log_internal_errors(false);
    // A process begins once. If there is a subscriber already, that one has the events.
    if tracing_subscriber::registry().with(level).with(lines).try_init().is_ok() {
        let _ = LEVEL.set(handle);
    }
}

/// Changes the form of the lines.
pub fn set_format(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Lifts the limits, or not: whoever starts the server may do that, its clients may not.
pub fn lift_limits(is_unlimited: bool) {
    IS_UNLIMITED.store(is_unlimited, Ordering::Relaxed);
}

/// Logs errors alone.
pub fn log_errors_only() {
    set_level(LevelFilter::ERROR);
}

/// Changes how much is logged: 1 and more add connections and the like.
pub fn set_verbosity(verbosity: u8) {
    set_level(if verbosity > 0 { LevelFilter::DEBUG } else { LevelFilter::INFO });
}

fn set_level(level: LevelFilter) {
    if let Some(handle) = LEVEL.get() {
        // It fails only without a subscriber.
        let _ = handle.modify(|current| *current = level);
    }
}
