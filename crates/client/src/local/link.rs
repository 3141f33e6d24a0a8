//! A link to a server on the same host: gets that the memory answers end at once, all else goes over the
//! stream.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::call::CALL;
use super::ended::EndedList;
use super::gets::has_key_length;
use super::pause::Pause;
use super::reading::{Look, Reading};
use super::stream::{RequestStream, empty};
use super::writes::Writes;
use super::{LocalCounters, LocalUrl};
use crate::driver::SubmitError;
use crate::error::Error;
use crate::operation::{Completion, Opcode, Operation, Outcome, TEXT_VALUE_BYTES_MAX};
use crate::options::Options;

/// A link to a server of `local://`. One thread at a time uses it. After a fork the child attaches anew; what
/// the parent had on its way is the parent's, and ends as [`Outcome::Unknown`] in the child.
///
/// A request without a reply within the deadline costs the stream, and with it the other requests on their
/// way. After a second one in a row, others fail until a pause is over. Gets that the memory answers go on
/// until the server dies.
#[derive(Debug)]
pub struct LocalLink {
    pub(super) url: LocalUrl,
    pub(super) deadline_ns: u64,
    pub(super) reading: Option<Reading>,
    pub(super) stream: Option<RequestStream>,
    pub(super) writes: Arc<Writes>,
    pub(super) ended: EndedList,
    /// [`LocalLink::call`] is at work, or was left by a panic.
    pub(super) is_calling: bool,
    /// Buffer of one value.
    pub(super) value: Vec<u8>,
    pub(super) clock: Instant,
    pub(super) attached_at_ns: u64,
    /// Beginning of the attempt that has attached.
    pub(super) attach_began_ns: u64,
    /// In a batch: the server was down for one of its operations, and is not tried again for the others.
    pub(super) is_down_for_batch: Option<bool>,
    /// Time by which the call that is running has to end.
    pub(super) call_until_ns: u64,
    /// The last attempt to attach found no place for another client (`--local-clients`).
    pub(super) lacks_place: bool,
    pub(super) pause: Pause,
    pub(super) counters: LocalCounters,
}

impl LocalLink {
    /// Attaches to a server. Of the options, `deadline_ns` and `dead_for_ns` count.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub fn connect(url: &LocalUrl, options: &Options) -> Result<Self, Error> {
        let mut link = Self {
            url: url.clone(),
            deadline_ns: options.bounded_deadline_ns().max(1_000_000),
            reading: None,
            stream: None,
            writes: Arc::default(),
            ended: EndedList::default(),
            is_calling: false,
            value: Vec::new(),
            clock: Instant::now(),
            attached_at_ns: 0,
            attach_began_ns: 0,
            is_down_for_batch: None,
            call_until_ns: u64::MAX,
            lacks_place: false,
            pause: Pause::new(options.dead_for_ns),
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

    /// Does nothing: [`Self::submit`] attaches.
    #[expect(clippy::unnecessary_wraps, reason = "other links may fail")]
    pub(crate) fn try_again<'a>(&mut self, _: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        Ok(())
    }

    /// Submits an operation, which ends with [`Self::poll`]. A get ends at once if the memory answers it.
    ///
    /// # Errors
    /// The key is bad, there is no room for another operation, or the server is gone.
    pub fn submit(&mut self, now_ns: u64, operation: &Operation<'_>, token: u64) -> Result<(), SubmitError> {
        if operation.opcode != Opcode::Noop && !has_key_length(operation.key) {
            return Err(SubmitError::BadKey);
        }
        if !operation.expires_in_time() {
            return Err(SubmitError::ExpiryTooFar);
        }
        if operation.value.len() > TEXT_VALUE_BYTES_MAX {
            return Err(SubmitError::TooLong);
        }
        let is_plain = operation.opcode == Opcode::Get && !operation.wants_cas;
        let looks = is_plain && token != CALL;
        if looks && self.end_in_memory(operation.key, token) {
            return Ok(());
        }
        let attached = self.ensure_attached().map_err(|_| SubmitError::ServerDown { server: 0 })?;
        // Attaching takes its own time, for all that the caller submits at this time of its own.
        let now_ns = now_ns.max(self.attached_at_ns);
        if attached && looks && self.end_in_memory(operation.key, token) {
            return Ok(());
        }
        match is_plain {
            true => self.counters.asked += 1,
            false => self.counters.requests += 1,
        }
        // By the seed of the server that gets it: gets of the key wait for it by this hash. Who has taken the
        // memory over marks writes itself.
        let hash = self.reading.as_ref().map(|reading| reading.hash(operation.key));
        let Some(stream) = &mut self.stream else {
            return Err(SubmitError::ServerDown { server: 0 });
        };
        if stream.is_full(now_ns) {
            return Err(SubmitError::Full);
        }
        match stream.submit(operation, (hash, token, now_ns), &self.writes) {
            true => Ok(()),
            false => Err(SubmitError::BadKey),
        }
    }

    /// Ends a get by what the memory answers; returns false if the server has to be asked.
    fn end_in_memory(&mut self, key: &[u8], token: u64) -> bool {
        let mut value = std::mem::take(&mut self.value);
        let (outcome, flags, found) = match self.look(key, &mut value) {
            Look::Found { flags } => (Outcome::Ok, flags, &value[..]),
            Look::Missing => (Outcome::NotFound, 0, &[][..]),
            Look::Ask | Look::Gone => {
                self.value = value;
                return false;
            }
        };
        let base = Completion::without_reply(token, Opcode::Get, outcome);
        self.ended.keep(&Completion { flags, value: found, one_sided: true, ..base });
        self.keep_buffer(value);
        true
    }

    /// Keeps the buffer of one value for the next one.
    pub(super) fn keep_buffer(&mut self, mut value: Vec<u8>) {
        empty(&mut value);
        self.value = value;
    }

    /// Sends what was submitted, receives what has come, and passes all operations that have ended on.
    /// Returns their number.
    ///
    /// # Errors
    /// None today; a server that is gone ends its operations.
    pub fn poll(&mut self, now_ns: u64, mut sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        let mut count = self.ended.deliver(&mut sink);
        let Some(stream) = &mut self.stream else {
            return Ok(count);
        };
        // The rest of a request that was refused at its beginning still has to leave.
        if stream.in_flight() == 0 && !stream.has_unsent() {
            return Ok(count);
        }
        let outcome = match stream.exchange(&self.writes, &mut sink) {
            Ok(ended) => {
                if ended > 0 {
                    self.pause.end();
                }
                count += ended;
                let since_ns = stream.waits_since_ns();
                let is_late = since_ns.filter(|at_ns| self.due_ns(*at_ns) <= now_ns);
                is_late.map(|at_ns| {
                    // A request that waited for its stream began with the attempt to attach.
                    let attached_for_it = at_ns <= self.attached_at_ns;
                    let began_ns = if attached_for_it { self.attach_began_ns } else { at_ns };
                    // A call whose time was almost over tells nothing of the server.
                    if now_ns.saturating_sub(began_ns) >= self.deadline_ns / 4 {
                        self.pause.note_silence(began_ns, now_ns);
                    }
                    Outcome::TimedOut
                })
            }
            // The server has executed nothing.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let now_ns = self.now_ns();
                self.pause.begin(now_ns, now_ns, true);
                Some(Outcome::ServerDown)
            }
            Err(_) => Some(Outcome::Unknown),
        };
        if let Some(outcome) = outcome {
            self.end_stream(outcome);
            count += self.ended.deliver(sink);
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
        if !stream.is_of_this_process() || stream.has_undelivered() && stream.in_flight() > 0 {
            return Ok(());
        }
        let now_ns = self.now_ns();
        let due_ns = stream.waits_since_ns().map_or(u64::MAX, |at_ns| self.due_ns(at_ns));
        let wait_ns = at_most_ns.min(due_ns.saturating_sub(now_ns));
        let mut events = PollFlags::POLLIN;
        events.set(PollFlags::POLLOUT, stream.has_unsent());
        let wait_ms = wait_ns.div_ceil(1_000_000).min(60_000) as u16;
        match poll(&mut [PollFd::new(stream.as_fd(), events)], PollTimeout::from(wait_ms)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the time at which a request counts as unanswered.
    fn due_ns(&self, sent_at_ns: u64) -> u64 {
        sent_at_ns.saturating_add(self.deadline_ns).min(self.call_until_ns)
    }

    /// Returns whether a request is on its way, or waits to leave, or has ended.
    pub(crate) fn has_work(&self) -> bool {
        let stream = self.stream.as_ref();
        !self.ended.is_empty() || stream.is_some_and(|stream| stream.in_flight() > 0 || stream.has_unsent())
    }

    /// Returns the error for an operation that was not taken.
    pub(crate) fn refused(&self, key: &[u8], error: SubmitError) -> Error {
        match error {
            SubmitError::BadKey if has_key_length(key) => Error::KeyNotText,
            SubmitError::BadKey => Error::BadKey,
            SubmitError::TooLong => Error::TooLarge { limit_bytes: None },
            SubmitError::ExpiryTooFar => Error::ExpiryTooFar,
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

    pub(super) fn unreachable(&self) -> Error {
        match self.pause.is_full() {
            true => Error::ServerFull { server: self.url.to_string() },
            false => Error::Unreachable { server: self.url.to_string() },
        }
    }

    /// Returns the URL of the server.
    #[cfg(feature = "async")]
    pub(crate) fn url(&self) -> &LocalUrl {
        &self.url
    }

    /// Returns the deadline of an operation.
    #[cfg(feature = "async")]
    pub(crate) fn deadline(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.deadline_ns)
    }

    /// Lets the stream go, and ends what is on its way.
    pub(super) fn lose_stream(&mut self, outcome: Outcome, take: impl FnMut(u64, Opcode, Outcome)) {
        if let Some(stream) = self.stream.take() {
            stream.give_up(outcome, &self.writes, take);
        }
    }

    /// Lets the stream go. The next poll tells of what is on its way.
    pub(super) fn end_stream(&mut self, outcome: Outcome) {
        let mut ended = std::mem::take(&mut self.ended);
        self.lose_stream(outcome, |token, opcode, outcome| {
            ended.keep(&Completion::without_reply(token, opcode, outcome));
        });
        self.ended = ended;
    }

    /// Ends a caller's operations without a completion. `sent` gets the tokens of those that may be executed.
    /// Operations of others that are on their way end as unknown.
    pub(crate) fn give_up(&mut self, is_own: impl Fn(u64) -> bool, mut sent: impl FnMut(u64)) {
        let mut others = std::mem::take(&mut self.ended);
        others.retain(|token| !is_own(token));
        self.lose_stream(Outcome::Unknown, |token, opcode, outcome| match is_own(token) {
            true => sent(token),
            false => others.keep(&Completion::without_reply(token, opcode, outcome)),
        });
        self.ended = others;
    }

    /// Keeps completions for the next poll, before those that have ended since.
    pub(crate) fn keep(&mut self, mut others: EndedList) {
        self.ended.deliver(|ended| others.keep(&ended));
        self.ended = others;
    }

    /// Hands the mapped memory to somebody else, who reads it for this link: from now on all gets go over
    /// the stream. `None` if it was handed over since the last attachment.
    pub(super) fn take_reading(&mut self) -> Option<Reading> {
        self.reading.take()
    }

    /// Returns whether the server had no place for another client at the last attempt to attach. A server
    /// without a free connection has one.
    pub(super) fn lacks_place(&self) -> bool {
        self.lacks_place
    }

    /// Returns the table of writes on their way.
    #[cfg(feature = "async")]
    pub(crate) fn writes(&self) -> &Arc<Writes> {
        &self.writes
    }
}
