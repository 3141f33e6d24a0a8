//! Messages and one-sided reads between processes, over libfabric: RDMA NICs, and providers in software.
//!
//! ```text
//!  FabricAddress   PROVIDER,ADDRESS[:PORT], by the table of providers
//!    Endpoint        one thread's end: transfers by number, peers, completions in batches
//!      Buffer          registered memory of one transfer at a time; the endpoint has it meanwhile
//!      Area            registered memory that peers read without asking (RemoteArea is its address)
//!        Domain          shims/fabric.c, which compiles libfabric's inline functions (feature `libfabric`)
//! ```
//!
//! A client greets a server with its own address, because a server can only answer whom it knows
//! ([`Endpoint::greet`]). All other bytes of messages are the caller's. A message with a tag reaches only a
//! buffer that was posted for this tag.
//!
//! **Memory.** A transfer takes its [`Buffer`], and its completion returns it. An [`Area`] that is dropped
//! can no longer be read by its key, but its memory lives until the endpoint is closed: a provider's thread
//! may still be sending from it.
//!
//! **Calls that do not return.** A provider may wait for ever for a peer that was killed. Nobody can
//! interrupt it. So a thread that serves nothing else has the endpoint, and another one gives it up
//! ([`GiveUp`]).
//!
//! Without the feature, [`Endpoint`]s cannot be opened, and the error says what is missing.

#![expect(unsafe_code, reason = "libfabric is in C, and reads and writes registered memory by itself")]

#[cfg(not(feature = "libfabric"))]
#[path = "absent.rs"]
mod domain;
#[cfg(feature = "libfabric")]
mod domain;

mod address;
mod endpoint;
mod error;
mod given_up;
pub mod limits;
mod memory;
mod peers;
mod posting;
mod provider;
#[cfg(feature = "libfabric")]
mod shim;
mod slots;
mod transfer;

/// Says whether this build has the feature.
pub const IS_BUILT: bool = cfg!(feature = "libfabric");

pub use address::FabricAddress;
pub use domain::version;
pub use endpoint::Endpoint;
pub use error::Error;
pub use given_up::{GiveUp, end_beside_given_up};
pub use limits::EndpointOptions;
pub use memory::{Area, Buffer, RemoteArea};
pub use peers::Peer;
pub use provider::{Addressing, PROVIDERS, Progress, Provider};
pub use transfer::{Completion, Completions, Operation, Unposted};
