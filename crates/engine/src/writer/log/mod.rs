//! The two ends of a log, as its writer moves them.

mod head;
mod tail;
