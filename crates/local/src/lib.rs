//! What a server and its readers on the same host agree on (`--local`, `local://`).
//!
//! | module | holds |
//! |---|---|
//! | [`header`] | a page that the server writes and every reader maps for loads: life, time, sizes |
//! | [`notes`] | a page for each reader, which tells the server of requests: a ring of hashes, and counts |
//! | [`hello`] | the first message of each side; the server's one carries the descriptors |
//!
//! `docs/local.md` describes the whole.

#![deny(missing_docs)]

pub mod header;
pub mod hello;
pub mod notes;
