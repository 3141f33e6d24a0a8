//! The client of Micanite's native protocol: it hashes keys, finds the cores that own them, and says so in
//! its datagrams (MICA 4.2.2: client-assisted request direction).
//!
//! | module | what |
//! |---|---|
//! | [`Driver`] | everything but sockets and clocks: direction, batches, resending, pace |

mod counters;
mod driver;
mod ketama;
mod md5;
mod operation;
mod options;

pub use counters::{BATCH_SIZES_MAX, Counters};
pub use driver::{Driver, SubmitError};
pub use operation::{Completion, Opcode, Operation, Outcome};
pub use options::{Batch, OnDead, Options, ServerAddress};
