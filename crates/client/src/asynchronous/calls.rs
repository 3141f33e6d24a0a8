//! Calls on their way to the task, and in it those that wait for room, by their lines: a server, or a core of
//! one, that stands still keeps no call to another one waiting.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::{Done, Owned};
use crate::driver::Route;
use crate::error::Error;
use crate::ketama::Continuum;

/// Calls to one server that wait for room. Further callers wait for theirs to come.
const WAITING_MAX: usize = 1024;

/// A call on its way to a server.
pub(super) struct Call {
    pub operation: Owned,
    /// The key's own server, also if another one stands in for it.
    pub server: usize,
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

    /// Ends a call that was not sent, because a server of this name takes none.
    pub fn fail_unsent(self, server: &str) {
        let error = unsent(&self.operation, server);
        self.fail(error);
    }

    /// Returns whether nobody waits for the call, and it changes nothing.
    fn is_abandoned(&self) -> bool {
        self.done.is_closed() && self.operation.rest.only_reads()
    }

    /// Notes that the link has taken the operation.
    pub fn was_submitted(&mut self) {
        self.place = None;
    }
}

/// Returns the error of an operation that was not sent in time.
fn unsent(operation: &Owned, server: &str) -> Error {
    let server = server.to_owned();
    if operation.rest.only_reads() { Error::TimedOut { server } } else { Error::Unreachable { server } }
}

/// A server, and the places for calls that wait for it: for those without ids, and for those with. Ids of a
/// core that does not answer hold up those of all cores.
struct Server {
    name: String,
    places: [Arc<Semaphore>; 2],
}

impl Server {
    fn places(&self, operation: &Owned) -> &Arc<Semaphore> {
        &self.places[usize::from(operation.rest.opcode.has_id())]
    }
}

/// Facts that handles have about the servers.
struct Servers {
    continuum: Continuum,
    list: Vec<Server>,
    /// Deadline of a call that waits, before it is sent.
    deadline: Duration,
}

impl Servers {
    /// Returns whether calls hold half of the places of a call's server, or more: those of silent cores leave
    /// them to others.
    fn is_crowded(&self, call: &Call) -> bool {
        self.list[call.server].places(&call.operation).available_permits() < WAITING_MAX / 2
    }
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

/// Calls of a line wait for the same room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Line {
    /// The server that takes the calls: their own, or the one that stands in for it.
    pub server: usize,
    /// The cores of that server, if they are known.
    pub route: Option<Route>,
    /// The calls need ids, which all cores of a server share.
    pub has_ids: bool,
}

/// Takes calls in the task, which knows what server is dead, and where each call goes.
pub(super) trait CallTaker {
    /// Returns the line of a call now.
    fn line(&self, call: &Call) -> Line;
    /// Returns whether no core of a line has answered for a while.
    fn is_silent(&self, line: Line) -> bool;
    /// Submits a call, or ends it. Returns it if there is no room.
    fn submit(&mut self, call: Call) -> Option<Call>;
}

/// The end of the task.
pub(super) struct Waiting {
    servers: Arc<Servers>,
    calls: mpsc::UnboundedReceiver<Call>,
    /// Calls that had no room, by their lines, those first that have to end first: a server takes calls of
    /// others, too, whose callers may have waited for a place. No queue is empty.
    queues: HashMap<Line, VecDeque<Call>>,
}

/// Creates both ends, for servers by their names.
pub(super) fn channel(
    names: impl Iterator<Item = String>,
    continuum: Continuum,
    deadline_ns: u64,
) -> (CallSender, Waiting) {
    let places = || Arc::new(Semaphore::new(WAITING_MAX));
    let server = |name| Server { name, places: [places(), places()] };
    let list = names.map(server).collect();
    let servers = Arc::new(Servers { continuum, list, deadline: Duration::from_nanos(deadline_ns) });
    let (sender, calls) = mpsc::unbounded_channel();
    let waiting = Waiting { servers: Arc::clone(&servers), calls, queues: HashMap::new() };
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
        let places = self.servers.list[server].places(&operation);
        let name = &self.servers.list[server].name;
        let ended = || Error::from(io::Error::other("the client's task has ended"));
        let place = match Arc::clone(places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                let place = tokio::time::timeout_at(until, Arc::clone(places).acquire_owned()).await;
                place.map_err(|_| unsent(&operation, name))?.map_err(|_| ended())?
            }
        };
        let call = Call { operation, server, until, done, place: Some(place) };
        self.calls.send(call).map_err(|_| ended())
    }

    /// Returns the name of a server, and the deadline of a call that waits.
    pub fn name_and_deadline(&self, server: usize) -> (&str, Duration) {
        (&self.servers.list[server].name, self.servers.deadline)
    }
}

impl Waiting {
    /// Returns whether no call waits for room.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Returns the time until the first call that waits for room has waited enough.
    pub fn due_in(&self) -> Option<Duration> {
        let first = self.queues.values().filter_map(|queue| queue.front());
        let until = first.map(|call| call.until).min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Waits for the next call; `None` after the last handle has gone.
    pub async fn next(&mut self) -> Option<Call> {
        self.calls.recv().await
    }

    /// Passes a call on, behind those of the same line that have begun before.
    pub fn pass(&mut self, call: Call, taker: &mut impl CallTaker) {
        let is_behind = !self.queues.is_empty() && self.queues.contains_key(&taker.line(&call));
        let Some(call) = (if is_behind { Some(call) } else { taker.submit(call) }) else {
            return;
        };
        let line = taker.line(&call);
        if self.servers.is_crowded(&call) && taker.is_silent(line) {
            call.fail_unsent(&self.servers.list[line.server].name);
            return;
        }
        let queue = self.queues.entry(line).or_default();
        let place = queue.partition_point(|other| other.until <= call.until);
        queue.insert(place, call);
    }

    /// Passes all calls on that have come, those first that have waited for room. Lines take turns, because
    /// they may share room. Calls whose line has none wait further, until their deadline.
    pub fn pass_all(&mut self, taker: &mut impl CallTaker) {
        let now = Instant::now();
        let mut lines: Vec<Line> = self.queues.keys().copied().collect();
        while !lines.is_empty() {
            lines.sort_unstable_by_key(|line| self.queues[line].front().map(|call| call.until));
            lines.retain(|line| self.pass_first(*line, now, taker));
        }
        while let Ok(call) = self.calls.try_recv() {
            self.pass(call, taker);
        }
    }

    /// Passes the first call of a line on. Returns whether there are more and there may be room.
    fn pass_first(&mut self, line: Line, now: Instant, taker: &mut impl CallTaker) -> bool {
        let Some(queue) = self.queues.get_mut(&line) else {
            return false;
        };
        let name = &self.servers.list[line.server].name;
        let call = queue.pop_front();
        let is_last = queue.is_empty();
        let mut elsewhere = None;
        let mut has_room = true;
        match call {
            None => {}
            Some(call) if call.is_abandoned() => {}
            Some(call) if call.until <= now => call.fail_unsent(name),
            Some(call) if taker.line(&call) != line => elsewhere = Some(call),
            Some(call) => match taker.submit(call) {
                Some(call) if self.servers.is_crowded(&call) && taker.is_silent(line) => {
                    call.fail_unsent(name)
                }
                Some(call) => {
                    queue.push_front(call);
                    has_room = false;
                }
                None => {}
            },
        }
        if is_last && has_room {
            self.queues.remove(&line);
        }
        if let Some(call) = elsewhere {
            self.pass(call, taker);
        }
        has_room && !is_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;

    /// Two servers that stand in for the first one, by the first byte of the key; some have no room.
    #[derive(Default)]
    struct StandIns {
        is_full: [bool; 3],
        is_silent: [bool; 3],
        taken: Vec<Vec<u8>>,
    }

    impl CallTaker for StandIns {
        fn line(&self, call: &Call) -> Line {
            Line { server: usize::from(call.operation.key[0]), route: None, has_ids: false }
        }

        fn is_silent(&self, line: Line) -> bool {
            self.is_silent[line.server]
        }

        fn submit(&mut self, call: Call) -> Option<Call> {
            if self.is_full[self.line(&call).server] {
                return Some(call);
            }
            self.taken.push(call.operation.key);
            None
        }
    }

    /// Returns a client of three servers, and a key of the first one for each that stands in for it.
    fn three_servers() -> ([[u8; 3]; 3], CallSender, Waiting) {
        let names = ["a", "b", "c"];
        let continuum = Continuum::new(names.iter().map(|name| (*name, 1)));
        let own = |first: u8| (0_u8..).find(|third| continuum.find(&[first, 0, *third]) == 0).unwrap();
        let keys = [0, 1, 2].map(|first| [first, 0, own(first)]);
        let names = names.iter().map(|name| (*name).to_owned());
        let (sender, waiting) = channel(names, continuum.clone(), 60_000_000_000);
        (keys, sender, waiting)
    }

    /// Calls wait behind those to the server that stands in for theirs, and not behind calls that another one
    /// takes.
    #[tokio::test]
    async fn calls_wait_at_the_server_that_stands_in() {
        let (keys, sender, mut waiting) = three_servers();
        let mut callers = Vec::new();
        for line in [1, 2, 1, 1] {
            let (done, caller) = oneshot::channel();
            sender.send(Owned::of(&Operation::get(&keys[line])), done).await.unwrap();
            callers.push(caller);
        }
        let mut taker = StandIns { is_full: [false, true, false], ..StandIns::default() };
        waiting.pass_all(&mut taker);
        assert_eq!(taker.taken, [keys[2]]);
        // Nobody waits for the last one any more.
        callers.pop();
        taker.is_full[1] = false;
        waiting.pass_all(&mut taker);
        assert_eq!(taker.taken, [keys[2], keys[1], keys[1]]);
        assert!(waiting.is_empty());
    }

    /// A call that has begun earlier, and has come later, ends at its own deadline.
    #[tokio::test]
    async fn calls_end_by_their_own_deadlines() {
        let continuum = Continuum::new([("a", 1)].into_iter());
        let (sender, mut waiting) = channel(std::iter::once("a".to_owned()), continuum, 60_000_000_000);
        let mut taker = StandIns { is_full: [true; 3], ..StandIns::default() };
        let now = Instant::now();
        let mut ends = Vec::new();
        for until_s in [3600, 7200, 0] {
            let (done, ended) = oneshot::channel();
            sender.send(Owned::of(&Operation::get(&[0])), done).await.unwrap();
            let mut call = waiting.next().await.unwrap();
            call.until = now + Duration::from_secs(until_s);
            waiting.pass(call, &mut taker);
            ends.push(ended);
        }
        assert_eq!(waiting.due_in(), Some(Duration::ZERO));
        waiting.pass_all(&mut taker);
        let has_ended: Vec<_> = ends.iter_mut().map(|ended| ended.try_recv().is_ok()).collect();
        assert_eq!(has_ended, [false, false, true]);
        assert!(waiting.due_in() > Some(Duration::from_secs(60)) && taker.taken.is_empty());
    }

    /// Calls of a silent line leave half of the places to the other lines of its server, and end without
    /// having been sent.
    #[tokio::test]
    async fn calls_of_a_silent_line_leave_places() {
        let (keys, sender, mut waiting) = three_servers();
        let mut taker = StandIns { is_full: [true; 3], ..StandIns::default() };
        let mut ends = Vec::new();
        for number in 0..WAITING_MAX {
            let (done, ended) = oneshot::channel();
            let line = 1 + number % 2;
            sender.send(Owned::of(&Operation::set(&keys[line], b"")), done).await.unwrap();
            ends.push((line, ended));
        }
        waiting.pass_all(&mut taker);
        assert!(ends.iter_mut().all(|(_, ended)| ended.try_recv().is_err()));
        taker.is_silent[1] = true;
        waiting.pass_all(&mut taker);
        let unsent =
            ends.iter_mut().filter_map(|(line, ended)| ended.try_recv().ok().map(|done| (*line, done)));
        let unsent: Vec<_> = unsent.collect();
        assert_eq!(unsent.len(), WAITING_MAX / 2);
        for (line, done) in &unsent {
            assert!(matches!(done, Done::Answer(Err(Error::Unreachable { .. }))) && *line == 1);
        }
    }
}
