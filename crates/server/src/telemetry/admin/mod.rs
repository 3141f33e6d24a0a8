//! Metrics, health and a page to look at over HTTP, where `--admin` says so.
//!
//! One thread of its own serves it. Workers only write the counters that they write anyway, and
//! nothing that happens here makes one of them wait. What it may hold is bounded:
//! [`http::CONNECTIONS_MAX`] connections, each with one request of [`http::REQUEST_BYTES_MAX`]
//! and a deadline for request and reply together.
//!
//! | module | what it does |
//! |---|---|
//! | `http` | the thread: connections that never block |
//! | `request` | a request's line and host |
//! | `pages` | what is at each path |
//! | `state` | what the pages are made of; health |
//! | `exposition` | Prometheus' text format |
//! | `metrics` | every metric |

mod exposition;
mod http;
mod metrics;
mod pages;
mod request;
mod state;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use micanite_net::Listener;

use crate::shared::Server;
use crate::shared::clock::Clock;
use http::AdminThread;
use state::State;

/// The admin side from its listener to its end; without a listener, nothing.
#[derive(Debug)]
pub(crate) struct Admin {
    state: Arc<State>,
    listener: Option<Listener>,
    thread: Option<AdminThread>,
}

impl Admin {
    /// For a listener that is bound already.
    pub fn new(listener: Option<Listener>) -> Self {
        Self { state: Arc::default(), listener, thread: None }
    }

    /// Starts the thread, if it has not been started yet.
    ///
    /// # Errors
    /// The kernel has no more descriptors or threads.
    pub fn start(&mut self) -> io::Result<()> {
        if let Some(listener) = self.listener.take() {
            self.thread = Some(AdminThread::start(listener, &self.state)?);
        }
        Ok(())
    }

    /// The workers serve from now on.
    pub fn set_running(&self, server: &Arc<Server>, clock: Clock) {
        self.state.set_running(server, clock);
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.thread.as_ref().map(|thread| thread.address)
    }

    /// Ends the thread. The listener stays for another program in this process.
    pub fn end(self) -> Option<Listener> {
        self.thread.and_then(AdminThread::end)
    }
}
