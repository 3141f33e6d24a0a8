//! The client over a fabric: gets read the server's cache area one-sided, everything else is a message.
//!
//! | file | contents |
//! |---|---|
//! | `url.rs`, `options.rs`, `counters.rs` | servers, settings and counters |
//! | `link.rs`, `pool.rs`, `sleep.rs` | the non-blocking client; its servers |
//! | `connection/` | a server: hello, messages, one-sided reads |
//! | `batch.rs` | requests of a message |
//! | `reads.rs` | one-sided reads in flight |
//! | `keys/` | entries of keys, what was read, what is being written |
//! | `transport.rs`, `endpoint.rs` | libfabric, as a connection sees it |

mod batch;
mod connection;
mod counters;
mod endpoint;
mod keys;
mod link;
mod options;
mod pool;
mod reads;
mod sleep;
#[cfg(test)]
mod tests;
mod transport;
mod url;

pub use counters::{FabricCounters, REFUSALS};
pub use link::FabricLink;
pub use options::{FabricOptions, Reads};
pub use url::{FabricUrl, decode};
