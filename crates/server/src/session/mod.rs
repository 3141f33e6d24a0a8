//! One connection's conversation, without its socket: bytes in, replies out.
//!
//! ```text
//!  input bytes --gather--> a batch of engine requests --execute--> sink --> output bytes
//!                 |            (up to 64, pipelined commands and the keys of multi-gets)
//!                 '- anything else (stats, refused lines, ...) waits until the batch before it ran
//! ```
//!
//! [`Session::process`] does as much as it can and says why it stopped ([`Status`]). It keeps no
//! bytes: what was not consumed has to be shown again, and calling it again with the same input
//! is always right. It allocates nothing.

mod answer;
mod binary;
mod gather;
mod guard;
#[cfg(test)]
mod guard_tests;
mod long;
mod meta;
mod operator;
mod sink;
#[cfg(test)]
mod tests;

pub(crate) use gather::Kind;
pub(crate) use sink::count;

use micanite_engine::{KeyHash, ReplySink, Request, Worker};
use micanite_wire::memcache::binary::REQUEST_MAGIC;
use micanite_wire::memcache::text::Parser;

use crate::configuration::Binding;
use crate::limits::{
    ADMINISTRATION_BYTES_MIN, ADMINISTRATION_REQUESTS, ADMINISTRATIONS_MAX, SHORT_REPLY_BYTES_MAX,
    STATS_REPLY_BYTES_MAX,
};
use crate::output::Output;
use crate::shared::{Server, Shared};
use crate::telemetry::stats::Counters;
use crate::telemetry::watch::{self, Watcher};
use answer::Aside;
use gather::{Gather, Stop};
use guard::Guard;
use long::{Answered, LongReply};
use sink::{Around, Sink};

/// The context of a session: the worker that runs it, and the server.
#[derive(Debug)]
pub struct Context<'a> {
    /// The worker, which executes requests.
    pub worker: &'a mut Worker,
    /// The state that batches touch.
    pub shared: &'a Shared,
    /// The worker's counters.
    pub counters: &'a Counters,
    /// The server, for commands of administration.
    pub server: &'a Server,
    /// Unix time.
    pub now_s: u32,
}

impl<'a> Context<'a> {
    /// The context of a turn of a worker.
    #[inline]
    pub fn new(worker: &'a mut Worker, server: &'a Server, now_s: u32) -> Self {
        Self {
            counters: &server.shared.counters[worker.number()],
            worker,
            shared: &server.shared,
            server,
            now_s,
        }
    }
}

impl Context<'_> {
    /// The same, for a shorter time.
    #[inline]
    pub(crate) fn lend(&mut self) -> Context<'_> {
        Context {
            worker: self.worker,
            shared: self.shared,
            counters: self.counters,
            server: self.server,
            now_s: self.now_s,
        }
    }

    /// Counts a command of administration: it takes as much of a turn as many requests do.
    fn charge_administration(&mut self, requests_left: &mut u32) {
        *requests_left = requests_left.saturating_sub(ADMINISTRATION_REQUESTS - 1);
        let turn_bytes = self.worker.cache().turn_moved_bytes();
        let bytes = ADMINISTRATION_BYTES_MIN.max(turn_bytes / ADMINISTRATIONS_MAX);
        self.worker.charge(bytes);
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = self.worker.cache().hash(key);
        self.worker.prefetch(hash);
        hash
    }

    /// Executes a batch, as [`Worker::execute`].
    #[inline]
    pub(crate) fn execute<S: ReplySink + Send>(&mut self, requests: &[Request<'_>], sink: &mut S) -> usize {
        let done = if self.shared.watch.wanted().is_empty() {
            self.worker.execute(requests, self.now_s, sink)
        } else {
            watch::execute(self, requests, sink)
        };
        let worker = &*self.worker;
        let loads = &self.shared.loads;
        loads.count(worker.cache(), worker.number(), &requests[..done]);
        self.shared.hot[worker.number()].note(&requests[..done], self.now_s);
        done
    }
}

/// The state of a conversation.
#[derive(Debug, Default)]
pub struct Session {
    protocol: Protocol,
    parser: Parser,
    /// Keys of the get at the start of the input that have been answered already.
    keys_done: u32,
    /// Bytes of a refused body that are still to come.
    swallow_bytes: u64,
    /// The request at the start of the input lacks the rest of its body.
    awaits_body: bool,
    /// Whether the client has to say who it is.
    guard: Guard,
    /// A reply that is made in steps.
    long: Option<LongReply>,
    /// Since `watch` all that comes of the connection are lines.
    watcher: Option<Watcher>,
    /// Keys that were looked up since somebody asked.
    keys: usize,
    closing: bool,
}

/// Which protocol a connection speaks: the first byte of its first request says it for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Protocol {
    #[default]
    Unknown,
    Text,
    Binary,
}

impl Protocol {
    fn of(first: u8, binding: Binding) -> Self {
        let binary = match binding {
            Binding::Auto => first == REQUEST_MAGIC,
            Binding::Ascii => false,
            Binding::Binary => true,
        };
        if binary { Self::Binary } else { Self::Text }
    }
}

/// Why a session stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All complete requests are answered.
    NeedInput,
    /// The next reply does not fit: come again with an empty output of at least so many bytes.
    NeedOutput {
        /// Not more than [`crate::limits::OUTPUT_BYTES`] unless a value is longer than that.
        bytes: usize,
    },
    /// The next request is a store that is longer than the largest input: come again with all of it.
    NeedBody {
        /// Length of the request.
        bytes: usize,
    },
    /// As many requests as one turn may have, or as many bytes as it may move within the memory.
    TurnOver,
    /// The connection is to be closed once the replies are sent.
    Close,
}

/// What [`Session::process`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// Why it stopped.
    pub status: Status,
}

/// What a conversation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// A request.
    Request,
    /// The rest of a body.
    Body,
    /// The rest of a body that was refused.
    Refused,
}

impl Session {
    /// Whether the conversation is between two requests, as far as the session knows.
    pub fn is_idle(&self) -> bool {
        self.swallow_bytes == 0 && self.keys_done == 0
    }

    /// What the next bytes of the input are.
    #[inline]
    pub fn awaits(&self) -> Awaits {
        if self.awaits_body {
            Awaits::Body
        } else if self.swallow_bytes > 0 {
            Awaits::Refused
        } else {
            Awaits::Request
        }
    }

    /// Whether the client has to say who it is, and has never done so.
    pub fn is_of_stranger(&self) -> bool {
        self.guard.is_of_stranger()
    }

    /// Whether a reply was begun that is made in steps.
    pub fn is_in_steps(&self) -> bool {
        self.long.is_some()
    }

    /// Whether the connection shows what it watches: its turns come without input, too.
    #[inline]
    pub fn is_watching(&self) -> bool {
        self.watcher.is_some()
    }

    /// Keys that were looked up since this was called last.
    #[inline]
    pub fn take_keys(&mut self) -> usize {
        std::mem::take(&mut self.keys)
    }

    /// Answers requests. `full`: the input cannot become longer before some of it is consumed.
    /// Every command takes one of `requests_left`.
    pub fn process(
        &mut self,
        input: &[u8],
        full: bool,
        requests_left: &mut u32,
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Progress {
        let stopped = |consumed, status| Progress { consumed, status };
        self.awaits_body = false;
        if self.closing {
            return stopped(input.len(), Status::Close);
        }
        if self.guard.is_shut() {
            return self.process_guarded(input, requests_left, output, context);
        }
        if let Some(watcher) = &self.watcher {
            return stopped(input.len(), show(watcher, output));
        }
        if self.protocol == Protocol::Unknown
            && let Some(first) = input.first()
        {
            self.protocol = Protocol::of(*first, context.server.settings.switches.binding);
        }
        if self.protocol == Protocol::Binary {
            return self.process_binary(input, requests_left, output, context);
        }
        let entry = (self.parser, self.keys_done);
        let mut gather = Gather::new(input, full, self.swallow(input), self.keys_done);
        self.keys_done = 0;
        loop {
            let stop = gather.fill(&mut self.parser, requests_left, context);
            let ran = run(&gather, output, context);
            self.keys += match &ran {
                Ok(()) => gather.requests.len(),
                Err(unfinished) => unfinished.index,
            };
            if let Err(Unfinished { index, status }) = ran {
                let pending = gather.pending[index];
                self.keys_done = pending.key_index;
                self.parser = if pending.at == 0 { entry.0 } else { Parser::default() };
                return stopped(pending.at, status);
            }
            gather.clear();
            match stop {
                Stop::Full => {}
                Stop::Incomplete => return stopped(gather.at, Status::NeedInput),
                Stop::BodyIncomplete => {
                    self.awaits_body = true;
                    return stopped(gather.at, Status::NeedInput);
                }
                Stop::TurnOver => {
                    if gather.at == 0 {
                        self.keys_done = entry.1;
                    }
                    return stopped(gather.at, Status::TurnOver);
                }
                Stop::Body { .. } if context.worker.is_spent() => {
                    return stopped(gather.at, Status::TurnOver);
                }
                Stop::Body { bytes } => return stopped(gather.at, Status::NeedBody { bytes }),
                Stop::Aside { aside, bytes, parser_before } => {
                    if context.worker.is_spent() {
                        self.parser = parser_before;
                        return stopped(gather.at, Status::TurnOver);
                    }
                    let room = aside.room();
                    if output.room() < room {
                        self.parser = parser_before;
                        return stopped(gather.at, Status::NeedOutput { bytes: room });
                    }
                    if aside.is_administration() {
                        context.charge_administration(requests_left);
                    }
                    let answered = match &aside {
                        Aside::Meta(alone) => match alone.execute(output, context) {
                            Ok(()) => Answered::Done,
                            Err(bytes) => Answered::More(Status::NeedOutput { bytes }),
                        },
                        aside => self.answer_long(aside, output, context),
                    };
                    match answered {
                        Answered::Elsewhere => self.answer(aside, output, context),
                        Answered::Done => {}
                        Answered::More(status) => {
                            self.parser = parser_before;
                            return stopped(gather.at, status);
                        }
                    }
                    gather.at += bytes;
                    gather.at += self.swallow(&input[gather.at..]);
                    if self.closing {
                        return stopped(input.len(), Status::Close);
                    }
                    if self.watcher.is_some() {
                        // Whatever else a watcher sends is read over, as by memcached.
                        return stopped(input.len(), Status::NeedInput);
                    }
                }
            }
        }
    }

    /// Discards what a refused body still has to get.
    #[inline]
    fn swallow(&mut self, input: &[u8]) -> usize {
        let bytes = self.swallow_bytes.min(input.len() as u64);
        self.swallow_bytes -= bytes;
        bytes as usize
    }
}

/// Writes the lines that are there for a watcher.
#[cold]
fn show(watcher: &Watcher, output: &mut Output<'_>) -> Status {
    if watcher.drain(output) {
        let bytes = STATS_REPLY_BYTES_MAX;
        Status::NeedOutput { bytes }
    } else {
        Status::NeedInput
    }
}

/// A batch ended before this request: the output has no room for its reply, or the turn has moved as much as it may.
struct Unfinished {
    index: usize,
    status: Status,
}

impl Unfinished {
    fn no_room(index: usize, bytes: usize) -> Self {
        let status = Status::NeedOutput { bytes };
        Self { index, status }
    }

    fn spent(index: usize) -> Self {
        let status = Status::TurnOver;
        Self { index, status }
    }
}

/// Executes what was gathered.
#[inline]
fn run(gather: &Gather<'_>, output: &mut Output<'_>, context: &mut Context<'_>) -> Result<(), Unfinished> {
    let requests = gather.requests.as_slice();
    if requests.is_empty() {
        return Ok(());
    }
    if context.worker.is_spent() {
        return Err(Unfinished::spent(0));
    }
    let around = Around {
        input: gather.input,
        now_s: context.now_s,
        base64: false,
        short_bytes: if gather.has_meta { meta::META_REPLY_BYTES_MAX } else { SHORT_REPLY_BYTES_MAX },
    };
    if output.room() < requests.len() * around.short_bytes {
        return Err(Unfinished::no_room(0, around.batch_bytes()));
    }
    let mut sink = Sink::new(requests, &gather.pending, around, output, context.counters);
    let done = context.execute(requests, &mut sink);
    let bytes = sink.bytes_needed();
    match done == requests.len() {
        true => Ok(()),
        false if context.worker.is_spent() => Err(Unfinished::spent(done)),
        false => Err(Unfinished::no_room(done, bytes)),
    }
}
