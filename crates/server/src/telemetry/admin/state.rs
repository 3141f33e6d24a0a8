//! Input of the pages: the server, and the stage that it has reached.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::control::Executor;
use crate::shared::clock::Clock;
use crate::shared::{Ending, Server};

/// A worker whose last housekeeping is longer ago than this does not work any more.
const SILENCE_MS_MAX: u64 = 10_000;

/// A server that starts, runs, and ends.
#[derive(Debug, Default)]
pub(crate) struct State {
    running: OnceLock<Executor>,
    /// The program before in this process was a server, too.
    is_restart: AtomicBool,
}

/// A state in words: good, or not.
pub(super) type Health = Result<&'static str, String>;

impl State {
    /// The workers serve from now on.
    pub fn set_running(&self, executor: Executor) {
        // It starts once.
        let _ = self.running.set(executor);
    }

    /// Notes that the program before in this process was a server, too.
    pub fn set_restart(&self, is_restart: bool) {
        self.is_restart.store(is_restart, Ordering::Relaxed);
    }

    /// Returns whether it was.
    pub(super) fn is_restart(&self) -> bool {
        self.is_restart.load(Ordering::Relaxed)
    }

    /// The executor of what users ask for, once the server runs.
    pub(super) fn executor(&self) -> Option<&Executor> {
        self.running.get()
    }

    /// The server and its clock, once it runs.
    pub(super) fn running(&self) -> Option<(&Server, Clock)> {
        let Executor { server, clock, .. } = self.running.get()?;
        Some((server, *clock))
    }

    /// Returns whether the server accepts connections.
    pub(super) fn readiness(&self) -> Health {
        let Some((server, _)) = self.running() else {
            return Err("starting".into());
        };
        match server.shared.ending() {
            Ending::Gracefully | Ending::AtOnce => Err("ending".into()),
            Ending::Not if !server.acceptor.now().accepting => {
                Err("no descriptors are left for connections".into())
            }
            Ending::Not => Ok("ready"),
        }
    }

    /// Returns whether every worker makes progress.
    pub(super) fn health(&self) -> Health {
        let Some((server, clock)) = self.running() else {
            return Ok("starting");
        };
        let now_ms = clock.now_ms();
        let is_silent = |last_ms: u64| now_ms.saturating_sub(last_ms) > SILENCE_MS_MAX;
        let stamps = server.shared.counters.iter().map(|of| of.maintained_ms.get());
        let silent: Vec<_> = stamps
            .enumerate()
            .filter(|(_, last_ms)| *last_ms > 0 && is_silent(*last_ms))
            .map(|(worker, _)| worker.to_string())
            .collect();
        match silent.as_slice() {
            [] => Ok("ok"),
            workers => Err(format!("not working: worker {}", workers.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn executor(bench: &Bench, clock: Clock) -> Executor {
        let (worker, _) = std::sync::mpsc::channel();
        Executor { server: std::sync::Arc::clone(&bench.server), clock, worker }
    }

    #[test]
    fn a_server_is_healthy_before_it_is_ready() {
        let state = State::default();
        assert_eq!(state.health(), Ok("starting"));
        assert_eq!(state.readiness(), Err("starting".into()));
        let (bench, clock) = (Bench::new(""), Clock::start());
        state.set_running(executor(&bench, clock));
        assert_eq!(state.health(), Ok("ok"));
        assert_eq!(state.readiness(), Ok("ready"));
        bench.server.acceptor.set_pausing(true);
        assert!(state.readiness().is_err());
        bench.server.acceptor.set_pausing(false);
        bench.server.end(Ending::Gracefully);
        assert_eq!(state.readiness(), Err("ending".into()));
    }

    #[test]
    fn a_worker_that_is_silent_is_named() {
        let (state, bench, clock) = (State::default(), Bench::new(""), Clock::start());
        state.set_running(executor(&bench, clock));
        let stamp = &bench.server.shared.counters[0].maintained_ms;
        stamp.set(clock.now_ms());
        assert_eq!(state.health(), Ok("ok"));
        stamp.set(clock.now_ms() - SILENCE_MS_MAX - 1000);
        assert_eq!(state.health(), Err("not working: worker 0".into()));
    }
}
