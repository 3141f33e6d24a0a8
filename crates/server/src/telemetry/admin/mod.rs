//! Metrics, health and the console over HTTP, where `--admin` says so.
//!
//! One thread of its own serves it, and takes samples once a second. Workers only write the counters that
//! they write anyway, and nothing that happens here makes one of them wait. What it may hold is bounded:
//! [`http::CONNECTIONS_MAX`] connections, each with one request of [`http::REQUEST_BYTES_MAX`]
//! and a deadline for request and reply together; an hour of samples ([`crate::limits`]).
//!
//! | module | what it does |
//! |---|---|
//! | `http` | the thread: accepts, ticks, ends |
//! | `connection` | one connection that never blocks: request, reply, end |
//! | `console` | answers requests; logins and actions |
//! | `hosts` | names that requests may ask for |
//! | `request` | a request's line, headers and body |
//! | `pages` | what is at each path |
//! | `files` | the console's page: HTML, style and modules |
//! | `feed` | the console's data: samples, loads, events |
//! | `state` | what the pages are made of; health |
//! | `exposition` | Prometheus' text format |
//! | `metrics` | every metric |

mod connection;
mod console;
mod exposition;
mod feed;
mod files;
mod hosts;
mod http;
mod metrics;
mod pages;
mod reply;
mod request;
mod state;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use micanite_net::Listener;

use crate::configuration::ListenTls;
use crate::control::Executor;
use crate::security::tls::TlsShared;
pub(crate) use feed::{bytes as feed_bytes, resident_bytes};
pub(crate) use hosts::Hosts;
use http::AdminThread;
pub(crate) use http::Left;
pub use metrics::reference as statistics_reference;
use state::State;

/// All metrics of a server that runs, whether they are served over HTTP or not.
pub(crate) fn metrics_text(executor: &Executor) -> String {
    let state = State::default();
    state.set_running(executor.clone());
    metrics::metrics(&state)
}

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

    /// Starts the thread, if it has not been started yet. `is_restart`: the program before in this process
    /// was a server, too. It may have left its history.
    ///
    /// # Errors
    /// The kernel has no more descriptors or threads.
    pub fn start(
        &mut self,
        tls: Option<(Arc<TlsShared>, ListenTls)>,
        hosts: Hosts,
        (is_restart, left): (bool, Option<File>),
    ) -> io::Result<()> {
        self.state.set_restart(is_restart);
        if let Some(listener) = self.listener.take() {
            self.thread = Some(AdminThread::start(listener, &self.state, tls, hosts, http::DEADLINE, left)?);
        }
        Ok(())
    }

    /// The workers serve from now on.
    pub fn set_running(&self, executor: Executor) {
        self.state.set_running(executor);
        self.thread.iter().for_each(AdminThread::wake);
    }

    /// Returns the address that it listens on, and whether it speaks TLS there.
    pub fn address(&self) -> Option<(SocketAddr, bool)> {
        self.thread.as_ref().map(|thread| (thread.address, thread.is_encrypted))
    }

    /// Ends the thread, and the action that it executes. What it leaves is for another program in this
    /// process.
    pub fn end(self) -> Option<Left> {
        self.thread.and_then(AdminThread::end)
    }
}
