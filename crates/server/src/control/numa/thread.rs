//! The thread that moves memory.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::NumaState;
use super::migrate::{End, Pace, migrate};
use super::places::{Job, State};
use crate::shared::Server;
use crate::telemetry::log::{debug, warn};

/// The running thread.
#[derive(Debug)]
pub(crate) struct NumaThread {
    server: Arc<Server>,
    thread: JoinHandle<()>,
}

impl NumaThread {
    /// Starts it, if partitions are bound to nodes.
    pub fn start(server: &Arc<Server>) -> io::Result<Option<Self>> {
        if !server.numa.is_active() {
            return Ok(None);
        }
        let of_thread = Arc::clone(server);
        let run = move || {
            while let Some(job) = of_thread.numa.next() {
                run_job(&of_thread, &job);
            }
        };
        let thread = Builder::new().name("numa".into()).spawn(run)?;
        Ok(Some(Self { server: Arc::clone(server), thread }))
    }

    /// Ends it, after the slice that it moves.
    pub fn end(self) {
        self.server.numa.end();
        // A panic ends the process before this.
        let _ = self.thread.join();
    }
}

struct ByState<'a> {
    state: &'a NumaState,
    job: &'a Job,
}

impl Pace for ByState<'_> {
    fn go_on(&mut self, percent: u64, pause: Duration) -> bool {
        self.state.go_on(self.job, percent, pause)
    }
}

fn run_job(server: &Server, job: &Job) {
    let state = &server.numa;
    let end = migrate(&*server.shared.cache, job, &mut ByState { state, job });
    state.note(job, &end);
    let partition = job.partition;
    match end {
        End::Done(State::Moved, pages) if pages > 0 => {
            let policy = job.policy.map_or_else(String::new, |policy| policy.to_string());
            debug!("numa: partition {partition}: {pages} pages of 4 KiB have moved to node {policy}");
        }
        End::Done(State::Partly(failed, reason), pages) => warn!(
            "numa: partition {partition}: {pages} pages of 4 KiB have moved, {failed} stay on other nodes: \
             {reason}"
        ),
        End::Done(State::Stays(reason), _) => {
            warn!("numa: the memory of partition {partition} stays where it is: {reason}");
        }
        End::Done(..) | End::Cancelled(_) => {}
    }
}
