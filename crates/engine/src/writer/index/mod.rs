//! Changes of the index: entries and chains, growth, shrinking, the scan.

mod dangling;
pub(crate) mod growth;
mod scan;
mod shrink;
mod slots;
mod split;
