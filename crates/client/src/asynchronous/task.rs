//! The task of a client that sends datagrams. It owns the link.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::{Call, Done};
use crate::client::answer;
use crate::driver::SubmitError;
use crate::error::Error;
use crate::link::Link;
use crate::operation::{Opcode, Outcome};

/// Pause after an error of the sockets.
const PAUSE: Duration = Duration::from_millis(10);

/// Owner of the link.
pub(super) struct Task {
    link: Link,
    sockets: Vec<UdpSocket>,
    waiting: mpsc::Receiver<Call>,
    in_flight: HashMap<u64, Call>,
    next: u64,
    /// Call that had no room.
    held: Option<Call>,
}

impl Task {
    pub(super) fn new(link: Link, sockets: Vec<UdpSocket>, waiting: mpsc::Receiver<Call>) -> Self {
        Self { link, sockets, waiting, in_flight: HashMap::new(), next: 0, held: None }
    }

    pub(super) async fn run(mut self) {
        loop {
            if let Err(error) = self.turn() {
                self.give_up(error);
                tokio::time::sleep(PAUSE).await;
            }
            let due = self.link.driver().next_time();
            let wait_ns = due.map_or(u64::MAX, |due| due.saturating_sub(self.link.now_ns()));
            let is_full = self.held.is_some();
            tokio::select! {
                call = self.waiting.recv(), if !is_full => match call {
                    Some(call) => self.submit(call),
                    None if self.in_flight.is_empty() => return,
                    None => readable(&self.sockets, wait_ns).await,
                },
                () = readable(&self.sockets, wait_ns) => {}
            }
        }
    }

    /// Ends the calls in flight. The error may go by, such as that of memory.
    fn give_up(&mut self, error: io::Error) {
        let mut unknown = Vec::new();
        let in_flight = &mut self.in_flight;
        self.link.give_up(|token| unknown.extend(in_flight.remove(&token)));
        let error = Error::from(error);
        let unsent = in_flight.drain().map(|(_, call)| (call, true));
        for (call, is_unsent) in unknown.into_iter().map(|call| (call, false)).chain(unsent) {
            let is_known = is_unsent || call.operation.rest.only_reads();
            let error = if is_known { error.clone() } else { Error::OutcomeUnknown };
            let _ = call.done.send(Done::Answer(Err(error)));
        }
    }

    /// Takes waiting calls, sends, receives. A call without room is retried as long as answers make room.
    /// Once all answers have arrived, nothing else would wake the task.
    fn turn(&mut self) -> io::Result<()> {
        loop {
            while let Some(call) = self.held.take().or_else(|| self.waiting.try_recv().ok()) {
                self.submit(call);
                if self.held.is_some() {
                    break;
                }
            }
            self.link.flush();
            match self.receive() {
                // Deadlines make room, too.
                Ok(any) if self.held.is_some() && (any || self.in_flight.is_empty()) => {}
                received => return received.map(drop),
            }
        }
    }

    /// Receives available datagrams; returns whether there were any.
    fn receive(&mut self) -> io::Result<bool> {
        let mut any = false;
        loop {
            let now_ns = self.link.now_ns();
            let mut for_streams = Vec::new();
            let mut failed = Vec::new();
            let in_flight = &mut self.in_flight;
            let received = self.link.poll(now_ns, |ended| {
                let Some(call) = in_flight.remove(&ended.token) else {
                    return;
                };
                match answer(&ended) {
                    _ if ended.outcome == Outcome::UseStream => for_streams.push(call),
                    Err(error) => failed.push((call, error)),
                    // The caller may be gone.
                    good => drop(call.done.send(Done::Answer(good))),
                }
            });
            for (call, error) in failed {
                let error = self.link.named(&call.operation.key, error);
                let _ = call.done.send(Done::Answer(Err(error)));
            }
            for call in for_streams {
                self.to_stream(call);
            }
            match received? {
                0 => return Ok(any),
                _ => any = true,
            }
        }
    }

    fn submit(&mut self, call: Call) {
        let now_ns = self.link.now_ns();
        let operation = call.operation.borrow();
        let is_alone = self.in_flight.is_empty();
        let error = match self.link.submit(now_ns, &operation, self.next) {
            Ok(()) => {
                self.in_flight.insert(self.next, call);
                self.next += 1;
                return;
            }
            Err(SubmitError::Full) if !is_alone => {
                self.held = Some(call);
                return;
            }
            Err(SubmitError::TooLong) if operation.opcode != Opcode::Noop => {
                self.to_stream(call);
                return;
            }
            Err(SubmitError::ServerDown { server }) => self.link.down(server),
            Err(SubmitError::BadKey) => Error::BadKey,
            Err(SubmitError::ExpiryTooFar) => Error::ExpiryTooFar,
            Err(_) => Error::Refused,
        };
        let _ = call.done.send(Done::Answer(Err(error)));
    }

    fn to_stream(&self, call: Call) {
        let server = self.link.driver().server_now(&call.operation.key);
        let address = self.link.stream_address(server);
        let _ = call.done.send(Done::Stream(server, address));
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
