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
mod memcached;
mod native;
mod progress;
mod replies;
mod report;
mod schedule;
mod step;
mod tally;
#[cfg(test)]
mod tests;
mod worker;

pub use command::{ReplayOptions, replay};
