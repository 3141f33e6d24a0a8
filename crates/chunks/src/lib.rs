//! The cache area of one-sided reads: a region of *chunks*, copies of items that clients read by themselves.
//!
//! | module | side | holds |
//! |---|---|---|
//! | [`layout`] | both | the bytes of the region: constants, records, chunks |
//! | [`Area`], [`Table`] | writer | the region; chunks of one partition: take, fill, publish, kill |
//! | [`reader`] | reader | acceptance of the bytes that a read brought |
//!
//! The crate knows no network, no engine and no clock. A writer's [`Host`] brings the time and takes values
//! back that only a chunk has. All bytes of the region are written as racing words, because a reader may look
//! at any moment. `docs/cache-area.md` specifies the bytes and the rules of both sides.
//!
//! Nothing is allocated after [`Table::new`]. Every call does a bounded amount of work.

mod area;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod layout;
pub mod reader;
mod table;
#[cfg(test)]
mod tests;

pub use area::{Area, Item};
pub use layout::{Entry, Geometry};
pub use table::{Chunk, Config, CopyBack, Counters, Host, Policy, Table, Taken, Usage};
