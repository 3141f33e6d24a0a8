//! The task of a client over a fabric. Providers wake nobody that tokio could ask, so it polls: while
//! operations are in flight it yields to other tasks between two polls, and after a while without progress
//! it sleeps for a tick of the runtime's clock in between. Without operations it keeps the session alive.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Done;
use super::calls::{Call, CallTaker, Line, Waiting};
use crate::client::answer;
use crate::driver::SubmitError;
use crate::fabric::FabricLink;

/// Time without progress in which the task only yields.
const YIELDS_FOR: Duration = Duration::from_millis(1);
/// Sleep between two polls afterwards.
const TICK: Duration = Duration::from_millis(1);
/// Sleep without operations, which pushes and the server's deadlines allow.
const IDLE_TICK: Duration = Duration::from_millis(20);

/// Owner of the link.
pub(super) struct Task {
    flights: Flights,
    waiting: Waiting,
    /// Time of the last progress.
    active_at: Instant,
}

/// The link, and calls in flight.
struct Flights {
    link: FabricLink,
    calls: HashMap<u64, Call>,
    next: u64,
}

impl Task {
    pub(super) fn new(link: FabricLink, waiting: Waiting) -> Self {
        let flights = Flights { link, calls: HashMap::new(), next: 0 };
        Self { flights, waiting, active_at: Instant::now() }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.waiting.pass_all(&mut self.flights);
            let Ok(any) = self.flights.poll() else {
                return;
            };
            if any {
                self.active_at = Instant::now();
            }
            if self.flights.calls.is_empty() && self.waiting.is_empty() {
                let next = tokio::time::timeout(IDLE_TICK, self.waiting.next()).await;
                match next {
                    Ok(Some(call)) => {
                        self.active_at = Instant::now();
                        self.waiting.pass(call, &mut self.flights);
                    }
                    Ok(None) => return,
                    // A poll keeps the session alive.
                    Err(_) => {}
                }
            } else if self.active_at.elapsed() < YIELDS_FOR {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(TICK).await;
            }
        }
    }
}

impl Flights {
    /// Passes results to their callers; returns whether there were any.
    fn poll(&mut self) -> std::io::Result<bool> {
        let mut failed = Vec::new();
        let calls = &mut self.calls;
        let ended = self.link.poll(self.link.now_ns(), |ended| {
            let Some(call) = calls.remove(&ended.token) else {
                return;
            };
            match answer(&ended) {
                Err(error) => failed.push((call, error)),
                good => call.end(Done::Answer(good)),
            }
        })?;
        for (call, error) in failed {
            let error = self.link.named(&call.operation.key, error);
            call.fail(error);
        }
        Ok(ended > 0)
    }
}

impl CallTaker for Flights {
    fn line(&self, call: &Call) -> Line {
        let server = self.link.server_for(call.server, &call.operation.key);
        Line { server, route: None, has_ids: false }
    }

    fn is_silent(&self, _: Line) -> bool {
        false
    }

    fn submit(&mut self, mut call: Call) -> Option<Call> {
        let now_ns = self.link.now_ns();
        match self.link.submit(now_ns, &call.operation.borrow(), self.next) {
            Ok(()) => {
                call.was_submitted();
                self.calls.insert(self.next, call);
                self.next += 1;
            }
            Err(SubmitError::Full) => return Some(call),
            Err(error) => {
                let error = self.link.refused(&call.operation.key, error);
                call.fail(error);
            }
        }
        None
    }
}
