//! The blocking client.

mod stream;

use crate::driver::SubmitError;
use crate::error::Error;
use crate::link::Link;
use crate::operation::{Completion, Operation, Outcome};
use crate::options::{Options, ServerAddress};
use micanite_net::datagram::UdpOptions;
use std::time::Duration;
use stream::Stream;

pub(crate) use stream::is_text_key;

/// A value and what is stored with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Stored with them.
    pub flags: u32,
    /// The CAS value, if it was asked for.
    pub cas: Option<u64>,
}

/// How a cas ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CasOutcome {
    /// The value is stored.
    Stored,
    /// Somebody has changed the item since.
    Exists,
    /// The item is gone.
    NotFound,
}

/// An operation that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Ok, not found, exists or not stored.
    pub outcome: Outcome,
    /// The number, of increment and decrement.
    pub number: u64,
    /// The value, of get and get-and-touch.
    pub value: Value,
    /// It was sent more than once: a delete or replace that says "not found" may have found the item
    /// the first time.
    pub resent: bool,
}

/// A client that blocks until its operations have ended: one at a time, or many together by
/// [`Client::batch`]. Values that do not fit a datagram travel over TCP by themselves.
#[derive(Debug)]
pub struct Client {
    link: Link,
    streams: Vec<Option<Stream>>,
    deadline: Duration,
}

/// Chooses servers and settings of a [`Client`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    servers: Vec<(String, u32)>,
    options: Options,
    udp: UdpOptions,
}

impl Builder {
    /// One more server, by its `host:port`.
    pub fn server(self, name: &str) -> Self {
        self.weighted_server(name, 1)
    }

    /// One more server, with a share of the keys relative to the other servers'.
    pub fn weighted_server(mut self, name: &str, weight: u32) -> Self {
        self.servers.push((name.to_owned(), weight));
        self
    }

    /// Settings of the protocol.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Settings of the sockets.
    pub fn udp(mut self, udp: UdpOptions) -> Self {
        self.udp = udp;
        self
    }

    /// Finds the servers and fetches their directories.
    ///
    /// # Errors
    /// A name has no address; no server replies.
    pub fn connect(self) -> Result<Client, Error> {
        let resolve = |(name, weight): &(String, u32)| {
            ServerAddress::resolve(name).map(|server| server.with_weight(*weight))
        };
        let servers = self
            .servers
            .iter()
            .map(resolve)
            .collect::<Result<Vec<_>, _>>()?;
        let deadline = Duration::from_nanos(self.options.deadline_ns);
        let link = Link::connect(&servers, self.options, &self.udp)?;
        Ok(Client {
            link,
            streams: servers.iter().map(|_| None).collect(),
            deadline,
        })
    }
}

impl Client {
    /// A client of one server, by the `host:port` of its base port.
    ///
    /// # Errors
    /// The name has no address; the server does not reply.
    pub fn connect(name: &str) -> Result<Self, Error> {
        Self::builder().server(name).connect()
    }

    /// A client of several servers, or with other settings than the default ones.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The sockets and the driver, for their facts and counters.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The value of a key.
    ///
    /// # Errors
    /// See [`Error`]; that there is no such item is none.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.value(&Operation::get(key))
    }

    /// The value of a key with its CAS value.
    ///
    /// # Errors
    /// See [`Error`]; that there is no such item is none.
    pub fn gets(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.value(&Operation::gets(key))
    }

    /// The value of a key, whose expiry is replaced.
    ///
    /// # Errors
    /// See [`Error`]; that there is no such item is none.
    pub fn get_and_touch(&mut self, key: &[u8], expiry_s: u32) -> Result<Option<Value>, Error> {
        self.value(&Operation::get_and_touch(key, expiry_s))
    }

    /// The values of many keys at once, in the keys' order.
    ///
    /// # Errors
    /// The first that any of the gets has.
    pub fn multi_get(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, Error> {
        let operations: Vec<_> = keys.iter().map(|key| Operation::get(key)).collect();
        let found = |answer: Answer| (answer.outcome == Outcome::Ok).then_some(answer.value);
        let answers = self.batch(&operations).into_iter();
        answers.map(|answer| answer.map(found)).collect()
    }

    /// Stores.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        flags: u32,
        expiry_s: u32,
    ) -> Result<(), Error> {
        let operation = Operation::set(key, value)
            .with_flags(flags)
            .with_expiry(expiry_s);
        self.call(&operation).map(drop)
    }

    /// Stores if there is no such item; returns whether it did.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        flags: u32,
        expiry_s: u32,
    ) -> Result<bool, Error> {
        let operation = Operation::add(key, value)
            .with_flags(flags)
            .with_expiry(expiry_s);
        self.done(&operation)
    }

    /// Stores if there is such an item; returns whether it did.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn replace(
        &mut self,
        key: &[u8],
        value: &[u8],
        flags: u32,
        expiry_s: u32,
    ) -> Result<bool, Error> {
        let operation = Operation::replace(key, value)
            .with_flags(flags)
            .with_expiry(expiry_s);
        self.done(&operation)
    }

    /// Stores if the item has this CAS value still.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn cas(
        &mut self,
        key: &[u8],
        value: &[u8],
        unique: u64,
        (flags, expiry_s): (u32, u32),
    ) -> Result<CasOutcome, Error> {
        let operation = Operation::cas(key, value, unique)
            .with_flags(flags)
            .with_expiry(expiry_s);
        Ok(match self.call(&operation)?.outcome {
            Outcome::Ok => CasOutcome::Stored,
            Outcome::NotFound => CasOutcome::NotFound,
            _ => CasOutcome::Exists,
        })
    }

    /// Adds bytes behind a value; returns whether there was one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn append(&mut self, key: &[u8], bytes: &[u8]) -> Result<bool, Error> {
        self.done(&Operation::append(key, bytes))
    }

    /// Adds bytes before a value; returns whether there was one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn prepend(&mut self, key: &[u8], bytes: &[u8]) -> Result<bool, Error> {
        self.done(&Operation::prepend(key, bytes))
    }

    /// Removes an item; returns whether there was one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.done(&Operation::delete(key))
    }

    /// Replaces the expiry of an item; returns whether there was one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn touch(&mut self, key: &[u8], expiry_s: u32) -> Result<bool, Error> {
        self.done(&Operation::touch(key, expiry_s))
    }

    /// Adds to a number, and returns the sum; none if there is no such item.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn increment(&mut self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        self.number(&Operation::increment(key, delta))
    }

    /// Subtracts from a number, not below 0, and returns the difference; none if there is no such
    /// item.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn decrement(&mut self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        self.number(&Operation::decrement(key, delta))
    }

    /// One round trip to the first server.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn noop(&mut self) -> Result<(), Error> {
        self.call(&Operation::noop()).map(drop)
    }

    fn value(&mut self, operation: &Operation<'_>) -> Result<Option<Value>, Error> {
        let answer = self.call(operation)?;
        Ok((answer.outcome == Outcome::Ok).then_some(answer.value))
    }

    fn done(&mut self, operation: &Operation<'_>) -> Result<bool, Error> {
        Ok(self.call(operation)?.outcome == Outcome::Ok)
    }

    fn number(&mut self, operation: &Operation<'_>) -> Result<Option<u64>, Error> {
        let answer = self.call(operation)?;
        Ok((answer.outcome == Outcome::Ok).then_some(answer.number))
    }

    /// Does one operation.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn call(&mut self, operation: &Operation<'_>) -> Result<Answer, Error> {
        let mut answers = self.batch(std::slice::from_ref(operation));
        answers.pop().unwrap_or(Err(Error::Refused))
    }

    /// Does many operations together and returns how each of them ended, in their order. They may
    /// take effect in any order.
    pub fn batch(&mut self, operations: &[Operation<'_>]) -> Vec<Result<Answer, Error>> {
        let mut answers: Vec<Option<Result<Answer, Error>>> = Vec::new();
        answers.resize_with(operations.len(), || None);
        let mut large = Vec::new();
        if let Err(error) = self.exchange(operations, &mut answers, &mut large) {
            let failed = || {
                Err(Error::Io(std::io::Error::new(
                    error.kind(),
                    error.to_string(),
                )))
            };
            return answers
                .into_iter()
                .map(|answer| answer.unwrap_or_else(failed))
                .collect();
        }
        for number in large {
            answers[number] = Some(self.over_stream(&operations[number]));
        }
        let missing = || Err(Error::Refused);
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(missing))
            .collect()
    }

    /// What datagrams can do of a batch; `large` are those that are left to streams.
    fn exchange(
        &mut self,
        operations: &[Operation<'_>],
        answers: &mut [Option<Result<Answer, Error>>],
        large: &mut Vec<usize>,
    ) -> std::io::Result<()> {
        let mut next = 0;
        let mut in_the_air = 0;
        self.link.cork();
        while next < operations.len() || in_the_air > 0 {
            let now_ns = self.link.now_ns();
            while let Some(operation) = operations.get(next) {
                match self.link.submit(now_ns, operation, next as u64) {
                    Ok(()) => in_the_air += 1,
                    Err(SubmitError::Full) if in_the_air > 0 => break,
                    Err(SubmitError::TooLong) => large.push(next),
                    Err(error) => answers[next] = Some(Err(self.refused(error))),
                }
                next += 1;
            }
            self.link.flush();
            let driver = &self.link;
            let ended = driver.driver().counters().completed;
            let mut take = |completion: Completion<'_>| {
                in_the_air -= 1;
                let number = completion.token as usize;
                match completion.outcome {
                    Outcome::UseStream => large.push(number),
                    _ => answers[number] = Some(answer(&completion)),
                }
            };
            self.link.poll(now_ns, &mut take)?;
            if in_the_air > 0 && self.link.driver().counters().completed == ended {
                self.link.wait(u64::MAX)?;
            }
        }
        let named = answers.iter_mut().enumerate();
        for (number, place) in named {
            if let Some(Err(error)) = place {
                let server = self.link.driver().server_of(operations[number].key);
                match error {
                    Error::Unreachable { .. } => *error = self.link.down(server),
                    Error::TimedOut { server: name } => *name = self.link.name(server).to_owned(),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn refused(&self, error: SubmitError) -> Error {
        match error {
            SubmitError::ServerDown { server } => self.link.down(server),
            SubmitError::BadKey | SubmitError::TooLong => Error::BadKey,
            SubmitError::Full => Error::Refused,
        }
    }

    fn over_stream(&mut self, operation: &Operation<'_>) -> Result<Answer, Error> {
        if !is_text_key(operation.key) {
            return Err(Error::KeyNotText);
        }
        let server = self.link.driver().server_of(operation.key);
        if self.streams[server].is_none() {
            let address = self.link.stream_address(server)?;
            self.streams[server] = Some(Stream::connect(address, self.deadline)?);
        }
        let Some(stream) = &mut self.streams[server] else {
            return Err(Error::Refused);
        };
        let answer = stream.call(operation);
        if matches!(answer, Err(Error::Stream { .. } | Error::Io(_))) {
            self.streams[server] = None; // whatever is left in it belongs to nobody
        }
        answer
    }
}

/// A completion as the blocking calls return it. Servers are named later.
pub(crate) fn answer(completion: &Completion<'_>) -> Result<Answer, Error> {
    let server = String::new();
    match completion.outcome {
        Outcome::Ok | Outcome::NotFound | Outcome::Exists | Outcome::NotStored => Ok(Answer {
            outcome: completion.outcome,
            number: completion.number,
            value: Value {
                bytes: completion.value.to_vec(),
                flags: completion.flags,
                cas: completion.cas,
            },
            resent: completion.resent,
        }),
        Outcome::OutOfSpace => Err(Error::OutOfSpace),
        Outcome::TooLarge { limit_bytes } => Err(Error::TooLarge {
            limit_bytes: Some(limit_bytes),
        }),
        Outcome::NotANumber => Err(Error::NotANumber),
        Outcome::BadRequest | Outcome::UseStream => Err(Error::Refused),
        Outcome::Version(version) => Err(Error::Version { server, version }),
        Outcome::TimedOut => Err(Error::TimedOut { server }),
        Outcome::Unknown => Err(Error::OutcomeUnknown),
        Outcome::ServerDown => Err(Error::Unreachable { server }),
    }
}
