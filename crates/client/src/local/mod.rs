//! Servers on the same host, by `local:///PATH`: gets read the server's memory, all else goes over a stream.
//!
//! | module | holds |
//! |---|---|
//! | `url` | the server's name |
//! | `attach` | the hello, and the descriptors that it brings |
//! | `reading` | gets in the mapped memory: the server's life, its second, notes |
//! | `meta` | memcached's meta commands: requests and replies |
//! | `stream`, `writes` | requests on their way, in their order; writes among them |
//! | `call`, `gets`, `ended` | calls and gets of a link; what waits to be delivered |
//! | `shared` | the memory of a link, for threads |
//! | `link` | both joined, with the interface of the other links; attaching anew |

mod attach;
mod call;
mod ended;
mod gets;
mod link;
mod meta;
mod pause;
mod reading;
mod reattach;
mod shared;
mod stream;
mod url;
mod writes;

pub(crate) use ended::EndedList;
pub(crate) use gets::has_key_length;
pub use link::LocalLink;
pub(crate) use pause::Pause;
pub(crate) use shared::{SharedReading, leak_if_locked};
pub use url::LocalUrl;
#[cfg(feature = "async")]
pub(crate) use writes::Writes;

/// Counts of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalCounters {
    /// Gets that found an item in the server's memory.
    pub hits: u64,
    /// Gets that found none there.
    pub misses: u64,
    /// Gets that the memory did not answer: the server was asked.
    pub asked: u64,
    /// Other requests.
    pub requests: u64,
    /// Times that the client has attached.
    pub attached: u64,
}
