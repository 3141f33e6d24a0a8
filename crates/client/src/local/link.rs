//! A link to a server on the same host: gets that the memory answers end at once, all else goes over the
//! stream.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use micanite_engine::{BATCH_REQUESTS_MAX, KEY_BYTES_MAX};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::attach::attach;
use super::reading::{Look, Reading};
use super::stream::{RequestStream, Writes};
use super::{LocalCounters, LocalUrl};
use crate::client::{Answer, answer};
use crate::driver::SubmitError;
use crate::error::Error;
use crate::operation::{Completion, Opcode, Operation, Outcome};
use crate::options::Options;

/// First pause after an attempt to attach that failed; each further one is twice as long, up to
/// [`Options::dead_for_ns`].
const BACKOFF_NS_MIN: u64 = 10_000_000;
/// Times that a get attaches anew before it gives up.
const ATTEMPTS_MAX: u32 = 2;
/// Token of [`LocalLink::call`].
const CALL: u64 = u64::MAX;

/// An operation that has ended and is not delivered.
#[derive(Debug)]
struct Ended {
    token: u64,
    opcode: Opcode,
    outcome: Outcome,
    is_local: bool,
    flags: u32,
    cas: Option<u64>,
    number: u64,
    /// Its value in `values`.
    value: Range<usize>,
}

/// A link to a server of `local://`. One thread at a time uses it. After a fork the child attaches anew; what
/// the parent had on its way is the parent's.
#[derive(Debug)]
pub struct LocalLink {
    url: LocalUrl,
    deadline_ns: u64,
    backoff_ns_max: u64,
    reading: Option<Reading>,
    stream: Option<RequestStream>,
    writes: Arc<Writes>,
    ended: VecDeque<Ended>,
    values: Vec<u8>,
    /// Buffer of one value.
    value: Vec<u8>,
    clock: Instant,
    /// No attempt to attach before this time.
    retry_at_ns: u64,
    backoff_ns: u64,
    counters: LocalCounters,
}

impl LocalLink {
    /// Attaches to a server. Of the options, `deadline_ns` and `dead_for_ns` count.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub fn connect(url: &LocalUrl, options: &Options) -> Result<Self, Error> {
        let mut link = Self {
            url: url.clone(),
            deadline_ns: options.deadline_ns.max(1_000_000),
            backoff_ns_max: options.dead_for_ns.max(BACKOFF_NS_MIN),
            reading: None,
            stream: None,
            writes: Arc::default(),
            ended: VecDeque::new(),
            values: Vec::new(),
            value: Vec::new(),
            clock: Instant::now(),
            retry_at_ns: 0,
            backoff_ns: BACKOFF_NS_MIN,
            counters: LocalCounters::default(),
        };
        link.attach()?;
        Ok(link)
    }

    /// Returns the time of the link.
    pub fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Returns the counts.
    pub fn counters(&self) -> &LocalCounters {
        &self.counters
    }

    /// Returns whether gets read the server's memory: not if its partitions are of an unknown version.
    pub fn reads_memory(&self) -> bool {
        self.reading.as_ref().is_some_and(Reading::reads_memory)
    }

    /// Gets the value of a key into a buffer, whose contents it replaces. Returns the item's flags; `None` if
    /// there is no such item. Waits for this link's own writes of the key.
    ///
    /// # Errors
    /// Any [`Error`].
    #[inline]
    pub fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<u32>, Error> {
        match self.look(key, value) {
            Look::Found { flags } => Ok(Some(flags)),
            Look::Missing => Ok(None),
            Look::Ask | Look::Gone => self.ask(key, value),
        }
    }

    /// Gets the value of a key like [`Self::get`], if the server's memory answers. `None`: the server has to be
    /// asked, which [`Self::get`] does.
    #[inline]
    pub fn get_in_memory(&mut self, key: &[u8], value: &mut Vec<u8>) -> Option<Option<u32>> {
        match self.look(key, value) {
            Look::Found { flags } => Some(Some(flags)),
            Look::Missing => Some(None),
            Look::Ask | Look::Gone => None,
        }
    }

    /// Gets the values of many keys, whose memory is prefetched in batches. `take` gets the number of each
    /// key and, if there is an item, its value and flags: those that the memory answers first.
    ///
    /// # Errors
    /// The first error of any get; `take` has had some results then.
    pub fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<(&[u8], u32)>),
    ) -> Result<(), Error> {
        let mut value = std::mem::take(&mut self.value);
        let result = (0..keys.len()).step_by(BATCH_REQUESTS_MAX).try_for_each(|first| {
            let part = &keys[first..keys.len().min(first + BATCH_REQUESTS_MAX)];
            self.get_part(part, &mut value, |index, found| take(first + index, found))
        });
        self.value = value;
        result
    }

    fn get_part(
        &mut self,
        keys: &[&[u8]],
        value: &mut Vec<u8>,
        mut take: impl FnMut(usize, Option<(&[u8], u32)>),
    ) -> Result<(), Error> {
        let mut ask = u64::MAX;
        if let Some(reading) = &mut self.reading {
            let mut hashed = [(0, &[][..]); BATCH_REQUESTS_MAX];
            for (place, key) in hashed.iter_mut().zip(keys) {
                *place = (reading.hash(key), *key);
            }
            let (writes, counters) = (&self.writes, &mut self.counters);
            // What was read counts only if the server lives in the end, so it is checked before as well: a
            // server that dies in between leaves results that were true while it lived.
            let is_valid = reading.is_valid();
            if is_valid {
                ask = 0;
                reading.get_batch(&hashed[..keys.len()], value, |index, look, bytes| match look {
                    _ if !has_key_length(keys[index]) || writes.may_hold(hashed[index].0) => {
                        ask |= 1 << index
                    }
                    Look::Found { flags } => {
                        counters.hits += 1;
                        take(index, Some((bytes, flags)));
                    }
                    Look::Missing => {
                        counters.misses += 1;
                        take(index, None);
                    }
                    Look::Ask | Look::Gone => ask |= 1 << index,
                });
            }
        }
        for (index, key) in keys.iter().enumerate().filter(|(index, _)| ask >> index & 1 == 1) {
            let flags = self.get(key, value)?;
            take(index, flags.map(|flags| (&value[..], flags)));
        }
        Ok(())
    }

    /// Looks into the memory.
    #[inline]
    fn look(&mut self, key: &[u8], value: &mut Vec<u8>) -> Look {
        let Some(reading) = &mut self.reading else {
            return Look::Ask;
        };
        let hash = reading.hash(key);
        if !has_key_length(key) || self.writes.may_hold(hash) {
            return Look::Ask;
        }
        let look = reading.get(hash, key, value);
        match look {
            Look::Found { .. } => self.counters.hits += 1,
            Look::Missing => self.counters.misses += 1,
            Look::Ask | Look::Gone => {}
        }
        look
    }

    /// Asks the server for a key, after a new attachment if there is none.
    #[cold]
    fn ask(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<u32>, Error> {
        for _ in 0..ATTEMPTS_MAX {
            if self.ensure_attached()? {
                match self.look(key, value) {
                    Look::Found { flags } => return Ok(Some(flags)),
                    Look::Missing => return Ok(None),
                    Look::Ask => {}
                    Look::Gone => continue,
                }
            }
            match self.call(&Operation::get(key)) {
                Ok(answer) if answer.outcome == Outcome::Ok => {
                    *value = answer.value.bytes;
                    return Ok(Some(answer.value.flags));
                }
                Ok(_) => return Ok(None),
                // A get may be repeated.
                Err(Error::OutcomeUnknown) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.unreachable())
    }

    /// Executes one operation and waits for its end.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn call(&mut self, operation: &Operation<'_>) -> Result<Answer, Error> {
        // Completions of other operations wait here: nobody else takes them meanwhile.
        let mut others = std::mem::take(&mut self.ended);
        let mut values = std::mem::take(&mut self.values);
        let mut found = None;
        let mut is_submitted = false;
        let result = loop {
            if !is_submitted {
                match self.submit(self.now_ns(), operation, CALL) {
                    Ok(()) => is_submitted = true,
                    // Room comes with replies.
                    Err(SubmitError::Full) => {}
                    Err(error) => break Err(self.refused(operation.key, error)),
                }
            }
            let mut take = |ended: Completion<'_>| match ended.token {
                CALL => found = Some(answer(&ended)),
                _ => keep(&mut others, &mut values, &ended),
            };
            match self.poll(self.now_ns(), &mut take) {
                Ok(0) => self.wait(u64::MAX)?,
                Ok(_) => {}
                Err(error) => break Err(error.into()),
            }
            if let Some(answer) = found.take() {
                break answer;
            }
        };
        (self.ended, self.values) = (others, values);
        result.map_err(|error| self.named(operation.key, error))
    }

    /// Submits an operation, which ends with [`Self::poll`]. A get ends at once if the memory answers it.
    ///
    /// # Errors
    /// The key is bad, there is no room for another operation, or the server is gone.
    pub fn submit(&mut self, now_ns: u64, operation: &Operation<'_>, token: u64) -> Result<(), SubmitError> {
        if operation.opcode != Opcode::Noop && !has_key_length(operation.key) {
            return Err(SubmitError::BadKey);
        }
        let is_plain = operation.opcode == Opcode::Get && !operation.wants_cas;
        if self.ensure_attached().is_err() {
            return Err(SubmitError::ServerDown { server: 0 });
        }
        if is_plain && token != CALL {
            let mut value = std::mem::take(&mut self.value);
            let look = self.look(operation.key, &mut value);
            let outcome = match look {
                Look::Found { .. } => Some(Outcome::Ok),
                Look::Missing => Some(Outcome::NotFound),
                Look::Ask | Look::Gone => None,
            };
            if let Some(outcome) = outcome {
                let flags = if let Look::Found { flags } = look { flags } else { 0 };
                let found = if outcome == Outcome::Ok { &value[..] } else { &[] };
                let base = Completion::without_reply(token, Opcode::Get, outcome);
                self.keep(&Completion { flags, value: found, one_sided: true, ..base });
            }
            self.value = value;
            if outcome.is_some() {
                return Ok(());
            }
            if look == Look::Gone && self.ensure_attached().is_err() {
                return Err(SubmitError::ServerDown { server: 0 });
            }
        }
        match is_plain {
            true => self.counters.asked += 1,
            false => self.counters.requests += 1,
        }
        let hash = self.reading.as_ref().map_or(0, |reading| reading.hash(operation.key));
        // The server may have closed it, such as an idle one: nothing is lost yet.
        if self.stream.as_ref().is_none_or(|stream| stream.in_flight() == 0 && stream.is_closed()) {
            self.detach(Outcome::Unknown, |_, _, _| {});
            self.ensure_attached().map_err(|_| SubmitError::ServerDown { server: 0 })?;
        }
        let Some(stream) = &mut self.stream else {
            return Err(SubmitError::ServerDown { server: 0 });
        };
        if stream.is_full() {
            return Err(SubmitError::Full);
        }
        match stream.submit(operation, (hash, token, now_ns), &self.writes) {
            true => Ok(()),
            false => Err(SubmitError::BadKey),
        }
    }

    /// Sends what was submitted, receives what has come, and passes all operations that have ended on.
    /// Returns their number.
    ///
    /// # Errors
    /// None today; a server that is gone ends its operations.
    pub fn poll(&mut self, now_ns: u64, mut sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        let mut count = self.ended.len();
        while let Some(ended) = self.ended.pop_front() {
            let base = Completion::without_reply(ended.token, ended.opcode, ended.outcome);
            let (flags, cas, number) = (ended.flags, ended.cas, ended.number);
            let value = &self.values[ended.value];
            sink(Completion { flags, cas, number, value, one_sided: ended.is_local, ..base });
        }
        self.values.clear();
        let Some(stream) = &mut self.stream else {
            return Ok(count);
        };
        // The rest of a request that was refused at its beginning still has to leave.
        if stream.in_flight() == 0 && !stream.has_unsent() {
            return Ok(count);
        }
        let received = stream.flush().and_then(|()| stream.receive(&self.writes, &mut sink));
        let outcome = match received {
            Ok(ended) => {
                count += ended;
                let is_late = stream.oldest_ns().is_some_and(|at_ns| at_ns + self.deadline_ns <= now_ns);
                is_late.then_some(Outcome::TimedOut)
            }
            Err(_) => Some(Outcome::Unknown),
        };
        if let Some(outcome) = outcome {
            self.detach(outcome, |token, opcode, outcome| {
                count += 1;
                sink(Completion::without_reply(token, opcode, outcome));
            });
        }
        Ok(count)
    }

    /// Waits until [`Self::poll`] has something to do, at most `at_most_ns`.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn wait(&mut self, at_most_ns: u64) -> io::Result<()> {
        let (Some(stream), true) = (&self.stream, self.ended.is_empty()) else {
            return Ok(());
        };
        let now_ns = self.now_ns();
        let due_ns = stream.oldest_ns().map_or(u64::MAX, |at_ns| at_ns.saturating_add(self.deadline_ns));
        let wait_ns = at_most_ns.min(due_ns.saturating_sub(now_ns));
        let mut events = PollFlags::POLLIN;
        events.set(PollFlags::POLLOUT, stream.has_unsent());
        let wait_ms = wait_ns.div_ceil(1_000_000).min(60_000) as u16;
        match poll(&mut [PollFd::new(stream.as_fd(), events)], PollTimeout::from(wait_ms)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the error for an operation that was not taken.
    pub(crate) fn refused(&self, _key: &[u8], error: SubmitError) -> Error {
        match error {
            SubmitError::BadKey | SubmitError::TooLong => Error::BadKey,
            SubmitError::ServerDown { .. } => self.unreachable(),
            SubmitError::Full => Error::Refused,
        }
    }

    /// Names the server in an error.
    pub(crate) fn named(&self, _key: &[u8], error: Error) -> Error {
        match error {
            Error::TimedOut { .. } => Error::TimedOut { server: self.url.to_string() },
            Error::Unreachable { .. } => self.unreachable(),
            Error::TooLarge { .. } => Error::TooLarge { limit_bytes: None },
            other => other,
        }
    }

    fn unreachable(&self) -> Error {
        Error::Unreachable { server: self.url.to_string() }
    }

    fn keep(&mut self, of: &Completion<'_>) {
        keep(&mut self.ended, &mut self.values, of);
    }

    /// Attaches if there is no attachment, if the server of the present one has died, or after a fork.
    /// Returns whether it attached just now.
    fn ensure_attached(&mut self) -> Result<bool, Error> {
        let is_valid = match (&self.reading, &self.stream) {
            (Some(reading), Some(_)) => reading.is_valid(),
            (None, Some(stream)) => stream.in_flight() > 0 || !stream.is_closed(),
            (_, None) => false,
        };
        if is_valid {
            return Ok(false);
        }
        let mut lost = Vec::new();
        self.detach(Outcome::Unknown, |token, opcode, outcome| {
            lost.push(Completion::without_reply(token, opcode, outcome));
        });
        lost.iter().for_each(|ended| self.keep(ended));
        if self.now_ns() < self.retry_at_ns {
            return Err(self.unreachable());
        }
        self.attach()?;
        Ok(true)
    }

    fn attach(&mut self) -> Result<(), Error> {
        match attach(&self.url, Duration::from_nanos(self.deadline_ns)) {
            Ok((reading, stream)) => {
                (self.reading, self.stream) = (Some(reading), Some(stream));
                (self.backoff_ns, self.retry_at_ns) = (BACKOFF_NS_MIN, 0);
                self.counters.attached += 1;
                Ok(())
            }
            Err(error) => {
                self.retry_at_ns = self.now_ns() + self.backoff_ns;
                self.backoff_ns = (self.backoff_ns * 2).min(self.backoff_ns_max);
                Err(error)
            }
        }
    }

    /// Lets the attachment go, and ends what is on its way.
    fn detach(&mut self, outcome: Outcome, take: impl FnMut(u64, Opcode, Outcome)) {
        self.reading = None;
        if let Some(stream) = self.stream.take() {
            stream.give_up(outcome, &self.writes, take);
        }
    }

    /// Hands the mapped memory to somebody else, who reads it for this link: from now on all gets go over
    /// the stream. `None` if it was handed over since the last attachment.
    #[cfg(feature = "async")]
    pub(crate) fn take_reading(&mut self) -> Option<Reading> {
        self.reading.take()
    }

    /// Returns the table of writes on their way.
    #[cfg(feature = "async")]
    pub(crate) fn writes(&self) -> &Arc<Writes> {
        &self.writes
    }
}

/// Keeps a completion until it is asked for.
fn keep(ended: &mut VecDeque<Ended>, values: &mut Vec<u8>, of: &Completion<'_>) {
    let start = values.len();
    values.extend_from_slice(of.value);
    ended.push_back(Ended {
        token: of.token,
        opcode: of.opcode,
        outcome: of.outcome,
        is_local: of.one_sided,
        flags: of.flags,
        cas: of.cas,
        number: of.number,
        value: start..values.len(),
    });
}

/// Returns whether a key has a length that keys have.
#[inline]
pub(crate) fn has_key_length(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len())
}
