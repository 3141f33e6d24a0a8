//! The index (MICA 4.3.2, 4.3.3): buckets of one cache line, each a version word and seven
//! entries; full ones are continued in spare buckets; the number of buckets grows with the
//! number of items.

pub(crate) mod bucket;
pub(crate) mod entry;
pub(crate) mod hash;
pub(crate) mod tags;
pub(crate) mod visits;
pub(crate) mod walkers;
