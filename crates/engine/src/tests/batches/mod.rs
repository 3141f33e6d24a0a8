//! Batches: what prefetching may conclude, and what a request of a batch sees of the others.

mod hints;
mod inserts;
mod twin;
