//! A session: its buffers, and the transfers that end.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use micanite_chunks::Entry;
use micanite_chunks::layout::{HEADER_BYTES, RECORD_BYTES};
use micanite_fabric::Error;
use micanite_wire::native::{Header, Hello, HelloReply, KEY_BYTES_MAX, Kind, Pushes};

use super::state::{Facts, State};
use super::{Broken, Context, token};
use crate::driver::SubmitError;
use crate::fabric::batch::Batch;
use crate::fabric::keys::RECORDS_MAX;
use crate::fabric::reads::Reads;
use crate::fabric::transport::{BATCH, Ended, Refused, Transport};
use crate::operation::{Completion, Opcode, Operation};
use micanite_wire::hash::KeyHash;

/// Bytes of a push, and of a history.
const PART_BYTES: usize = 8 << 10;
/// Buffers that wait for pushes.
const PUSHES: usize = 2;
/// Bursts of completions of one poll.
const BURSTS_MAX: usize = 8;
/// Attempts to get buffers back from a broken endpoint.
const DRAINS_MAX: usize = 32;
/// Bytes of the buffer of a goodbye.
const GOODBYE_BYTES: usize = 1024;
/// Longest wait until a goodbye has left.
const GOODBYE_MAX: Duration = Duration::from_millis(5);

const _: () = assert!(Header::BYTES + RECORDS_MAX * 16 <= PART_BYTES);

/// State of the message of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Idle,
    /// The endpoint was busy.
    Unposted,
    /// The reply is outstanding.
    Posted,
}

/// A session with a server.
pub(super) struct Session<T: Transport> {
    pub(super) endpoint: T,
    pub(super) facts: Facts,
    /// Requests of the next message.
    pub(super) filling: Batch<T::Buffer>,
    /// The message that was sent.
    pub(super) sent: Batch<T::Buffer>,
    pub(super) sending: Sending,
    pub(super) sent_at: u64,
    /// Time since when the server owes a reply: of the post, then of the buffer's return.
    pub(super) silent_since: u64,
    /// Time that the server has for the reply.
    pub(super) patience_ns: u64,
    pub(super) echo: u64,
    /// Reply that has arrived.
    pub(super) reply: Option<(T::Buffer, usize)>,
    /// Buffers to post for messages, with their tokens.
    pub(super) to_receive: ArrayVec<(T::Buffer, u64), { PUSHES + 1 }>,
    /// `None`: a transfer has it.
    pub(super) history: Option<T::Buffer>,
    pub(super) history_at: u64,
    pub(super) reads: Reads<T::Buffer>,
    pub(super) read_bytes_max: usize,
    /// The server's second in its last reply.
    pub(super) second: u64,
    /// Time when the request of that reply was sent.
    pub(super) second_at: u64,
    pub(super) last_sent_at: u64,
    pub(super) expire_at: u64,
    /// A transfer could not be started.
    pub(super) is_broken: bool,
    /// [`Self::poll`] is at work, or was left by a panic, which has lost transfers that had ended.
    is_polling: bool,
}

impl<T: Transport> fmt::Debug for Session<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Session({:?}, {:?})", self.facts.hello.incarnation, self.sending)
    }
}

impl<T: Transport> Session<T> {
    /// Begins a session whose hello was sent at `hello_at`.
    pub(super) fn new(
        endpoint: T,
        hello: &HelloReply,
        hello_at: u64,
        (state, facts): (&mut State, Facts),
    ) -> Result<Self, Error> {
        let message_bytes = facts.message_bytes;
        let item_bytes = HEADER_BYTES + KEY_BYTES_MAX + facts.value_bytes_max as usize;
        let read_bytes_max = item_bytes.min(hello.page_bytes as usize);
        let mut to_receive = ArrayVec::new();
        to_receive.push((endpoint.buffer(message_bytes)?, token::REPLIES));
        for _ in 0..PUSHES {
            to_receive.push((endpoint.buffer(PART_BYTES)?, token::PUSH));
        }
        let mut session = Self {
            filling: Batch::new(endpoint.buffer(message_bytes)?),
            sent: Batch::new(endpoint.buffer(message_bytes)?),
            sending: Sending::Idle,
            sent_at: 0,
            silent_since: 0,
            patience_ns: 0,
            echo: 0,
            reply: None,
            to_receive,
            history: Some(endpoint.buffer(PART_BYTES)?),
            history_at: 0,
            reads: Reads::new(RECORD_BYTES + read_bytes_max),
            read_bytes_max,
            second: hello.second,
            second_at: hello_at,
            last_sent_at: hello_at,
            expire_at: 0,
            is_broken: false,
            is_polling: false,
            endpoint,
            facts,
        };
        state.begin(&session.facts);
        // A failure here is found by the first poll.
        session.is_broken = session.post_receives().is_err();
        Ok(session)
    }

    /// Accepts an operation: a get reads one-sided if it may.
    #[inline]
    pub(super) fn submit(
        &mut self,
        state: &mut State,
        context: &mut Context,
        operation: &Operation<'_>,
        token: u64,
    ) -> Result<(), SubmitError> {
        let hash = match operation.opcode {
            Opcode::Noop => 0,
            _ => KeyHash::of(operation.key, self.facts.hello.hash_seed).0,
        };
        if operation.opcode == Opcode::Get
            && !operation.wants_cas
            && self.submit_read(state, context, (operation.key, hash), token)?
        {
            return Ok(());
        }
        self.submit_request(state, context, operation, (hash, token))
    }

    /// Takes ended transfers, and starts those that are due.
    #[inline]
    pub(super) fn poll(
        &mut self,
        state: &mut State,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Broken> {
        if std::mem::replace(&mut self.is_polling, true) {
            return Err(Broken);
        }
        let polled = self.poll_transfers(state, context, sink);
        self.is_polling = false;
        polled
    }

    fn poll_transfers(
        &mut self,
        state: &mut State,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Broken> {
        for _ in 0..BURSTS_MAX {
            let mut ended = ArrayVec::<_, BATCH>::new();
            let polled = self.endpoint.poll(&mut ended);
            let is_full = ended.is_full();
            let mut result = polled.map_err(Broken::from);
            for one in ended {
                result = result.and(self.take(one, state, context, sink));
            }
            result?;
            if !is_full {
                break;
            }
        }
        self.post_receives()?;
        self.on_time(state, context, sink)?;
        self.leave(state, context)?;
        if self.is_broken { Err(Broken) } else { Ok(()) }
    }

    /// Takes an ended transfer.
    #[inline]
    fn take(
        &mut self,
        ended: Ended<T::Buffer>,
        state: &mut State,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Broken> {
        let Ended { token, buffer, result } = ended;
        match token {
            token::CHUNK.. if token < token::HEADER => {
                self.take_chunk((token & token::SLOT) as usize, buffer, result, (state, context), sink)
            }
            token::HEADER.. => {
                self.take_header((token & token::SLOT) as usize, buffer, result, (state, context), sink)
            }
            token::REQUESTS => {
                self.sent.buffer = Some(buffer);
                self.silent_since = T::now_ns();
                result?;
                self.answer(state, context, sink)
            }
            token::REPLIES => match result {
                Ok(bytes) if self.sending == Sending::Posted && self.reply.is_none() => {
                    self.reply = Some((buffer, bytes));
                    self.answer(state, context, sink)
                }
                result => {
                    context.counters.bogus += u64::from(result.is_ok());
                    self.to_receive.push((buffer, token::REPLIES));
                    result.map(drop).map_err(Broken::from)
                }
            },
            token::PUSH => {
                let pushed = result.map(|bytes| self.pushed(&buffer[..bytes], state, context));
                self.to_receive.push((buffer, token::PUSH));
                pushed.map_err(Broken::from)
            }
            token::HISTORY => {
                self.history = Some(buffer);
                result.map(drop).map_err(Broken::from)
            }
            // The header of the hello.
            _ => result.map(drop).map_err(Broken::from),
        }
    }

    /// Keeps the entries of a push.
    fn pushed(&self, message: &[u8], state: &mut State, context: &mut Context) {
        context.counters.push_bytes += message.len() as u64;
        // A client that reads nothing one-sided gets pushes, too.
        let Some(area) = &self.facts.area else {
            return;
        };
        let header = Header::read(message).ok().filter(|header| header.kind == Kind::Push);
        let Some(entries) = header.and_then(|header| Pushes::check(message, header.count).ok()) else {
            context.counters.bogus += 1;
            return;
        };
        for pushed in entries {
            let entry = Entry { offset: pushed.offset, bytes: pushed.bytes, version: pushed.version };
            match state.learn(pushed.hash, entry, area) {
                true => context.counters.entries_pushed += 1,
                false => context.counters.entries_bogus += 1,
            }
        }
    }

    /// Posts buffers for messages.
    pub(super) fn post_receives(&mut self) -> Result<(), Broken> {
        while let Some((buffer, token)) = self.to_receive.pop() {
            let hello = &self.facts.hello;
            let tag = if token == token::PUSH { hello.push_tag() } else { hello.session };
            match self.endpoint.receive_tagged(buffer, tag, token) {
                Ok(()) => {}
                Err(Refused { buffer, error }) => {
                    self.to_receive.push((buffer, token));
                    return if error == Error::Busy { Ok(()) } else { Err(Broken) };
                }
            }
        }
        Ok(())
    }

    /// Ends the session. Requests that were not answered wait for the next one. If the sink panics, the
    /// session has not ended yet.
    pub(super) fn end(
        &mut self,
        state: &mut State,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        for _ in 0..DRAINS_MAX {
            let mut ended = ArrayVec::<_, BATCH>::new();
            let is_polled = self.endpoint.poll(&mut ended).is_ok();
            if !is_polled && ended.is_empty() && self.sent.buffer.is_some() {
                break;
            }
            for one in ended {
                match one.token {
                    token::CHUNK.. => {}
                    _ => drop(self.take(one, state, context, sink)),
                }
            }
            if self.sending != Sending::Posted {
                break;
            }
            std::thread::yield_now();
        }
        self.keep_requests(state);
        self.keep_reads(state, context);
    }

    /// Tells the server that the client goes, so that others get its buffer at once.
    pub(super) fn say_goodbye(&mut self, state: &State) {
        let Ok(mut buffer) = self.endpoint.buffer(GOODBYE_BYTES) else {
            return;
        };
        let hello = Hello { nonce: state.nonce, message_bytes_max: 0, user: b"", password: b"" };
        let header = Header { kind: Kind::Hello, client: state.client, ..Header::REQUESTS };
        let Ok(bytes) = hello.write(&header, &mut buffer) else {
            return;
        };
        if self.is_broken || self.endpoint.send(buffer, bytes, token::GOODBYE).is_err() {
            return;
        }
        let began_at = Instant::now();
        while began_at.elapsed() < GOODBYE_MAX {
            let mut ended = ArrayVec::<_, BATCH>::new();
            let polled = self.endpoint.poll(&mut ended);
            if polled.is_err() || ended.iter().any(|one| one.token == token::GOODBYE) {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Returns the descriptor, if a thread may sleep on it now.
    pub(super) fn sleeper(&mut self) -> Option<BorrowedFd<'_>> {
        if self.sending == Sending::Unposted || self.reads.unposted != 0 || !self.to_receive.is_empty() {
            return None;
        }
        self.endpoint.sleeper()
    }
}
