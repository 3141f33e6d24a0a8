//! The blocking client.

mod attempts;
mod batch;
mod builder;
mod exchange;
mod large;
mod shared;
mod stream;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::fabric::FabricLink;
use crate::link::Link;
use crate::local::LocalLink;
use crate::operation::{Operation, Outcome};
use micanite_memory::ForkMark;
use std::time::Instant;

pub use attempts::Attempts;
pub(crate) use batch::{answer, repeat};
pub use builder::Builder;
pub use shared::SharedClient;
pub(crate) use stream::{ServerStream, is_text_key};

/// A value with its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// Bytes of the value.
    pub bytes: Vec<u8>,
    /// Flags stored with the value.
    pub flags: u32,
    /// CAS value, if it was requested.
    pub cas: Option<u64>,
}

/// Result of a cas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CasOutcome {
    /// The value is stored.
    Stored,
    /// The item was changed meanwhile.
    Exists,
    /// The item is gone.
    NotFound,
}

impl CasOutcome {
    pub(crate) fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok => Self::Stored,
            Outcome::NotFound => Self::NotFound,
            _ => Self::Exists,
        }
    }
}

/// Answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Ok, not found, exists or not stored.
    pub outcome: Outcome,
    /// Result of increment and decrement.
    pub number: u64,
    /// Value of get and get-and-touch.
    pub value: Value,
    /// The operation was sent more than once: a delete or replace that returned "not found" may
    /// have found the item the first time.
    pub resent: bool,
}

/// A client that blocks until its operations have ended: one at a time, or many together by
/// [`Client::batch`]. Values that do not fit a datagram automatically use TCP. Servers of `fabric://` are
/// reached over a fabric, where gets read one-sided. A server of `local://` is on the same host, and gets
/// read its memory.
///
/// In the child of a fork it connects anew with the next call, as a client of its own. A port that bypasses
/// the kernel cannot be opened twice: calls return [`Error::Forked`] there.
#[derive(Debug)]
pub struct Client {
    way: Way,
    /// Connects it anew.
    builder: Builder,
    process: ForkMark,
    /// Attempts to do so in the child of a fork.
    attempts: Attempts,
    /// Token of the next operation. No two operations have the same: a batch that was left by an error or a
    /// panic may end its operations in a later one, which ignores them.
    next_token: u64,
}

/// Token of the first operation. Those of callers of [`Client::local_link`] are lower.
const TOKEN_FIRST: u64 = 1 << 63;

/// Way to the servers.
#[derive(Debug)]
pub(crate) enum Way {
    Datagrams(Box<(Link, Vec<ServerStream>)>),
    Fabric(Box<FabricLink>),
    Local(Box<LocalLink>),
}

impl Client {
    /// Connects to one server, by the `host:port` of its base port, or by a URL of `fabric://` or `local://`.
    ///
    /// # Errors
    /// The name has no address, or the server does not reply.
    pub fn connect(name: &str) -> Result<Self, Error> {
        Self::builder().server(name).connect()
    }

    /// Starts a client with several servers, or with other settings than the default ones.
    pub fn builder() -> Builder {
        Builder::default()
    }

    #[cfg(feature = "async")]
    pub(crate) fn into_way(self) -> Way {
        self.way
    }

    /// Connects anew if this process is a child of the one that connected: a reply that comes to the sockets
    /// of both would be lost, or taken for another request's.
    #[inline]
    fn follow_fork(&mut self) -> Result<(), Error> {
        // A link to a server on the same host does so by itself.
        if self.process.is_of_this_process() || matches!(self.way, Way::Local(_)) {
            return Ok(());
        }
        let (builder, dead_for_ns) = (&self.builder, self.builder.dead_for_ns());
        let connect = || builder.clone().connect_in_child();
        *self = self.attempts.connect(Instant::now(), dead_for_ns, connect)?;
        Ok(())
    }

    /// Returns the link of datagrams, for its state and counters.
    pub fn link(&self) -> Option<&Link> {
        match &self.way {
            Way::Datagrams(datagrams) => Some(&datagrams.0),
            Way::Fabric(_) | Way::Local(_) => None,
        }
    }

    /// Returns the link over a fabric, for its counters.
    pub fn fabric_link(&self) -> Option<&FabricLink> {
        match &self.way {
            Way::Fabric(link) => Some(link),
            Way::Datagrams(_) | Way::Local(_) => None,
        }
    }

    /// Returns the link to a server on the same host, for gets without allocation and for its counters. The
    /// client's own operations have tokens from 2^63 on.
    pub fn local_link(&mut self) -> Option<&mut LocalLink> {
        match &mut self.way {
            Way::Local(link) => Some(link),
            Way::Datagrams(_) | Way::Fabric(_) => None,
        }
    }

    /// Gets the value of a key; `None` if there is no such item.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        if let Way::Local(link) = &mut self.way {
            let mut bytes = Vec::new();
            let flags = link.get(key, &mut bytes)?;
            return Ok(flags.map(|flags| Value { bytes, flags, cas: None }));
        }
        self.value(&Operation::get(key))
    }

    /// Gets the value of a key with its CAS value; `None` if there is no such item.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn gets(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.value(&Operation::gets(key))
    }

    /// Gets the value of a key and replaces its expiry; `None` if there is no such item.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn get_and_touch(&mut self, key: &[u8], expiry_s: u32) -> Result<Option<Value>, Error> {
        self.value(&Operation::get_and_touch(key, expiry_s))
    }

    /// Gets the values of many keys at once, in the keys' order.
    ///
    /// # Errors
    /// The first error of any get. [`Self::get_each`] returns the other values nevertheless.
    pub fn multi_get(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, Error> {
        self.get_each(keys).into_iter().collect()
    }

    /// Gets the values of many keys at once, in the keys' order. Each key has its own result.
    pub fn get_each(&mut self, keys: &[&[u8]]) -> Vec<Result<Option<Value>, Error>> {
        if let Way::Local(link) = &mut self.way {
            let mut values = vec![Ok(None); keys.len()];
            let value = |(bytes, flags): (&[u8], u32)| Value { bytes: bytes.to_vec(), flags, cas: None };
            link.get_each(keys, |index, found| values[index] = found.map(|found| found.map(value)));
            return values;
        }
        let operations: Vec<_> = keys.iter().map(|key| Operation::get(key)).collect();
        let found = |answer: Answer| (answer.outcome == Outcome::Ok).then_some(answer.value);
        let answers = self.batch(&operations).into_iter();
        answers.map(|answer| answer.map(found)).collect()
    }

    /// Stores a value.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn set(&mut self, key: &[u8], value: &[u8], flags: u32, expiry_s: u32) -> Result<(), Error> {
        let operation = Operation::set(key, value).with_flags(flags).with_expiry(expiry_s);
        self.call(&operation).map(drop)
    }

    /// Stores if there is no such item; returns whether it did.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn add(&mut self, key: &[u8], value: &[u8], flags: u32, expiry_s: u32) -> Result<bool, Error> {
        let operation = Operation::add(key, value).with_flags(flags).with_expiry(expiry_s);
        self.done(&operation)
    }

    /// Stores if there is such an item; returns whether it did.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn replace(&mut self, key: &[u8], value: &[u8], flags: u32, expiry_s: u32) -> Result<bool, Error> {
        let operation = Operation::replace(key, value).with_flags(flags).with_expiry(expiry_s);
        self.done(&operation)
    }

    /// Stores if the item still has this CAS value.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn cas(
        &mut self,
        key: &[u8],
        value: &[u8],
        unique: u64,
        (flags, expiry_s): (u32, u32),
    ) -> Result<CasOutcome, Error> {
        let operation = Operation::cas(key, value, unique).with_flags(flags).with_expiry(expiry_s);
        Ok(CasOutcome::of(self.call(&operation)?.outcome))
    }

    /// Appends bytes to a value; returns whether there was one.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn append(&mut self, key: &[u8], bytes: &[u8]) -> Result<bool, Error> {
        self.done(&Operation::append(key, bytes))
    }

    /// Prepends bytes to a value; returns whether there was one.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn prepend(&mut self, key: &[u8], bytes: &[u8]) -> Result<bool, Error> {
        self.done(&Operation::prepend(key, bytes))
    }

    /// Removes an item; returns whether it existed.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.done(&Operation::delete(key))
    }

    /// Replaces the expiry of an item; returns whether it existed.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn touch(&mut self, key: &[u8], expiry_s: u32) -> Result<bool, Error> {
        self.done(&Operation::touch(key, expiry_s))
    }

    /// Adds to a number; returns the sum, or `None` if there is no such item.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn increment(&mut self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        self.number(&Operation::increment(key, delta))
    }

    /// Subtracts from a number, not below 0; returns the difference, or `None` if there is no such item.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn decrement(&mut self, key: &[u8], delta: u64) -> Result<Option<u64>, Error> {
        self.number(&Operation::decrement(key, delta))
    }

    /// Makes one round trip to the first server.
    ///
    /// # Errors
    /// Any [`Error`].
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
}
