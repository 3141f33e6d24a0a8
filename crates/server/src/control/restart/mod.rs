//! A restart in place: the process stays, the program in it is executed anew.
//!
//! ```text
//!  micanite ctl restart, SIGUSR2
//!    try the program with its options, and with what this server has (--print-config, `serve/trial.rs`): it
//!    opens the sockets that are new, and leaves them here; what is wrong is refused, and nothing ends
//!    no longer accept: connections wait in the kernel's queue; end the others between two requests
//!    close the image
//!    exec: listeners, datagram sockets and the maps of an image that is no files stay open, their
//!          numbers are in the environment
//!    map the image, accept
//! ```
//!
//! The image has one writer at any moment because there is one process: nothing has to be
//! agreed upon between an old and a new one. Its id stays, too, so that supervisors, containers
//! and pid files need not learn of a restart.

mod handover;
mod program;
mod trial;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Builder;

use micanite_control::answer::text as answer_text;
use micanite_engine::ImageState;
use micanite_net::{ByteStream, Stream};
use nix::time::{ClockId, clock_gettime};

use crate::shared::Server;
use crate::telemetry::log::{error, warn};
pub use handover::{Handover, Heirloom};
pub use program::{Program, answer};
pub use trial::{Running, Trial, matches, place};

/// A restart: the program to execute, and whether one was asked for.
#[derive(Debug)]
pub struct Restart {
    program: io::Result<Program>,
    /// Reason why a restart is refused.
    forbidden: Option<String>,
    /// Facts with which the next program goes on, once the server runs.
    running: OnceLock<Running>,
    is_wanted: AtomicBool,
    waiting: Mutex<Waiting>,
    /// Held by the trial. Two at once would want the same ports, and inherit each other's sockets.
    trying: Mutex<()>,
}

/// Since when a restart is under way, and who waits for its end.
#[derive(Debug, Default)]
pub struct Waiting {
    /// By the monotonic clock.
    pub began_ns: u64,
    /// The client that asked for the restart, and waits for its answer.
    pub client: Option<Stream>,
    /// Sockets that the trial has opened.
    pub opened: Vec<(Heirloom, OwnedFd)>,
}

impl Restart {
    /// Creates the state for a program. An error is reported when a restart is asked for.
    pub fn new(program: io::Result<Program>) -> Self {
        Self {
            program,
            forbidden: None,
            running: OnceLock::new(),
            is_wanted: AtomicBool::new(false),
            waiting: Mutex::default(),
            trying: Mutex::default(),
        }
    }

    /// Refuses every restart with this reason.
    pub fn forbid(&mut self, reason: String) {
        self.forbidden = Some(reason);
    }

    /// Notes what the next program goes on with, once.
    pub fn set_running(&self, running: Running) {
        let _ = self.running.set(running);
    }

    /// The program that would be executed.
    ///
    /// # Errors
    /// It is not known.
    pub fn program(&self) -> Result<&Program, String> {
        self.program.as_ref().map_err(|error| format!("the program's own file is not known: {error}"))
    }

    /// Notes that another program is to follow this one. The caller holds the turn, and knows of none yet.
    fn note(&self, client: &mut Option<Stream>, opened: Vec<(Heirloom, OwnedFd)>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = Waiting { began_ns: monotonic_ns(), client: client.take(), opened };
        let was_wanted = self.is_wanted.swap(true, Ordering::AcqRel);
        debug_assert!(!was_wanted);
    }

    /// Returns whether another program follows.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// The process is to end after all.
    pub fn cancel(&self) {
        self.is_wanted.store(false, Ordering::Release);
    }

    /// Takes the part of the request that the next program has to know.
    pub fn take_waiting(&self) -> Waiting {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Restarts, in a thread of its own, for the trial takes its time. A client is answered by the next
/// program, or with the reason why there is none.
pub fn begin(server: &Arc<Server>, force: bool, mut client: Option<Stream>) {
    let server = Arc::clone(server);
    let run = move || {
        let Err(reason) = prepare(&server, force, &mut client) else {
            return;
        };
        match &mut client {
            // The answer is one line: it fits the empty buffer of the socket.
            Some(client) => drop(client.send(answer_text(&Err(reason)).as_bytes())),
            None => warn!("no restart: {reason}"),
        }
    };
    if let Err(error) = Builder::new().name("restart".into()).spawn(run) {
        error!("no restart: cannot start a thread: {error}");
    }
}

fn prepare(server: &Server, force: bool, client: &mut Option<Stream>) -> Result<(), String> {
    if *server.shared.cache.image_state() == ImageState::None && !force {
        let text = "there is no --image: ctl restart --force restarts, and this discards all items";
        return Err(text.into());
    }
    if let Some(reason) = &server.restart.forbidden {
        return Err(reason.clone());
    }
    let trial = Trial {
        has_maps: !server.shared.cache.maps().is_empty(),
        is_forced: force,
        locks: server.pin_locks.iter().flat_map(place).collect(),
        running: server.restart.running.get().cloned(),
        ..Trial::default()
    };
    let turn = server.restart.trying.lock().unwrap_or_else(PoisonError::into_inner);
    if server.restart.is_wanted() {
        return Err("a restart is under way".into());
    }
    let opened = server.restart.program()?.try_out(trial, server.shared.cache.maps())?;
    server.restart.note(client, opened);
    drop(turn);
    if !server.end_for_restart() {
        *client = server.restart.take_waiting().client;
        return Err("the server is ending".into());
    }
    Ok(())
}

/// The monotonic clock, which goes on through a restart.
pub fn monotonic_ns() -> u64 {
    // It cannot fail for this clock.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
