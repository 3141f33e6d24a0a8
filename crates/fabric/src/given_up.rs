//! Endpoints whose thread stands within a call of the provider, which cannot be interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

use crate::domain::Domain;
use crate::endpoint::Endpoint;

/// Names a file, for tests. The send that finds it removes it, and never returns.
#[cfg(feature = "testing")]
const STANDS_VARIABLE: &str = "FABRIC_TEST_STANDS";

/// An endpoint of this process was given up.
static IS_ANY_GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// The right to give an endpoint up, while its own thread has the [`Endpoint`].
#[derive(Debug)]
pub struct GiveUp {
    domain: Arc<Domain>,
}

impl GiveUp {
    /// Gives the endpoint up. From now on nothing of it is closed: it stays open, and buffers and areas that
    /// are dropped keep their memory and their registrations, because the provider may yet use them.
    pub fn give_up(&self) {
        self.domain.give_up();
        IS_ANY_GIVEN_UP.store(true, Ordering::Relaxed);
    }
}

impl Endpoint {
    /// Returns the right to give this endpoint up from another thread.
    pub fn giver_up(&self) -> GiveUp {
        GiveUp { domain: Arc::clone(&self.domain) }
    }
}

/// Ends the process with an exit status if an endpoint was given up, and returns otherwise. The usual end
/// unloads libfabric, and a thread stands within it.
pub fn end_beside_given_up(status: u8) {
    if IS_ANY_GIVEN_UP.load(Ordering::Relaxed) {
        // SAFETY: it takes a number, and ends the process.
        unsafe { libc::_exit(i32::from(status)) };
    }
}

/// Stands for ever if a test has told so: this is what a provider does whose peer was killed with a lock.
#[cfg(feature = "testing")]
pub(crate) fn stand_if_told() {
    static FILE: std::sync::OnceLock<Option<std::path::PathBuf>> = std::sync::OnceLock::new();
    let file = FILE.get_or_init(|| std::env::var_os(STANDS_VARIABLE).map(Into::into));
    if file.as_ref().is_some_and(|file| std::fs::remove_file(file).is_ok()) {
        loop {
            std::thread::park();
        }
    }
}
