//! The client of Micanite's native protocol. It hashes keys, finds the cores that own them, and addresses
//! its datagrams to these cores (MICA 4.2.2: client-assisted request direction).
//!
//! | module | purpose |
//! |---|---|
//! | [`Client`] | blocking; values of any length |
//! | [`SharedClient`] | the same, for threads |
//! | `AsyncClient` | for tokio, behind the feature `async` |
//! | [`Link`] | non-blocking: many operations in flight, submitted and completed in batches |
//! | [`BypassPort`] | AF_XDP or DPDK instead of the kernel's sockets, for a [`Link`] or a [`Client`] |
//! | [`FabricLink`] | the same over a fabric, with one-sided reads |
//! | [`LocalLink`] | to a server on the same host, whose memory gets read |
//! | [`Driver`] | everything but sockets and clocks: direction, batches, resending, pace |

#![deny(missing_docs)]

#[cfg(feature = "async")]
mod asynchronous;
mod bypass;
mod client;
mod counters;
mod driver;
mod error;
mod fabric;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod ketama;
mod link;
mod local;
mod operation;
mod options;
mod random;

#[cfg(feature = "async")]
pub use asynchronous::AsyncClient;
pub use bypass::{BypassPort, PortCounters, PortOptions, PortQueue};
pub use client::{Answer, Attempts, Builder, CasOutcome, Client, SharedClient, Value};
pub use counters::{BATCH_SIZES_MAX, Counters};
pub use driver::{Driver, SubmitError, batch_that_pays, delay_of_batch_ns};
pub use error::Error;
pub use fabric::decode as decode_percent;
pub use fabric::{FabricCounters, FabricLink, FabricOptions, FabricUrl, REFUSALS, Reads};
pub use ketama::ketama_shares;
pub use link::Link;
pub use local::{LocalCounters, LocalLink, LocalUrl};
pub use micanite_net::bypass::PortName;
pub use micanite_net::datagram::UdpOptions;
pub use operation::{Completion, Opcode, Operation, Outcome};
pub use options::{Batch, OnDead, Options, ServerAddress};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
