//! The client of Micanite's native protocol: it hashes keys, finds the cores that own them, and says so in
//! its datagrams (MICA 4.2.2: client-assisted request direction).
//!
//! | module | what |
//! |---|---|
//! | [`Client`] | blocks; values of any length |
//! | `AsyncClient` | for tokio, behind the feature `async` |
//! | [`Link`] | never blocks: many operations in the air, submitted and completed in batches |
//! | [`BypassPort`] | AF_XDP or DPDK instead of the kernel's sockets, for a [`Link`] or a [`Client`] |
//! | [`Driver`] | everything but sockets and clocks: direction, batches, resending, pace |

#![deny(missing_docs)]

#[cfg(feature = "async")]
mod asynchronous;
mod bypass;
mod client;
mod counters;
mod driver;
mod error;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod ketama;
mod link;
mod operation;
mod options;

#[cfg(feature = "async")]
pub use asynchronous::AsyncClient;
pub use bypass::{BypassPort, PortCounters, PortOptions, PortQueue};
pub use client::{Answer, Builder, CasOutcome, Client, Value};
pub use counters::{BATCH_SIZES_MAX, Counters};
pub use driver::{Driver, SubmitError};
pub use error::Error;
pub use link::Link;
pub use micanite_net::bypass::PortName;
pub use micanite_net::datagram::UdpOptions;
pub use operation::{Completion, Opcode, Operation, Outcome};
pub use options::{Batch, OnDead, Options, ServerAddress};
