//! The task of a client that sends datagrams. It owns the link.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::Done;
use super::calls::{Call, CallTaker, Line, Waiting};
use crate::client::answer;
use crate::driver::SubmitError;
use crate::error::Error;
use crate::link::Link;
use crate::operation::{Opcode, Outcome};

/// Pause after an error of the sockets.
const PAUSE: Duration = Duration::from_millis(10);

/// Owner of the link.
pub(super) struct Task {
    flights: Flights,
    sockets: Vec<UdpSocket>,
    waiting: Waiting,
}

/// The link, and calls in flight.
struct Flights {
    link: Link,
    calls: HashMap<u64, Call>,
    next: u64,
}

impl Task {
    pub(super) fn new(link: Link, sockets: Vec<UdpSocket>, waiting: Waiting) -> Self {
        Self { flights: Flights { link, calls: HashMap::new(), next: 0 }, sockets, waiting }
    }

    pub(super) async fn run(mut self) {
        loop {
            if let Err(error) = self.turn() {
                self.flights.give_up(error);
                tokio::time::sleep(PAUSE).await;
            }
            let due = self.flights.link.driver().next_time();
            let wait_ns = due.map_or(u64::MAX, |due| due.saturating_sub(self.flights.link.now_ns()));
            let held_ns = self.waiting.due_in().map_or(u64::MAX, |due| due.as_nanos() as u64);
            let wait_ns = wait_ns.min(held_ns);
            let next = tokio::select! {
                call = self.waiting.next() => call,
                () = readable(&self.sockets, wait_ns) => continue,
            };
            match next {
                Some(call) => self.waiting.pass(call, &mut self.flights),
                None if self.flights.calls.is_empty() && self.waiting.is_empty() => return,
                None => readable(&self.sockets, wait_ns).await,
            }
        }
    }

    /// Takes waiting calls, sends, receives. A call without room is retried as long as answers and deadlines
    /// make room. Once all operations have ended, nothing else would wake the task.
    fn turn(&mut self) -> io::Result<()> {
        loop {
            let ended = self.flights.ended();
            self.waiting.pass_all(&mut self.flights);
            self.flights.link.flush();
            match self.flights.receive() {
                Ok(any) if !self.waiting.is_empty() && (any || self.flights.ended() > ended) => {}
                received => return received.map(drop),
            }
        }
    }
}

impl Flights {
    /// Returns the number of operations that have ended, those of the link itself among them.
    fn ended(&self) -> u64 {
        self.link.driver().counters().completed
    }

    /// Ends the calls in flight. The error may go by, such as that of memory.
    fn give_up(&mut self, error: io::Error) {
        let mut unknown = Vec::new();
        let calls = &mut self.calls;
        self.link.give_up(|token| unknown.extend(calls.remove(&token)));
        let error = Error::from(error);
        for call in unknown {
            let is_known = call.operation.rest.only_reads();
            call.fail(if is_known { error.clone() } else { Error::OutcomeUnknown });
        }
        calls.drain().for_each(|(_, call)| call.fail(error.clone()));
    }

    /// Receives available datagrams; returns whether there were any.
    fn receive(&mut self) -> io::Result<bool> {
        let mut any = false;
        loop {
            let now_ns = self.link.now_ns();
            let mut for_streams = Vec::new();
            let mut failed = Vec::new();
            let calls = &mut self.calls;
            let received = self.link.poll(now_ns, |ended| {
                let Some(call) = calls.remove(&ended.token) else {
                    return;
                };
                match answer(&ended) {
                    _ if ended.outcome == Outcome::UseStream => for_streams.push(call),
                    Err(error) => failed.push((call, error)),
                    good => call.end(Done::Answer(good)),
                }
            });
            for (call, error) in failed {
                let error = self.link.named(&call.operation.key, error);
                call.fail(error);
            }
            for call in for_streams {
                self.send_to_stream(call);
            }
            match received? {
                0 => return Ok(any),
                _ => any = true,
            }
        }
    }

    fn send_to_stream(&mut self, call: Call) {
        let server = self.link.driver().server_now(&call.operation.key);
        let address = self.link.stream_address(server);
        self.link.follow_ports();
        call.end(Done::Stream(server, address));
    }
}

impl CallTaker for Flights {
    fn line(&self, call: &Call) -> Line {
        let driver = self.link.driver();
        let server = driver.server_for(call.server, &call.operation.key);
        let has_ids = call.operation.rest.opcode.has_id();
        Line { server, route: driver.route_at(server, &call.operation.borrow()), has_ids }
    }

    fn is_silent(&self, line: Line) -> bool {
        let (driver, now_ns) = (self.link.driver(), self.link.now_ns());
        line.route.is_some_and(|route| driver.is_silent(now_ns, route))
    }

    fn submit(&mut self, mut call: Call) -> Option<Call> {
        let now_ns = self.link.now_ns();
        let operation = call.operation.borrow();
        let makes_room = self.link.driver().pending() > 0;
        let error = match self.link.submit(now_ns, &operation, self.next) {
            Ok(()) => {
                call.was_submitted();
                self.calls.insert(self.next, call);
                self.next += 1;
                return None;
            }
            Err(SubmitError::Full) if makes_room => return Some(call),
            Err(SubmitError::TooLong) if operation.opcode != Opcode::Noop => {
                self.send_to_stream(call);
                return None;
            }
            Err(SubmitError::ServerDown { server }) => self.link.down(server),
            Err(SubmitError::BadKey) => Error::BadKey,
            Err(SubmitError::ExpiryTooFar) => Error::ExpiryTooFar,
            Err(_) => Error::Refused,
        };
        call.fail(error);
        None
    }
}

/// Waits until a socket is readable, or a time is over.
async fn readable(sockets: &[UdpSocket], at_most_ns: u64) {
    let first = async {
        match sockets.first() {
            Some(socket) => ready(socket).await,
            None => std::future::pending().await,
        }
    };
    let second = async {
        match sockets.get(1) {
            Some(socket) => ready(socket).await,
            None => std::future::pending().await,
        }
    };
    let over = async {
        match at_most_ns {
            u64::MAX => std::future::pending().await,
            wait_ns => tokio::time::sleep(Duration::from_nanos(wait_ns)).await,
        }
    };
    tokio::select! {
        () = first => {}
        () = second => {}
        () = over => {}
    }
}

/// All available input is read after this. New input sets the cleared readiness again.
async fn ready(socket: &UdpSocket) {
    if socket.readable().await.is_ok() {
        let clear = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _always_would_block = socket.try_io(Interest::READABLE, clear);
    }
}
