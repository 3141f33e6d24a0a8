//! The blocking client for threads.

use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use micanite_memory::ForkMark;

use super::{Attempts, Builder, Client, Value};
use crate::error::Error;
use crate::local::{LocalCounters, SharedReading, leak_if_locked};

/// A [`Client`] that threads share, one call after the other. Gets that the memory of a server on the same
/// host answers wait for no call. Others wait for the calls before them, which may take a deadline each
/// while a server is silent.
///
/// In the child of a fork it connects anew with the next call, even if a thread of the parent was inside a
/// call. Calls that wait for an attempt to connect share its error, and later ones fail at once until a pause
/// is over.
#[derive(Debug)]
pub struct SharedClient {
    builder: Builder,
    first: Generation,
}

/// The client of one process.
#[derive(Debug)]
struct Generation {
    process: ForkMark,
    place: Mutex<Place>,
    memory: SharedReading,
    /// The one of a child of that process. What a thread of the parent has locked stays locked in the child,
    /// so the child waits for no lock of its parent.
    child: OnceLock<Box<Generation>>,
}

/// The place of a client.
#[derive(Debug, Default)]
struct Place {
    /// `None`: it has not connected yet.
    client: Option<Client>,
    attempts: Attempts,
}

impl Builder {
    /// Connects as [`Self::connect`] does, for threads.
    ///
    /// # Errors
    /// Those of [`Self::connect`].
    pub fn connect_shared(self) -> Result<SharedClient, Error> {
        let first = Generation::new()?;
        first.run((Instant::now(), self.dead_for_ns()), || self.clone().connect(), |_| Ok(()))?;
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
        let times = (Instant::now(), self.builder.dead_for_ns());
        let generation = self.generation()?;
        let builder = || self.builder.clone();
        match std::ptr::eq(generation, &raw const self.first) {
            true => generation.run(times, || builder().connect(), calls),
            false => generation.run(times, || builder().connect_in_child(), calls),
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
            place: Mutex::default(),
            memory: SharedReading::default(),
            child: OnceLock::new(),
        })
    }

    /// Runs calls that wait for those of other threads since a time.
    fn run<R>(
        &self,
        (began, dead_for_ns): (Instant, u64),
        connect: impl FnOnce() -> Result<Client, Error>,
        calls: impl FnOnce(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut place = self.place.lock().unwrap_or_else(|poisoned| {
            // A panic has left the client in the middle of a call.
            let mut place = poisoned.into_inner();
            place.client = None;
            // It keeps the client's place at the server, which the next one needs.
            self.memory.clear();
            self.place.clear_poison();
            place
        });
        let Place { client, attempts } = &mut *place;
        let client = match client {
            Some(client) => client,
            none => none.insert(attempts.connect(began, dead_for_ns, connect)?),
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
        if let Ok(mut place) = self.place.try_lock() {
            place.client = None;
        }
        self.memory.let_go();
        Ok(self.child.get_or_init(|| made))
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        leak_if_locked(&mut self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    const PAUSE_MIN: Duration = Duration::from_millis(10);

    fn silent(attempts: &AtomicU32) -> Result<Client, Error> {
        attempts.fetch_add(1, Ordering::Relaxed);
        Err(Error::Unreachable { server: "silent".to_owned() })
    }

    /// Threads that waited for an attempt of another one began attempts of their own, one after the other.
    #[test]
    fn threads_at_a_silent_server_share_one_attempt() {
        let (generation, attempts) = (Generation::new().unwrap(), AtomicU32::new(0));
        let have_begun = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let began = Instant::now();
                    have_begun.wait();
                    let called = generation.run((began, 0), || silent(&attempts), |_| Ok(()));
                    assert!(matches!(called, Err(Error::Unreachable { .. })), "{called:?}");
                });
            }
        });
        assert_eq!(attempts.load(Ordering::Relaxed), 1);
    }

    /// Each call at a silent server began an attempt, and waited a deadline.
    #[test]
    fn calls_at_a_silent_server_pause_between_attempts() {
        let (generation, attempts) = (Generation::new().unwrap(), AtomicU32::new(0));
        let (began, mut calls) = (Instant::now(), 0);
        while began.elapsed() < 10 * PAUSE_MIN || calls < 1_000 {
            let called = generation.run((Instant::now(), 0), || silent(&attempts), |_| Ok(()));
            assert!(matches!(called, Err(Error::Unreachable { .. })), "{called:?}");
            calls += 1;
        }
        let most = began.elapsed().div_duration_f64(PAUSE_MIN) as u32 + 1;
        let attempts = attempts.load(Ordering::Relaxed);
        assert!((2..=most).contains(&attempts) && attempts < calls, "{attempts} attempts of {calls} calls");
    }
}
