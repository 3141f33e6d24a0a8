//! Authentication: users and passwords from memcached's file (`-Y`), for its text protocol and for SASL PLAIN
//! of the binary one (`-S`).
//!
//! | part | what it does |
//! |---|---|
//! | [`Users`] | the file, and comparing without telling by time what was right |
//! | [`Attempts`] | wrong passwords of an address; too many, and it is not believed for a while |
//! | [`crate::session`] | refuses everything else until it knows who is there |
//!
//! A client that is not believed gets the answer that a wrong password gets, after the same work.

mod attempts;
mod users;

use std::borrow::Cow;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::configuration::AuthSettings;
use crate::limits::LOGGED_USER_BYTES_MAX;
use crate::telemetry::log::limited;
pub use attempts::Attempts;
use attempts::Reached;
pub use users::Users;

/// Result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// User and password are right.
    Welcome,
    /// They are not.
    Wrong,
    /// Too many wrong ones came from the address; what this one was is not told.
    Limited,
}

/// Users, and recent failures.
#[derive(Debug)]
pub struct Auth {
    settings: AuthSettings,
    users: RwLock<Arc<Users>>,
    attempts: Mutex<Attempts>,
    /// Refreshes that were done, and that failed.
    refreshes: [AtomicU32; 2],
}

impl Auth {
    /// Reads the file.
    ///
    /// # Errors
    /// A sentence that names the file and says what is wrong with it.
    pub fn new(settings: &AuthSettings) -> Result<Self, String> {
        Ok(Self {
            users: RwLock::new(Arc::new(Users::load(&settings.file)?)),
            settings: settings.clone(),
            attempts: Mutex::default(),
            refreshes: Default::default(),
        })
    }

    /// Reads the file again. If that fails, everything stays as it was. Who is in stays in.
    ///
    /// # Errors
    /// As in [`Self::new`].
    pub fn refresh(&self) -> Result<(), String> {
        let users = Users::load_again(&self.settings.file).map(Arc::new);
        let is_failed = usize::from(users.is_err());
        let swapped = users.map(|users| *self.users.write().unwrap_or_else(PoisonError::into_inner) = users);
        // Afterwards: who reads the new count is checked by the new users.
        self.refreshes[is_failed].fetch_add(1, Ordering::Release);
        swapped
    }

    /// Returns how often the file was read again, and how often that failed.
    pub fn refreshes(&self) -> (u32, u32) {
        let [done, failed] = self.refreshes.each_ref().map(|count| count.load(Ordering::Acquire));
        (done, failed)
    }

    /// The file.
    pub fn file(&self) -> &PathBuf {
        &self.settings.file
    }

    /// Returns whether the binary protocol can authenticate.
    pub fn sasl(&self) -> bool {
        self.settings.sasl
    }

    /// Checks user and password that came from `source`, if that is an address.
    pub fn check(&self, user: &[u8], password: &[u8], source: Option<IpAddr>, now_s: u32) -> Verdict {
        let users = Arc::clone(&self.users.read().unwrap_or_else(PoisonError::into_inner));
        let right = users.know(user, password);
        let Some(source) = source else {
            if !right {
                log_refusal(user, "unix");
            }
            return if right { Verdict::Welcome } else { Verdict::Wrong };
        };
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if !attempts.may_try(source, user, now_s) {
            return Verdict::Limited;
        }
        if right {
            return Verdict::Welcome;
        }
        let reached = attempts.note_failure(source, user, password, now_s);
        drop(attempts);
        log_refusal(user, source);
        let user = printable(user);
        match reached {
            Reached::None => {}
            Reached::User => limited!(
                WARN,
                "too many wrong passwords, this user of the address is not believed for a while",
                user = %user,
                peer = %source
            ),
            Reached::Address => limited!(
                WARN,
                "too many wrong passwords, the address is not believed for a while",
                user = %user,
                peer = %source
            ),
        }
        Verdict::Wrong
    }
}

/// Logs a user whose login was refused.
fn log_refusal(user: &[u8], peer: impl std::fmt::Display) {
    limited!(WARN, "login refused: user or password is wrong", user = %printable(user), peer = %peer);
}

/// Returns a user as it was sent.
fn printable(user: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&user[..user.len().min(LOGGED_USER_BYTES_MAX)])
}
