//! A thread that calls the provider, and serves nothing else: a call may stand for ever, and nobody can
//! interrupt it.
//!
//! ```text
//!  worker: FabricPort ── Link ── commands: transfers, registrations ──> EndpointThread: Endpoint
//!                             <── events: transfers that have ended ──
//! ```
//!
//! Each ring has one writer and one reader. A buffer moves with its command and comes back with its event, so
//! one thread at a time has it. The reader of an empty ring sleeps; the writer wakes it (`bell.rs`). The
//! worker watches whether a call stands (`calls.rs`).

mod bell;
mod calls;
mod link;
mod messages;
mod thread;

pub(super) use link::Link;
pub(super) use messages::{Event, Lot, Lots};
