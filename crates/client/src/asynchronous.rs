//! A client for tokio: a task owns the link, handles send it operations.

use crate::client::{Answer, Builder, CasOutcome, Streams, Value, answer};
use crate::driver::SubmitError;
use crate::error::Error;
use crate::link::Link;
use crate::operation::{Opcode, Operation, Outcome};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};

/// Operations that wait for the task; more wait at their callers.
const WAITING_MAX: usize = 1024;

/// A handle on a client that runs as a task of the runtime in which it was connected. Clones share
/// it, its batches and its pace; the task ends with the last of them.
#[derive(Clone, Debug)]
pub struct AsyncClient {
    calls: mpsc::Sender<Call>,
    streams: Arc<Mutex<Streams>>,
}

/// How the task answers.
enum Done {
    Answer(Result<Answer, Error>),
    /// It is one for this server's stream.
    Stream(usize, Result<std::net::SocketAddr, Error>),
}

struct Call {
    operation: Owned,
    done: oneshot::Sender<Done>,
}

/// An operation that owns its bytes.
#[derive(Clone)]
struct Owned {
    key: Vec<u8>,
    value: Vec<u8>,
    rest: Operation<'static>,
}

impl Owned {
    fn of(operation: &Operation<'_>) -> Self {
        Self {
            key: operation.key.to_vec(),
            value: operation.value.to_vec(),
            rest: Operation {
                key: &[],
                value: &[],
                ..*operation
            },
        }
    }

    fn borrow(&self) -> Operation<'_> {
        Operation {
            key: &self.key,
            value: &self.value,
            ..self.rest
        }
    }
}

impl Builder {
    /// Finds the servers, fetches their directories, and starts the task of the client.
    ///
    /// # Errors
    /// A name has no address; no server replies.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub async fn connect_async(self) -> Result<AsyncClient, Error> {
        let connected = tokio::task::spawn_blocking(move || self.connect()).await;
        let client = connected.map_err(|error| Error::Io(io::Error::other(error)))??;
        let (link, streams) = client.into_parts();
        let register = |socket: std::os::fd::BorrowedFd<'_>| {
            // Only to wait with: the link reads and writes.
            UdpSocket::from_std(socket.try_clone_to_owned()?.into())
        };
        let sockets = link
            .descriptors()
            .map(register)
            .collect::<io::Result<Vec<_>>>()?;
        if let (true, Some(name)) = (sockets.is_empty(), link.port_name()) {
            return Err(Error::Port {
                reason: format!(
                    "{name}: nothing tells when something arrives, so tokio cannot wait for it: use Link"
                ),
            });
        }
        let (calls, waiting) = mpsc::channel(WAITING_MAX);
        let task = Task {
            link,
            sockets,
            waiting,
            in_the_air: HashMap::new(),
            next: 0,
            held: None,
        };
        tokio::spawn(task.run());
        Ok(AsyncClient {
            calls,
            streams: Arc::new(Mutex::new(streams)),
        })
    }
}

impl AsyncClient {
    /// A client of one server, by the `host:port` of its base port.
    ///
    /// # Errors
    /// The name has no address; the server does not reply.
    pub async fn connect(name: &str) -> Result<Self, Error> {
        Builder::default().server(name).connect_async().await
    }

    /// Does an operation. Many at a time share datagrams.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call(&self, operation: &Operation<'_>) -> Result<Answer, Error> {
        let operation = Owned::of(operation);
        let (done, answered) = oneshot::channel();
        let call = Call {
            operation: operation.clone(),
            done,
        };
        let ended = || Error::Io(io::Error::other("the client's task has ended"));
        self.calls.send(call).await.map_err(|_| ended())?;
        match answered.await.map_err(|_| ended())? {
            Done::Answer(answer) => answer,
            Done::Stream(server, address) => {
                let (address, streams) = (address?, Arc::clone(&self.streams));
                let call = move || {
                    let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
                    streams.call(server, address, &operation.borrow())
                };
                let called = tokio::task::spawn_blocking(call).await;
                called.map_err(|error| Error::Io(io::Error::other(error)))?
            }
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// See [`Error`]; that there is no such item is none.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.value(&Operation::get(key)).await
    }

    /// The value of a key with its CAS value.
    ///
    /// # Errors
    /// See [`Error`]; that there is no such item is none.
    pub async fn gets(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.value(&Operation::gets(key)).await
    }

    async fn value(&self, operation: &Operation<'_>) -> Result<Option<Value>, Error> {
        let answer = self.call(operation).await?;
        Ok((answer.outcome == Outcome::Ok).then_some(answer.value))
    }

    /// Stores.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set(
        &self,
        key: &[u8],
        value: &[u8],
        flags: u32,
        expiry_s: u32,
    ) -> Result<(), Error> {
        let operation = Operation::set(key, value).with_flags(flags);
        let answer = self.call(&operation.with_expiry(expiry_s)).await;
        answer.map(drop)
    }

    /// Stores if the item has this CAS value still.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cas(&self, key: &[u8], value: &[u8], unique: u64) -> Result<CasOutcome, Error> {
        let answer = self.call(&Operation::cas(key, value, unique)).await?;
        Ok(CasOutcome::of(answer.outcome))
    }

    /// Removes an item; returns whether there was one.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let answer = self.call(&Operation::delete(key)).await?;
        Ok(answer.outcome == Outcome::Ok)
    }

    /// Adds to a number, and returns the sum; none if there is no such item.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn increment(&self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        let answer = self.call(&Operation::increment(key, delta)).await?;
        Ok((answer.outcome == Outcome::Ok).then_some(answer.number))
    }
}

/// What owns the link.
struct Task {
    link: Link,
    sockets: Vec<UdpSocket>,
    waiting: mpsc::Receiver<Call>,
    in_the_air: HashMap<u64, Call>,
    next: u64,
    /// There was no room for it.
    held: Option<Call>,
}

impl Task {
    async fn run(mut self) {
        while self.turn() {
            let due = self.link.driver().next_time();
            let wait_ns = due.map_or(u64::MAX, |due| due.saturating_sub(self.link.now_ns()));
            let is_full = self.held.is_some();
            tokio::select! {
                call = self.waiting.recv(), if !is_full => match call {
                    Some(call) => self.submit(call),
                    None if self.in_the_air.is_empty() => return,
                    None => readable(&self.sockets, wait_ns).await,
                },
                () = readable(&self.sockets, wait_ns) => {}
            }
        }
    }

    /// Takes what waits, sends, receives; returns whether the sockets are of use still. A call that
    /// there was no room for is tried again as long as answers make room: when all of them have come
    /// there is nothing that would wake the task.
    fn turn(&mut self) -> bool {
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
                Ok(any) if self.held.is_some() && (any || self.in_the_air.is_empty()) => {}
                received => return received.is_ok(),
            }
        }
    }

    /// Takes what has arrived; returns whether anything has.
    fn receive(&mut self) -> io::Result<bool> {
        let mut any = false;
        loop {
            let now_ns = self.link.now_ns();
            let mut for_streams = Vec::new();
            let mut failed = Vec::new();
            let in_the_air = &mut self.in_the_air;
            let received = self.link.poll(now_ns, |ended| {
                let Some(call) = in_the_air.remove(&ended.token) else {
                    return;
                };
                match answer(&ended) {
                    _ if ended.outcome == Outcome::UseStream => for_streams.push(call),
                    Err(error) => failed.push((call, error)),
                    // A caller that has gone does not care.
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
        let is_alone = self.in_the_air.is_empty();
        let error = match self.link.submit(now_ns, &operation, self.next) {
            Ok(()) => {
                self.in_the_air.insert(self.next, call);
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
            Err(_) => Error::Refused,
        };
        let _ = call.done.send(Done::Answer(Err(error)));
    }

    fn to_stream(&self, call: Call) {
        let server = self.link.driver().server_of(&call.operation.key);
        let address = self.link.stream_address(server);
        let _ = call.done.send(Done::Stream(server, address));
    }
}

/// Until a socket has something to read, or a time is over.
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

/// All that has arrived is read after this: readiness that is cleared shows again with what comes.
async fn ready(socket: &UdpSocket) {
    if socket.readable().await.is_ok() {
        let clear = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _always_would_block = socket.try_io(Interest::READABLE, clear);
    }
}
