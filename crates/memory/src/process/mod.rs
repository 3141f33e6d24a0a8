//! Facts about this process and others: forks, and owners of files.

mod fork;
mod owner;

pub use fork::ForkMark;
pub use owner::{Owner, is_owned};
