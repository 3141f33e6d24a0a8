//! Calls on their way to the task, and in it those that wait for room, by their servers: a server that stands
//! still keeps no call to another one waiting.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::{Done, Owned};
use crate::error::Error;
use crate::ketama::Continuum;

/// Calls to one server that wait for room. Further callers wait for theirs to come.
const WAITING_MAX: usize = 1024;

/// A call on its way to a server.
pub(super) struct Call {
    pub operation: Owned,
    /// The key's own server, also if another one stands in for it.
    server: usize,
    until: Instant,
    done: oneshot::Sender<Done>,
    /// The call's place among those that wait.
    place: Option<OwnedSemaphorePermit>,
}

impl Call {
    /// Ends the call. Its caller may be gone.
    pub fn end(self, done: Done) {
        let _ = self.done.send(done);
    }

    pub fn fail(self, error: Error) {
        self.end(Done::Answer(Err(error)));
    }

    /// Notes that the link has taken the operation.
    pub fn was_submitted(&mut self) {
        self.place = None;
    }
}

/// A server, and the places for calls that wait for it.
struct Server {
    name: String,
    places: Arc<Semaphore>,
}

/// Facts that handles have about the servers.
struct Servers {
    continuum: Continuum,
    list: Vec<Server>,
    /// Deadline of a call that waits, before it is sent.
    deadline: Duration,
}

/// The end of the handles.
#[derive(Clone)]
pub(super) struct CallSender {
    servers: Arc<Servers>,
    calls: mpsc::UnboundedSender<Call>,
}

impl std::fmt::Debug for CallSender {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("CallSender").finish_non_exhaustive()
    }
}

/// The end of the task.
pub(super) struct Waiting {
    servers: Arc<Servers>,
    calls: mpsc::UnboundedReceiver<Call>,
    /// Calls that had no room, for each server.
    queues: Vec<VecDeque<Call>>,
    /// Servers that have such calls.
    held: Vec<usize>,
}

/// Creates both ends, for servers by their names.
pub(super) fn channel(
    names: impl Iterator<Item = String>,
    continuum: Continuum,
    deadline_ns: u64,
) -> (CallSender, Waiting) {
    let server = |name| Server { name, places: Arc::new(Semaphore::new(WAITING_MAX)) };
    let list: Vec<_> = names.map(server).collect();
    let queues = list.iter().map(|_| VecDeque::new()).collect();
    let servers = Arc::new(Servers { continuum, list, deadline: Duration::from_nanos(deadline_ns) });
    let (sender, calls) = mpsc::unbounded_channel();
    let waiting = Waiting { servers: Arc::clone(&servers), calls, queues, held: Vec::new() };
    (CallSender { servers, calls: sender }, waiting)
}

impl CallSender {
    /// Sends a call to the task, once there is a place for it among those of its server.
    pub async fn send(&self, operation: Owned, done: oneshot::Sender<Done>) -> Result<(), Error> {
        let server = match self.servers.list.len() {
            1 => 0,
            _ if operation.key.is_empty() => 0,
            _ => self.servers.continuum.find(&operation.key),
        };
        let until = Instant::now() + self.servers.deadline;
        let Server { name, places } = &self.servers.list[server];
        let ended = || Error::from(io::Error::other("the client's task has ended"));
        let place = match Arc::clone(places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                let place = tokio::time::timeout_at(until, Arc::clone(places).acquire_owned()).await;
                place.map_err(|_| Error::TimedOut { server: name.clone() })?.map_err(|_| ended())?
            }
        };
        let call = Call { operation, server, until, done, place: Some(place) };
        self.calls.send(call).map_err(|_| ended())
    }
}

impl Waiting {
    /// Returns whether no call waits for room.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns the time until the first call that waits for room has waited enough.
    pub fn due_in(&self) -> Option<Duration> {
        let first = self.held.iter().filter_map(|server| self.queues[*server].front());
        let until = first.map(|call| call.until).min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Waits for the next call; `None` after the last handle has gone.
    pub async fn next(&mut self) -> Option<Call> {
        self.calls.recv().await
    }

    /// Passes a call on, behind those to its server. `submit` returns the call if there is no room for it.
    pub fn pass(&mut self, call: Call, submit: &mut impl FnMut(Call) -> Option<Call>) {
        let server = call.server;
        let queue = &mut self.queues[server];
        if !queue.is_empty() {
            queue.push_back(call);
        } else if let Some(call) = submit(call) {
            queue.push_back(call);
            self.held.push(server);
        }
    }

    /// Passes all calls on that have come, those first that have waited for room. Calls whose server has no
    /// room wait further, until their deadline.
    pub fn pass_all(&mut self, submit: &mut impl FnMut(Call) -> Option<Call>) {
        let now = Instant::now();
        let (queues, servers) = (&mut self.queues, &self.servers);
        self.held.retain(|server| {
            let queue = &mut queues[*server];
            while let Some(call) = queue.pop_front() {
                if call.until <= now {
                    call.fail(Error::TimedOut { server: servers.list[*server].name.clone() });
                } else if let Some(call) = submit(call) {
                    queue.push_front(call);
                    return true;
                }
            }
            false
        });
        while let Ok(call) = self.calls.try_recv() {
            self.pass(call, submit);
        }
    }
}
