//! A client of C's, and what a fork in the middle of a call leaves of it.

use crate::Status;
use micanite_client::{Attempts, Builder, Client, Error, Options};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Instant;

/// A client, and the error of its last call.
#[derive(Debug)]
pub struct Micanite {
    servers: String,
    /// `None`: it has not connected.
    client: Option<Client>,
    /// Attempts to connect anew.
    attempts: Attempts,
    error: CString,
    /// Number of the process that stored the error, where a thread was inside a call at its fork.
    error_process: u32,
    /// Number of the process that has made them.
    attempts_process: u32,
    /// A thread is inside a call. In the child of a fork that thread does not exist, and has left the client
    /// in no known state.
    is_inside: AtomicBool,
    /// Number of the process that has connected.
    process: u32,
}

impl Micanite {
    /// Connects to the servers of a list, separated by commas.
    pub(crate) fn connect(servers: String) -> (Self, Status) {
        let process = std::process::id();
        let mut made = Self {
            servers,
            client: None,
            attempts: Attempts::default(),
            attempts_process: process,
            error: CString::default(),
            error_process: process,
            is_inside: AtomicBool::new(false),
            process,
        };
        let status = match made.builder().connect() {
            Ok(client) => {
                made.client = Some(client);
                Status::Ok
            }
            Err(error) => made.fail_with(&error),
        };
        (made, status)
    }

    fn builder(&self) -> Builder {
        let names = self.servers.split(',').map(str::trim);
        names.fold(Client::builder(), |builder, name| builder.server(name))
    }

    /// Returns the error of the last call.
    pub(crate) fn error(&self) -> &CStr {
        match self.has_foreign_error() {
            true => c"a thread of the parent was inside a call at the fork",
            false => &self.error,
        }
    }

    /// Returns whether the error is one that a thread of the parent may have been about to replace.
    fn has_foreign_error(&self) -> bool {
        self.was_forked_inside() && self.error_process != std::process::id()
    }

    /// Runs a call of the client.
    pub(crate) fn run(&mut self, call: impl FnOnce(&mut Client) -> Result<Status, Error>) -> Status {
        if self.was_forked_inside()
            && let Err(error) = self.start_over()
        {
            return self.fail_with(&error);
        }
        let Some(client) = &mut self.client else {
            return Status::Unreachable;
        };
        self.is_inside.store(true, Ordering::Relaxed);
        // A fork sees this before it sees what the call changes.
        fence(Ordering::Release);
        let (status, error) = match call(client) {
            Ok(status) => (status, CString::default()),
            Err(error) => (Status::of(&error), text_of(&error.to_string())),
        };
        self.error = error;
        self.is_inside.store(false, Ordering::Release);
        status
    }

    /// Returns whether this process is the child of a fork that came while a thread was inside a call.
    pub(crate) fn was_forked_inside(&self) -> bool {
        self.is_inside.load(Ordering::Relaxed) && self.process != std::process::id()
    }

    /// Leaks the client and its error, and connects anew.
    fn start_over(&mut self) -> Result<(), Error> {
        std::mem::forget(self.client.take());
        if self.has_foreign_error() {
            std::mem::forget(std::mem::take(&mut self.error));
        }
        if self.attempts_process != std::process::id() {
            // A thread of the process before may have been about to change them.
            std::mem::forget(std::mem::take(&mut self.attempts));
            self.attempts_process = std::process::id();
        }
        let (builder, dead_for_ns) = (self.builder(), Options::default().dead_for_ns);
        self.client = Some(self.attempts.connect(Instant::now(), dead_for_ns, || builder.connect())?);
        self.process = std::process::id();
        Ok(())
    }

    fn fail_with(&mut self, error: &Error) -> Status {
        self.fail(Status::of(error), &error.to_string())
    }

    /// Keeps the text of an error.
    pub(crate) fn fail(&mut self, status: Status, text: &str) -> Status {
        // A child that could not connect anew stays one that has to.
        if self.has_foreign_error() {
            std::mem::forget(std::mem::take(&mut self.error));
            self.error_process = std::process::id();
        }
        let was_inside = self.is_inside.swap(true, Ordering::Relaxed);
        fence(Ordering::Release);
        self.error = text_of(text);
        self.is_inside.store(was_inside, Ordering::Release);
        status
    }
}

fn text_of(error: &str) -> CString {
    CString::new(error.replace('\0', " ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// In the child of a fork that came inside a call, each call at a silent server waited a deadline.
    #[test]
    fn a_child_pauses_between_attempts_to_connect() {
        const CALLS: usize = 20;
        let path = std::env::temp_dir().join(format!("micanite-c-silent-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        // As the fork leaves it.
        let mut client = Micanite {
            servers: format!("local://{}", path.display()),
            client: None,
            attempts: Attempts::default(),
            attempts_process: std::process::id(),
            error: CString::default(),
            error_process: 0,
            is_inside: AtomicBool::new(true),
            process: 0,
        };
        for _ in 0..CALLS {
            let status = client.run(|_| Ok(Status::Ok));
            assert_eq!(status as i32, Status::Unreachable as i32, "{:?}", client.error());
        }
        let attempts = listener.incoming().take_while(Result::is_ok).count();
        assert!((1..CALLS / 2).contains(&attempts), "{attempts} attempts of {CALLS} calls");
        std::fs::remove_file(path).unwrap();
    }
}
