//! Clients over libfabric (`docs/fabric.md`): messages of the native protocol, and a cache area that the
//! clients read by themselves.
//!
//! | file | contents |
//! |---|---|
//! | `port.rs` | a worker's clients: messages in, rounds of the engine, messages out |
//! | `endpoint/` | the endpoint, in a thread of its own |
//! | `events.rs` | transfers that have ended |
//! | `hello.rs`, `answering.rs` | login, buffers and sessions of clients; answers that are being sent |
//! | `life.rs` | transfers that are due, the end of a client, pushes |
//! | `client.rs`, `token.rs` | a client's place; the numbers of its transfers |
//! | `outbox.rs` | replies in registered memory |
//! | `buffers.rs` | the buffers of clients that went, and their limit |
//! | `shared.rs`, `counters.rs` | what workers share; counters |

mod answering;
mod buffers;
mod client;
mod counters;
mod endpoint;
mod events;
mod hello;
mod life;
mod outbox;
mod port;
mod shared;
mod token;

pub use counters::FabricCounters;
pub use port::FabricPort;
pub use shared::{FabricArea, FabricShared};
