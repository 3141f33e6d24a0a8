//! What other threads of the server send to a worker.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use micanite_engine::TooManyNamespaces;
use micanite_net::Stream;
use micanite_net::tls::ServerConfig;

/// Comes through a worker's channel; its waker tells.
#[derive(Debug)]
pub enum Post {
    /// A new connection.
    Connection(Incoming),
    /// A namespace is to be invalidated.
    Invalidate {
        /// Its name.
        name: Box<[u8]>,
        /// Hears how it went.
        answer: Sender<Result<(), TooManyNamespaces>>,
    },
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Incoming {
    /// Its socket.
    pub stream: Stream,
    /// TLS is to be spoken, by this.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Incoming {
    /// One without TLS.
    pub fn plain(stream: Stream) -> Self {
        Self { stream, tls: None }
    }
}
