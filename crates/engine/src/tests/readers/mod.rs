//! Walks, snapshots, and readers outside of the engine.

mod copies;
mod external;
mod walk;
