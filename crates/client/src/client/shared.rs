//! The blocking client for threads.

use std::sync::{Mutex, OnceLock};

use micanite_memory::ForkMark;

use super::{Builder, Client, Value};
use crate::error::Error;
use crate::local::{LocalCounters, SharedReading, leak_if_locked};

/// A [`Client`] that threads share, one call after the other. Gets that the memory of a server on the same
/// host answers wait for no call. Others wait for the calls before them, which may take a deadline each
/// while a server is silent.
///
/// In the child of a fork it connects anew with the next call, even if a thread of the parent was inside a
/// call.
#[derive(Debug)]
pub struct SharedClient {
    builder: Builder,
    first: Generation,
}

/// The client of one process.
#[derive(Debug)]
struct Generation {
    process: ForkMark,
    /// `None`: it has not connected yet.
    client: Mutex<Option<Client>>,
    memory: SharedReading,
    /// The one of a child of that process. What a thread of the parent has locked stays locked in the child,
    /// so the child waits for no lock of its parent.
    child: OnceLock<Box<Generation>>,
}

impl Builder {
    /// Connects as [`Self::connect`] does, for threads.
    ///
    /// # Errors
    /// Those of [`Self::connect`].
    pub fn connect_shared(self) -> Result<SharedClient, Error> {
        let first = Generation::new()?;
        first.run(|| self.clone().connect(), |_| Ok(()))?;
        Ok(SharedClient { builder: self, first })
    }
}

impl SharedClient {
    /// Connects to one server, as [`Client::connect`] does.
    ///
    /// # Errors
    /// The name has no address, or the server does not reply.
    pub fn connect(name: &str) -> Result<Self, Error> {
        Builder::default().server(name).connect_shared()
    }

    /// Runs calls of the client, when those of other threads have ended. After calls that have panicked it
    /// connects anew.
    ///
    /// # Errors
    /// That of the calls, or [`Error::Forked`], or the error of connecting in the child of a fork.
    pub fn run<R>(&self, calls: impl FnOnce(&mut Client) -> Result<R, Error>) -> Result<R, Error> {
        let generation = self.generation()?;
        let builder = || self.builder.clone();
        match std::ptr::eq(generation, &raw const self.first) {
            true => generation.run(|| builder().connect(), calls),
            false => generation.run(|| builder().connect_in_child(), calls),
        }
    }

    /// Gets the value of a key into a buffer, if the memory of a server on the same host answers; returns the
    /// item's flags. `None`: the server has to be asked, which [`Self::run`] does.
    #[inline]
    pub fn get_in_memory(&self, key: &[u8], value: &mut Vec<u8>) -> Option<Option<u32>> {
        self.generation().ok()?.memory.look(key, None, value)
    }

    /// Gets the values of many keys at once, in the keys' order.
    ///
    /// # Errors
    /// The first error of any get.
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, Error> {
        let mut values = vec![None; keys.len()];
        let asked = self.generation()?.memory.look_many(keys, |number, found| {
            values[number] = found.map(|(bytes, flags)| Value { bytes: bytes.to_vec(), flags, cas: None });
        });
        if !asked.is_empty() {
            let keys: Vec<_> = asked.iter().map(|number| keys[*number]).collect();
            let found = self.run(|client| client.multi_get(&keys))?;
            for (number, value) in asked.into_iter().zip(found) {
                values[number] = value;
            }
        }
        Ok(values)
    }

    /// Returns the counts of a client of a server on the same host, of this process.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub fn local_counters(&self) -> Result<Option<LocalCounters>, Error> {
        let counters = self.run(|client| Ok(client.local_link().map(|link| *link.counters())))?;
        let (hits, misses) = self.generation()?.memory.counts();
        Ok(counters.map(|of| LocalCounters { hits: of.hits + hits, misses: of.misses + misses, ..of }))
    }

    /// Returns the client of this process.
    #[inline]
    fn generation(&self) -> Result<&Generation, Error> {
        let mut generation = &self.first;
        while !generation.process.is_of_this_process() {
            generation = generation.child()?;
        }
        Ok(generation)
    }
}

impl Generation {
    fn new() -> Result<Self, Error> {
        Ok(Self {
            process: ForkMark::new()?,
            client: Mutex::default(),
            memory: SharedReading::default(),
            child: OnceLock::new(),
        })
    }

    fn run<R>(
        &self,
        connect: impl FnOnce() -> Result<Client, Error>,
        calls: impl FnOnce(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut place = self.client.lock().unwrap_or_else(|poisoned| {
            // A panic has left the client in the middle of a call.
            let mut place = poisoned.into_inner();
            *place = None;
            // It keeps the client's place at the server, which the next one needs.
            self.memory.clear();
            self.client.clear_poison();
            place
        });
        let client = match &mut *place {
            Some(client) => client,
            none => none.insert(connect()?),
        };
        let result = calls(client);
        if let Some(link) = client.local_link() {
            self.memory.follow(link);
        }
        result
    }

    /// Returns the client of the child, and lets the descriptors of the parent's go.
    #[cold]
    fn child(&self) -> Result<&Self, Error> {
        if let Some(child) = self.child.get() {
            return Ok(child);
        }
        let made = Box::new(Self::new()?);
        if let Ok(mut client) = self.client.try_lock() {
            *client = None;
        }
        self.memory.let_go();
        Ok(self.child.get_or_init(|| made))
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        leak_if_locked(&mut self.client);
    }
}
