//! The task of a client over a fabric. Providers wake nobody that tokio could ask, so it polls: while
//! operations are in flight it yields to other tasks between two polls, and after a while without progress
//! it sleeps for a tick of the runtime's clock in between. Without operations it keeps the session alive.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::{Call, Done};
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
    link: FabricLink,
    waiting: mpsc::Receiver<Call>,
    in_flight: HashMap<u64, Call>,
    next: u64,
    /// Call that had no room.
    held: Option<Call>,
    /// Time of the last progress.
    active_at: Instant,
}

impl Task {
    pub(super) fn new(link: FabricLink, waiting: mpsc::Receiver<Call>) -> Self {
        Self { link, waiting, in_flight: HashMap::new(), next: 0, held: None, active_at: Instant::now() }
    }

    pub(super) async fn run(mut self) {
        loop {
            while let Some(call) = self.held.take().or_else(|| self.waiting.try_recv().ok()) {
                self.submit(call);
                if self.held.is_some() {
                    break;
                }
            }
            let Ok(any) = self.poll() else {
                return;
            };
            if any {
                self.active_at = Instant::now();
            }
            if self.in_flight.is_empty() && self.held.is_none() {
                let next = tokio::time::timeout(IDLE_TICK, self.waiting.recv()).await;
                match next {
                    Ok(Some(call)) => {
                        self.active_at = Instant::now();
                        self.submit(call);
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

    /// Passes results to their callers; returns whether there were any.
    fn poll(&mut self) -> std::io::Result<bool> {
        let mut failed = Vec::new();
        let in_flight = &mut self.in_flight;
        let ended = self.link.poll(self.link.now_ns(), |ended| {
            let Some(call) = in_flight.remove(&ended.token) else {
                return;
            };
            match answer(&ended) {
                Err(error) => failed.push((call, error)),
                // The caller may be gone.
                good => drop(call.done.send(Done::Answer(good))),
            }
        })?;
        for (call, error) in failed {
            let error = self.link.named(&call.operation.key, error);
            let _ = call.done.send(Done::Answer(Err(error)));
        }
        Ok(ended > 0)
    }

    fn submit(&mut self, call: Call) {
        let now_ns = self.link.now_ns();
        match self.link.submit(now_ns, &call.operation.borrow(), self.next) {
            Ok(()) => {
                self.in_flight.insert(self.next, call);
                self.next += 1;
            }
            Err(SubmitError::Full) => self.held = Some(call),
            Err(error) => {
                let error = self.link.refused(&call.operation.key, error);
                let _ = call.done.send(Done::Answer(Err(error)));
            }
        }
    }
}
