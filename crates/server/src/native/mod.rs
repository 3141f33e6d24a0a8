//! The native protocol (`docs/protocol.md`): datagrams that clients direct to the owner of a key.
//!
//! ```text
//!  port.rs     a worker's sockets (sockets.rs) or queue of frames around the kernel (bypass.rs):
//!              a burst in, a burst out; what other workers hand over (handed_over.rs)
//!  round.rs      datagrams -> batches of the engine (operation.rs: a request as the engine's)
//!  sink.rs         replies -> the datagrams that leave
//! ```
//!
//! | file | what |
//! |---|---|
//! | `cookie.rs` | proofs of addresses |
//! | `ids.rs` | requests that must not be executed twice |
//! | `ring.rs` | rings between workers |
//! | `asleep.rs` | whether whoever fills a ring has to wake its worker |
//! | `directory.rs` | who owns what |
//! | `pressure.rs` | losses in front of a socket |
//! | `counters.rs` | what happened |

mod asleep;
mod bypass;
mod cookie;
mod counters;
mod directory;
mod handed_over;
mod ids;
mod operation;
mod outbox;
mod port;
mod pressure;
mod ring;
mod round;
mod shared;
mod sink;
mod sockets;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use bypass::BypassPort;
pub use cookie::{CookieKey, Cookies};
pub use counters::{BURST_PLACES, FrameStats, NativeCounters};
pub use directory::text as directory_text;
pub use ids::Ids;
pub use outbox::{Outbox, Source};
pub use port::{NativePort, QueueOfPort};
pub use ring::{Origin, Popped, RingEnds, pop, push, ring_bytes, rings};
pub use round::{Round, Taken};
pub use shared::NativeShared;
pub use sockets::{SocketPort, Sockets};
