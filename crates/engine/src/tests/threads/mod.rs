//! Several workers at once: changes of modes and owners, retries, delegation, hot keys.

mod modes;
mod panics;
mod retries;
