//! Posts: messages of the server's other threads to a worker.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use micanite_engine::TooManyNamespaces;
use micanite_net::tls::ServerConfig;
use micanite_net::{Interest, Stream, Streams};

use super::slots::Slot;
use super::status::Endpoints;
use super::{Worker, tls};
use crate::connection::Connection;
use crate::limits::POSTS_PER_ROUND;
use crate::session::Session;
use crate::shared::clock::seconds;
use crate::telemetry::stats::ConnectionState;

/// A message in a worker's channel. The worker's waker announces it.
#[derive(Debug)]
pub enum Post {
    /// A new connection.
    Connection(Incoming),
    /// Invalidates a namespace.
    Invalidate {
        name: Box<[u8]>,
        /// Receives the result.
        answer: Sender<Result<(), TooManyNamespaces>>,
    },
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Incoming {
    pub stream: Stream,
    /// Configuration of TLS, if the listener uses it.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Incoming {
    /// Returns a connection without TLS.
    pub fn plain(stream: Stream) -> Self {
        Self { stream, tls: None }
    }
}

impl<P: Streams> Worker<P> {
    /// Takes some posts. The rest waits for the next round.
    pub(super) fn take_posts(&mut self, now_ms: u64) {
        self.has_posts = true;
        for _ in 0..POSTS_PER_ROUND {
            let Ok(post) = self.posts.try_recv() else {
                self.has_posts = false;
                return;
            };
            match post {
                Post::Connection(incoming) => self.welcome(incoming, now_ms),
                Post::Invalidate { name, answer } => {
                    let result = self.engine.invalidate_namespace(&name, seconds(now_ms));
                    // The thread that asked may no longer wait.
                    let _ = answer.send(result);
                }
            }
        }
    }

    /// Takes in a new connection. Its first request has often come already.
    fn welcome(&mut self, incoming: Incoming, now_ms: u64) {
        let interest = Interest::Read;
        self.counters().connections_opened.add(1);
        let session = match &self.server.auth {
            None => Session::default(),
            Some(_) => Session::guarded(incoming.stream.peer_ip()),
        };
        let endpoints = Endpoints::of(&incoming.stream);
        let stream = self.streams.adopt(incoming.stream);
        let Ok(stream) = stream.and_then(|stream| tls::transport(stream, incoming.tls)) else {
            self.counters().connections_closed.add(1);
            return;
        };
        let token = self.slots.insert(Slot {
            connection: Connection::with(stream, session),
            interest,
            state: ConnectionState::Read,
            queued: false,
            mean_turn_bytes: 0,
            readable: false,
            wait_bytes: 0,
            opened_ms: now_ms,
        });
        self.note_arrival(token, &endpoints, now_ms);
        let Some(slot) = self.slots.get_mut(token) else {
            return;
        };
        let stream = slot.connection.stream().inner();
        match self.streams.add(stream, token.to_u64(), interest) {
            Ok(()) => self.turn_or_queue(token, true, now_ms),
            Err(_) => self.close(token),
        }
    }
}
