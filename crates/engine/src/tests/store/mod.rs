//! The space of a store: when it is full, nearly empty, scattered; its index when it shrinks.

mod compaction;
mod full;
mod nearly_empty;
mod shrink;
