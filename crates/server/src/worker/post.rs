//! What other threads of the server send to a worker.

use std::sync::mpsc::Sender;

use micanite_engine::TooManyNamespaces;
use micanite_net::Stream;

/// Comes through a worker's channel; its waker tells.
#[derive(Debug)]
pub enum Post {
    /// A new connection.
    Connection(Stream),
    /// A namespace is to be invalidated.
    Invalidate {
        /// Its name.
        name: Box<[u8]>,
        /// Hears how it went.
        answer: Sender<Result<(), TooManyNamespaces>>,
    },
}
