//! The native protocol (`docs/protocol.md`): datagrams that clients direct to the owner of a key.
//!
//! ```text
//!  port/       a worker's sockets, or its queue of frames around the kernel: a burst in, a burst out
//!  forward/    datagrams of other owners, by rings between workers
//!  round/        datagrams -> batches of the engine -> the datagrams that leave
//!  fabric/     the same in messages over libfabric, and a cache area that clients read by themselves
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `cookie.rs` | proofs of addresses |
//! | `ids.rs` | requests that must not be executed twice |
//! | `directory.rs` | the owners of partitions, as clients read them |
//! | `counters.rs` | counters |

mod cookie;
mod counters;
mod directory;
pub mod fabric;
mod forward;
mod ids;
mod port;
mod round;
mod shared;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use cookie::{CookieKey, Cookies};
pub use counters::{BURST_PLACES, FrameStats, NativeCounters};
pub use directory::text as directory_text;
pub use forward::ring::{Origin, Popped, RingEnds, pop, push, ring_bytes, rings};
pub use ids::Ids;
pub use port::bypass::BypassPort;
pub use port::sockets::{SocketPort, Sockets};
pub use port::{NativePort, QueueOfPort};
pub use round::outbox::{Outbox, Part, Source, Watch};
pub use round::{Round, Taken};
pub use shared::NativeShared;
