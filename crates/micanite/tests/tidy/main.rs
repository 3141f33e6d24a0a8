//! Keeps the tree readable: lengths of lines, files and functions, folders, sizes, reach and links.
//!
//! A check turns a [`tree::Tree`] into offences. Each has a test that the repository passes, and tests that
//! small trees with the fault do not. `exceptions.rs` lists what may stay longer, with reasons; the list may
//! only shrink.

mod code;
mod doctor;
mod documents;
mod exceptions;
mod folders;
mod length;
mod links;
mod markdown;
mod reach;
mod skips;
mod tree;
mod verdict;
mod weight;
mod workspaces;
