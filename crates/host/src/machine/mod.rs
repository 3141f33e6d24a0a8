//! Facts of the machine and its network interfaces, from sysfs, `/proc` and `ethtool`. Nothing is changed.
//!
//! | file | |
//! |---|---|
//! | `facts.rs` | the facts |
//! | `gather.rs` | reads them |
//! | `ethtool.rs`, `parse.rs` | runs `ethtool`; reads what it prints |
//! | `interrupts.rs` | which queue an interrupt belongs to |
//! | `cpus.rs` | sets of CPUs as the kernel writes them |
//! | `words.rs` | names of interfaces, words for a shell |

pub mod cpus;
pub mod ethtool;
pub mod facts;
mod gather;
mod interrupts;
pub mod parse;
#[cfg(test)]
mod tests;
mod words;

pub use gather::Machine;
pub use words::{check_interfaces, quoted};
