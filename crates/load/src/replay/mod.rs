//! `micanite trace replay`: a trace against a live server, look-aside.
//!
//! ```text
//!   Reader --> Dispatcher --batches, by hash of the key--> Worker 0..n --> Connection --> server
//!              keys, times                                 slots, fills, tally
//! ```
//!
//! A key always goes to the same connection, and while one of its requests (with the storing that
//! follows a miss) is under way, its next one waits: requests of one key are answered in their order.

mod command;
mod connection;
mod dispatcher;
mod lane;
mod native;
mod progress;
mod report;
mod schedule;
mod settle;
mod step;
mod stream;
mod tally;
#[cfg(test)]
mod tests;
mod text;
mod worker;

pub use command::{ReplayOptions, replay};
