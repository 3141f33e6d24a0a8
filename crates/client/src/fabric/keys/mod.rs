//! Knowledge of a client about keys, by their hashes.
//!
//! | file | contents |
//! |---|---|
//! | `entries.rs` | places of chunks |
//! | `history.rs` | one-sided reads since the last report |
//! | `writes.rs` | writes whose effect is open |

mod entries;
mod history;
mod writes;

pub(super) use entries::Entries;
pub(super) use history::{History, RECORDS_DUE, RECORDS_MAX};
pub(super) use writes::Writes;
