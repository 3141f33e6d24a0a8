//! Waits for other threads.

mod futex;
mod patience;
mod slice;

pub use futex::Futex;
pub use patience::Patience;
pub use slice::shorten_slices;
