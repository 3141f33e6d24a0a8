//! Reads certificates and passwords again, on a thread of its own: a file can block, and neither connections
//! nor signals wait for that.

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::Builder;

use nix::sys::signal::SigSet;

use crate::limits::REFRESH_TIME;
use crate::security::auth::Auth;
use crate::shared::Server;
use crate::shared::clock::unix_now_s;
use crate::telemetry::log::{error, info, warn};

/// Gives orders to the thread. One may wait while another one is executed.
#[derive(Debug)]
pub struct Reloader(SyncSender<Order>);

#[derive(Debug)]
enum Order {
    /// Certificates and passwords; the log tells the result.
    All,
    /// Certificates, for a client.
    Certificates(Sender<Result<(), String>>),
}

impl Reloader {
    /// Starts the thread. It ends with the process, because nobody could wait for it.
    ///
    /// # Errors
    /// The kernel has no more threads.
    pub fn start(server: &Arc<Server>) -> io::Result<()> {
        let (sender, orders) = sync_channel(1);
        // The server is set up once.
        let _ = server.reloader.set(Self(sender));
        let server = Arc::downgrade(server);
        Builder::new().name("secrets".into()).spawn(move || {
            // Signals are for the main thread. Blocking all of them cannot fail.
            let _ = SigSet::all().thread_block();
            run(&server, &orders);
        })?;
        Ok(())
    }

    /// Has certificates and passwords read again (SIGHUP).
    pub fn read_all(&self) {
        if self.0.try_send(Order::All).is_err() {
            warn!("SIGHUP: the files are still being read; they are read once more after that");
        }
    }

    /// Has certificates read again, and waits for a bounded time.
    ///
    /// # Errors
    /// A sentence that says what is wrong with a file, or that it takes too long.
    pub fn read_certificates(&self) -> Result<(), String> {
        const STILL: &str = "Error certificates are still being read, the log tells how that ends";
        let (sender, result) = channel();
        match self.0.try_send(Order::Certificates(sender)) {
            Ok(()) => result.recv_timeout(REFRESH_TIME).unwrap_or_else(|_| Err(STILL.into())),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Err(STILL.into()),
        }
    }
}

fn run(server: &Weak<Server>, orders: &Receiver<Order>) {
    while let Ok(order) = orders.recv() {
        let Some(server) = server.upgrade() else {
            return;
        };
        let certificates = server.tls.as_ref().map(|tls| tls.refresh(unix_now_s()));
        match order {
            Order::All => {
                log_certificates(certificates);
                log_passwords(server.auth.as_ref().map(Auth::refresh));
            }
            Order::Certificates(client) => {
                let result = certificates.unwrap_or(Ok(()));
                // A client that no longer waits was sent to the log.
                if client.send(result.clone()).is_err() {
                    let outcome = result.err().unwrap_or("certificates were read again".into());
                    warn!("refresh_certs took long: {outcome}");
                }
            }
        }
    }
}

fn log_certificates(result: Option<Result<(), String>>) {
    match result {
        None => {}
        Some(Ok(())) => info!("SIGHUP: certificates were read again"),
        Some(Err(what)) => error!("Could not reload TLS certificates on SIGHUP, the old ones stay: {what}"),
    }
}

fn log_passwords(result: Option<Result<(), String>>) {
    match result {
        None => {}
        Some(Ok(())) => info!("SIGHUP: passwords were read again"),
        Some(Err(what)) => error!("SIGHUP: the old passwords stay: {what}"),
    }
}
