//! The client over a fabric: gets read the server's cache area one-sided, everything else is a message.
//!
//! | file | contents |
//! |---|---|
//! | `url.rs`, `options.rs`, `counters.rs` | servers, settings and counters |
//! | `link.rs` | the non-blocking client |

mod counters;
mod link;
mod options;
mod url;

pub use counters::{FabricCounters, REFUSALS};
pub use link::FabricLink;
pub use options::{FabricOptions, Reads};
pub use url::FabricUrl;
