//! Datagrams that reached the wrong worker go to the owner of their partition, once.

mod forwarded;
pub mod ring;
mod sleep;

pub use forwarded::Forwarded;
pub use sleep::SleepFlag;
