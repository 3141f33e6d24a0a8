//! The lossy, set-associative index (MICA 4.3.2): buckets of one cache line, each a version word
//! and seven entries.

pub(crate) mod bucket;
pub(crate) mod entry;
