//! One connection's conversation, without its socket: bytes in, replies out.
//!
//! ```text
//!  input bytes --parse--> a batch of engine requests --execute--> sink --> output bytes
//!                |           (up to 64, of pipelined commands and of multi-gets)
//!                '- other requests (stats, refused lines, ...) wait until the batch before them is executed
//! ```
//!
//! A `Codec` is a protocol; `Session::serve` is the loop of all protocols. A session keeps no bytes:
//! input that was not consumed has to be shown again, and showing it again is always right. Answering
//! requests allocates nothing.

mod batch;
mod binary;
mod context;
mod guard;
#[cfg(test)]
mod guard_tests;
mod kind;
mod long;
#[cfg(test)]
mod tests;
mod text;
mod watched;

pub use context::Context;
pub(crate) use kind::{Kind, count};

use micanite_wire::memcache::binary::REQUEST_MAGIC;

use crate::configuration::Binding;
use crate::limits::STATS_REPLY_BYTES_MAX;
use crate::output::Output;
use crate::telemetry::watch::Watcher;
use batch::{Batch, Codec, Stop, Unbatched, Unfinished};
use binary::Binary;
use guard::Guard;
use long::LongReply;
use text::{Text, TextState};

/// First byte of a command of Redis (RESP): an array. No command of memcached begins with it and a digit.
const RESP_ARRAY: u8 = b'*';
/// First bytes of a TLS record that holds a handshake, of every version. The session id of a hello holds what
/// a web page has chosen by way of its own server, so nothing of it may be executed.
const TLS_HANDSHAKE: [u8; 2] = [0x16, 3];
/// Reply to a client of Redis, in its protocol.
const NO_REDIS: &[u8] = b"-ERR this is Micanite, which speaks memcached's protocols and not Redis's\r\n";

/// The state of a conversation.
#[derive(Debug, Default)]
pub struct Session {
    protocol: Protocol,
    text: TextState,
    awaits: Awaits,
    phase: Phase,
    guard: Guard,
    /// A reply that is made in steps.
    long: Option<LongReply>,
    /// Keys that were looked up since [`Session::take_keys`].
    keys: usize,
}

/// Phases of a conversation.
#[derive(Debug, Default)]
enum Phase {
    #[default]
    Serving,
    /// After `watch`, the client only receives lines.
    Watching(Watcher),
    /// The connection is to be closed.
    Closing,
}

/// Protocol of a connection, which the first byte of its first request decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Protocol {
    #[default]
    Unknown,
    Text,
    Binary,
    /// TLS where none is spoken: the connection is closed.
    Tls,
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

/// Reason why a session stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All complete requests are answered.
    NeedInput,
    /// The next reply does not fit: come again with an empty output of at least so many bytes.
    NeedOutput {
        /// Not more than [`crate::limits::OUTPUT_BYTES`] unless a value is longer than that.
        bytes: usize,
    },
    /// The next request is longer than the largest input: come again with all of its bytes.
    NeedBuffer { bytes: usize },
    /// The turn has used up its requests, or the bytes that it may move within the memory.
    TurnOver,
    /// The connection is to be closed once the replies are sent.
    Close,
}

/// Result of [`Session::process`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    pub status: Status,
}

/// Kinds of the next bytes of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Awaits {
    /// A request.
    #[default]
    Request,
    /// The rest of a body.
    Body,
    /// The rest of a body that was refused, which is discarded.
    Refused { bytes: u64 },
}

impl Session {
    /// Returns what the next bytes of the input are.
    #[inline]
    pub fn awaits(&self) -> Awaits {
        self.awaits
    }

    /// Returns whether the client has to authenticate, and never has.
    pub fn never_authenticated(&self) -> bool {
        self.guard.never_authenticated()
    }

    /// Returns whether a reply that is made in steps was begun.
    pub fn is_in_steps(&self) -> bool {
        self.long.is_some()
    }

    /// Returns whether the connection watches: it has turns without input, too.
    #[inline]
    pub fn is_watching(&self) -> bool {
        matches!(self.phase, Phase::Watching(_))
    }

    /// Returns whether the session has ended the conversation. Its replies are sent first.
    #[inline]
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing)
    }

    /// Returns whether the client speaks TLS where none is spoken.
    pub fn speaks_tls(&self) -> bool {
        self.protocol == Protocol::Tls
    }

    /// Returns the number of keys that were looked up since the last call.
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
        let stopped = |status| Progress { consumed: input.len(), status };
        if self.protocol == Protocol::Unknown
            && let Some(progress) = self.begin(input, output, context)
        {
            return progress;
        }
        match &self.phase {
            Phase::Closing => return stopped(Status::Close),
            _ if self.guard.is_shut() => {
                return self.process_guarded(input, requests_left, output, context);
            }
            Phase::Watching(watcher) => return stopped(show(watcher, output)),
            Phase::Serving => {}
        }
        if self.awaits == Awaits::Body {
            self.awaits = Awaits::Request;
        }
        if self.protocol == Protocol::Binary {
            return self.serve(&mut Binary, input, requests_left, output, context);
        }
        let mut codec = Text::new(self.text, full);
        let progress = self.serve(&mut codec, input, requests_left, output, context);
        self.text = codec.state();
        progress
    }

    /// Decides the protocol by the first bytes. Returns the progress if they are too few, or a client of
    /// Redis sent them; a client of TLS finds the conversation closed.
    #[cold]
    fn begin(&mut self, input: &[u8], output: &mut Output<'_>, context: &Context<'_>) -> Option<Progress> {
        let binding = context.server.settings.switches.binding;
        match input {
            _ if matches!(self.phase, Phase::Closing) => return None,
            [] => return None,
            [RESP_ARRAY] if binding != Binding::Binary => {
                return Some(Progress { consumed: 0, status: Status::NeedInput });
            }
            [byte] if *byte == TLS_HANDSHAKE[0] => {
                return Some(Progress { consumed: 0, status: Status::NeedInput });
            }
            [first, second, ..] if [*first, *second] == TLS_HANDSHAKE => {
                self.protocol = Protocol::Tls;
                self.phase = Phase::Closing;
            }
            [RESP_ARRAY, b'0'..=b'9', ..] if binding != Binding::Binary => {
                return Some(self.refuse_redis(input, output));
            }
            [first, ..] => self.protocol = Protocol::of(*first, binding),
        }
        None
    }

    /// Tells a client of Redis, by an error that its library shows, that it is at the wrong server.
    #[cold]
    fn refuse_redis(&mut self, input: &[u8], output: &mut Output<'_>) -> Progress {
        if output.room() < NO_REDIS.len() {
            return Progress { consumed: 0, status: Status::NeedOutput { bytes: NO_REDIS.len() } };
        }
        output.push(NO_REDIS);
        self.phase = Phase::Closing;
        Progress { consumed: input.len(), status: Status::Close }
    }

    /// Parses requests into batches, executes them, and writes their replies, until something is missing.
    fn serve<'i, C: Codec<'i>>(
        &mut self,
        codec: &mut C,
        input: &'i [u8],
        requests_left: &mut u32,
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Progress {
        let mut batch = Batch::new(input, self.swallow(input));
        let (at, status) = loop {
            let stop = batch.fill(codec, requests_left, context);
            if let Err(Unfinished { executed, status }) = batch.execute(codec, output, context) {
                self.keys += executed;
                let next = batch.pending(executed);
                codec.rewind(next.at, next.key_index);
                break (next.at, status);
            }
            self.keys += batch.len();
            batch.clear();
            match stop {
                Stop::Full => {}
                Stop::Incomplete => break (batch.at, Status::NeedInput),
                Stop::BodyIncomplete => {
                    self.awaits = Awaits::Body;
                    break (batch.at, Status::NeedInput);
                }
                Stop::Long { .. } if context.worker.is_spent() => break (batch.at, Status::TurnOver),
                Stop::Long { bytes } => break (batch.at, Status::NeedBuffer { bytes }),
                Stop::TurnOver => break (batch.at, Status::TurnOver),
                Stop::Unbatched { request, bytes } => {
                    if let Some(status) = self.answer_unbatched(request, requests_left, output, context) {
                        codec.rewind(batch.at, 0);
                        break (batch.at, status);
                    }
                    batch.at += bytes;
                    batch.at += self.swallow(&input[batch.at..]);
                    match self.phase {
                        Phase::Serving => {}
                        // Further input of a watcher is ignored, as by memcached.
                        Phase::Watching(_) => break (input.len(), Status::NeedInput),
                        Phase::Closing => break (input.len(), Status::Close),
                    }
                }
            }
        };
        Progress { consumed: at, status }
    }

    /// Answers a request outside of batches. Returns a status if it has to come again.
    #[inline(never)]
    fn answer_unbatched(
        &mut self,
        request: impl Unbatched,
        requests_left: &mut u32,
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Option<Status> {
        if context.worker.is_spent() {
            return Some(Status::TurnOver);
        }
        let bytes = request.room();
        if output.room() < bytes {
            return Some(Status::NeedOutput { bytes });
        }
        if request.is_administration() {
            context.charge_administration(requests_left);
        }
        request.answer(self, output, context)
    }

    /// Discards the rest of a refused body. Returns how many bytes of the input belong to it.
    #[inline]
    fn swallow(&mut self, input: &[u8]) -> usize {
        let Awaits::Refused { bytes } = self.awaits else {
            return 0;
        };
        let there = bytes.min(input.len() as u64);
        self.awaits = match bytes - there {
            0 => Awaits::Request,
            bytes => Awaits::Refused { bytes },
        };
        there as usize
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
