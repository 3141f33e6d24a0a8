//! A client for tokio. A task owns the link, and handles send it operations.

mod calls;
mod fabric;
mod local;
mod task;
mod turns;

use crate::client::{Answer, Builder, CasOutcome, ServerStream, Value, Way};
use crate::error::Error;
use crate::operation::{Operation, Outcome};
use calls::CallSender;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use local::LocalHandle;
use micanite_memory::ForkMark;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::UdpSocket;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use turns::{Rest, in_turn, turn_until};

/// Handle of a client that runs as a task of the runtime in which it was connected. Clones share
/// the client, its batches and its pace. The task ends with the last handle.
///
/// In the child of a fork, where neither runtime nor task go on, calls return [`Error::Forked`].
#[derive(Clone, Debug)]
pub struct AsyncClient {
    way: AsyncWay,
    process: Arc<ForkMark>,
}

/// Way to the servers.
#[derive(Clone, Debug)]
enum AsyncWay {
    Task {
        calls: CallSender,
        /// `None` over a fabric.
        streams: Option<Arc<[Arc<Mutex<ServerStream>>]>>,
    },
    Local(LocalHandle),
}

/// Answer of the task.
enum Done {
    Answer(Result<Answer, Error>),
    /// The operation has to use this server's stream.
    Stream(usize, Result<std::net::SocketAddr, Error>),
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
            rest: Operation { key: &[], value: &[], ..*operation },
        }
    }

    fn borrow(&self) -> Operation<'_> {
        Operation { key: &self.key, value: &self.value, ..self.rest }
    }
}

impl Builder {
    /// Resolves the servers, fetches their directories, and starts the task of the client.
    ///
    /// # Errors
    /// A name has no address, or no server replies.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub async fn connect_async(self) -> Result<AsyncClient, Error> {
        let connected = tokio::task::spawn_blocking(move || self.connect()).await;
        let client = connected.map_err(io::Error::other)??;
        let process = Arc::new(ForkMark::new()?);
        let (link, streams) = match client.into_way() {
            Way::Datagrams(datagrams) => *datagrams,
            Way::Fabric(link) => {
                let (names, continuum, deadline_ns) = link.names();
                let (calls, waiting) = calls::channel(names, continuum.clone(), deadline_ns);
                tokio::spawn(fabric::Task::new(*link, waiting).run());
                return Ok(AsyncClient { way: AsyncWay::Task { calls, streams: None }, process });
            }
            Way::Local(link) => {
                return Ok(AsyncClient { way: AsyncWay::Local(LocalHandle::new(*link)), process });
            }
        };
        let register = |socket: std::os::fd::BorrowedFd<'_>| {
            // For waiting only: the link reads and writes.
            UdpSocket::from_std(socket.try_clone_to_owned()?.into())
        };
        let sockets = link.descriptors().map(register).collect::<io::Result<Vec<_>>>()?;
        if let (true, Some(name)) = (sockets.is_empty(), link.port_name()) {
            return Err(Error::Port {
                reason: format!(
                    "{name}: tokio cannot wait for this port, because it has to be polled: use Link"
                ),
            });
        }
        let driver = link.driver();
        let names = (0..driver.servers()).map(|server| link.name(server).to_owned());
        let (continuum, deadline_ns) = (driver.continuum().clone(), driver.options().deadline_ns);
        let (calls, waiting) = calls::channel(names, continuum, deadline_ns);
        tokio::spawn(task::Task::new(link, sockets, waiting).run());
        let streams = Some(streams.into_iter().map(|stream| Arc::new(Mutex::new(stream))).collect());
        Ok(AsyncClient { way: AsyncWay::Task { calls, streams }, process })
    }
}

impl AsyncClient {
    /// Connects to one server, by the `host:port` of its base port, or by a URL of `fabric://` or `local://`.
    ///
    /// # Errors
    /// The name has no address, or the server does not reply.
    pub async fn connect(name: &str) -> Result<Self, Error> {
        Builder::default().server(name).connect_async().await
    }

    /// Executes an operation. Concurrent operations share datagrams.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn call(&self, operation: &Operation<'_>) -> Result<Answer, Error> {
        self.check_process()?;
        let (calls, streams) = match &self.way {
            AsyncWay::Task { calls, streams } => (calls, streams),
            AsyncWay::Local(handle) => return handle.call(operation).await,
        };
        let operation = Owned::of(operation);
        let (done, answered) = oneshot::channel();
        calls.send(operation.clone(), done).await?;
        let unanswered = |_| match operation.rest.only_reads() {
            true => Error::from(io::Error::other("the client's task has ended")),
            false => Error::OutcomeUnknown,
        };
        match answered.await.map_err(unanswered)? {
            Done::Answer(answer) => answer,
            Done::Stream(server, address) => {
                let (address, streams) = (address?, streams.clone());
                let streams = streams.ok_or(Error::Refused)?;
                let began = Instant::now();
                let (name, deadline) = calls.name_and_deadline(server);
                let (end, rest) = (began + deadline, operation.rest);
                let begin = move |mut stream: OwnedMutexGuard<ServerStream>| {
                    Rest::blocking(move || stream.call((began, Some(end)), address, &operation.borrow()))
                };
                let called = in_turn(&streams[server], turn_until(began.into(), deadline), begin).await;
                called.map_err(|missing| missing.error(&rest, name))?
            }
        }
    }

    fn check_process(&self) -> Result<(), Error> {
        if self.process.is_of_this_process() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Gets the value of a key; `None` if there is no such item.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.value(&Operation::get(key)).await
    }

    /// Gets the values of many keys at once, in the keys' order.
    ///
    /// # Errors
    /// The first error of any get. [`Self::get_each`] returns the other values nevertheless.
    pub async fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, Error> {
        self.get_each(keys).await.into_iter().collect()
    }

    /// Gets the values of many keys at once, in the keys' order. Each key has its own result.
    pub async fn get_each(&self, keys: &[&[u8]]) -> Vec<Result<Option<Value>, Error>> {
        if let (AsyncWay::Local(handle), Ok(())) = (&self.way, self.check_process()) {
            return handle.get_each(keys).await;
        }
        // All are submitted before the first one is awaited to its end. Each is polled when it can go on.
        let numbered = keys.iter().enumerate();
        let mut calls: FuturesUnordered<_> =
            numbered.map(|(number, key)| async move { (number, self.get(key).await) }).collect();
        let mut values = vec![Ok(None); keys.len()];
        while let Some((number, value)) = calls.next().await {
            values[number] = value;
        }
        values
    }

    /// Gets the value of a key with its CAS value; `None` if there is no such item.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn gets(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.value(&Operation::gets(key)).await
    }

    async fn value(&self, operation: &Operation<'_>) -> Result<Option<Value>, Error> {
        let answer = self.call(operation).await?;
        Ok((answer.outcome == Outcome::Ok).then_some(answer.value))
    }

    /// Stores a value.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn set(&self, key: &[u8], value: &[u8], flags: u32, expiry_s: u32) -> Result<(), Error> {
        let operation = Operation::set(key, value).with_flags(flags);
        let answer = self.call(&operation.with_expiry(expiry_s)).await;
        answer.map(drop)
    }

    /// Stores if the item still has this CAS value.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn cas(
        &self,
        key: &[u8],
        value: &[u8],
        unique: u64,
        (flags, expiry_s): (u32, u32),
    ) -> Result<CasOutcome, Error> {
        let operation = Operation::cas(key, value, unique).with_flags(flags).with_expiry(expiry_s);
        Ok(CasOutcome::of(self.call(&operation).await?.outcome))
    }

    /// Removes an item; returns whether it existed.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let answer = self.call(&Operation::delete(key)).await?;
        Ok(answer.outcome == Outcome::Ok)
    }

    /// Adds to a number; returns the sum, or `None` if there is no such item.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn increment(&self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        let answer = self.call(&Operation::increment(key, delta)).await?;
        Ok((answer.outcome == Outcome::Ok).then_some(answer.number))
    }
}
