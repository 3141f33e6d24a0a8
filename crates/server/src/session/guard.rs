//! Authentication (`-Y`, `-S`). Until a client has authenticated, nothing is executed or revealed.
//!
//! In the text protocol the only command is memcached's: a `set` of any key whose value is `user
//! password`. In the binary protocol it is SASL PLAIN. Once a client has authenticated, its guard opens and
//! the session goes on as any other.

use std::net::IpAddr;

use micanite_wire::memcache::binary::reply::{self as binary_reply, Status as BinaryStatus};
use micanite_wire::memcache::binary::{SaslStep, plain, sasl_step};
use micanite_wire::memcache::text::{TextAuth, reply, text_auth};

use super::{Context, Phase, Progress, Protocol, Session, Status};
use crate::limits::AUTH_FAILURES_OF_CONNECTION;
use crate::output::Output;
use crate::security::auth::Verdict;

/// Room for any reply to an unauthenticated client.
const REPLY_BYTES_MAX: usize = 256;

/// State of a client's authentication. By default the guard is open.
#[derive(Debug, Default)]
pub(super) struct Guard {
    is_shut: bool,
    has_authenticated: bool,
    /// The client has authenticated, and has only asked for the mechanisms: the guard opens again.
    only_lists: bool,
    /// SASL began without a response, which follows.
    has_begun: bool,
    failures: u32,
    /// Address of the client, if it has one.
    source: Option<IpAddr>,
}

impl Guard {
    #[inline]
    pub fn is_shut(&self) -> bool {
        self.is_shut
    }

    /// Returns whether the client has to authenticate, and never has.
    pub fn never_authenticated(&self) -> bool {
        self.is_shut && !self.has_authenticated
    }
}

/// Result of a request to the guard.
enum Done {
    /// The request is not complete.
    Incomplete,
    /// The request was answered. It took so many bytes.
    Bytes(usize),
    /// The connection is to be closed.
    Close,
}

impl Session {
    /// Makes a session of a client from `source` that has to authenticate first.
    pub fn guarded(source: Option<IpAddr>) -> Self {
        Self { guard: Guard { is_shut: true, source, ..Guard::default() }, ..Self::default() }
    }

    /// Processes input of an unauthenticated client, as [`Session::process`].
    #[cold]
    pub(super) fn process_guarded(
        &mut self,
        input: &[u8],
        requests_left: &mut u32,
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Progress {
        let mut at = 0;
        while self.guard.is_shut {
            let stopped = |status| Progress { consumed: at, status };
            let rest = &input[at..];
            if rest.is_empty() {
                return stopped(Status::NeedInput);
            }
            if output.room() < REPLY_BYTES_MAX {
                return stopped(Status::NeedOutput { bytes: REPLY_BYTES_MAX });
            }
            if *requests_left == 0 {
                return stopped(Status::TurnOver);
            }
            let done = match self.protocol {
                Protocol::Binary => self.authenticate_binary(rest, output, context),
                _ => self.authenticate_text(rest, output, context),
            };
            match done {
                Done::Incomplete => return stopped(Status::NeedInput),
                Done::Bytes(bytes) => at += bytes,
                Done::Close => {
                    self.phase = Phase::Closing;
                    return Progress { consumed: input.len(), status: Status::Close };
                }
            }
            *requests_left -= 1;
        }
        let progress = self.process(&input[at..], false, requests_left, output, context);
        Progress { consumed: at + progress.consumed, ..progress }
    }

    /// Makes a client authenticate again before it may go on. `only_lists`: it has asked only for the
    /// mechanisms, which changes nothing.
    pub(super) fn authenticate_again(&mut self, only_lists: bool) {
        self.guard.is_shut = true;
        self.guard.only_lists = only_lists;
    }

    fn authenticate_text(
        &mut self,
        input: &[u8],
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Done {
        let (reply, bytes) = match text_auth(input) {
            TextAuth::Incomplete => return Done::Incomplete,
            TextAuth::Close => return Done::Close,
            TextAuth::Refused { reply, bytes } => (reply, bytes),
            TextAuth::Try { user, password, bytes } => match self.attempt(user, password, context) {
                true => (reply::STORED, bytes),
                false => (reply::AUTH_FAILURE, bytes),
            },
        };
        output.push(reply);
        self.done(bytes)
    }

    fn authenticate_binary(
        &mut self,
        input: &[u8],
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Done {
        use micanite_wire::memcache::binary::HEADER_BYTES;
        let step = sasl_step(input);
        let has_sasl = context.server.auth.as_ref().is_some_and(|auth| auth.sasl());
        match step {
            SaslStep::Incomplete => Done::Incomplete,
            SaslStep::BadMagic => Done::Close,
            SaslStep::List(head) if has_sasl => {
                output.push_with(|out| binary_reply::body(out, head, b"PLAIN", 0));
                self.guard.is_shut = !std::mem::take(&mut self.guard.only_lists);
                Done::Bytes(HEADER_BYTES)
            }
            SaslStep::Version(head) if has_sasl => {
                let version = crate::VERSION.as_bytes();
                output.push_with(|out| binary_reply::body(out, head, version, 0));
                Done::Bytes(HEADER_BYTES)
            }
            SaslStep::Try { head, mechanism, response, continues, bytes } if has_sasl => {
                let begun = std::mem::take(&mut self.guard.has_begun);
                let is_plain = mechanism == b"PLAIN" && (begun || !continues);
                if is_plain && response.is_empty() && !continues {
                    self.guard.has_begun = true;
                    let status = BinaryStatus::AuthContinue;
                    output.push_with(|out| binary_reply::error(out, head, status));
                    return Done::Bytes(bytes);
                }
                let (user, password) = plain(response).filter(|_| is_plain).unwrap_or_default();
                if self.attempt(user, password, context) {
                    output.push_with(|out| binary_reply::body(out, head, b"Authenticated", 0));
                } else {
                    let status = BinaryStatus::AuthError;
                    output.push_with(|out| binary_reply::error(out, head, status));
                }
                self.done(bytes)
            }
            SaslStep::TooLong(head) if has_sasl => {
                let status = BinaryStatus::Invalid;
                output.push_with(|out| binary_reply::error(out, head, status));
                Done::Close
            }
            SaslStep::List(head)
            | SaslStep::Version(head)
            | SaslStep::Try { head, .. }
            | SaslStep::TooLong(head)
            | SaslStep::Other(head) => {
                let status = BinaryStatus::AuthError;
                output.push_with(|out| binary_reply::error(out, head, status));
                Done::Close
            }
        }
    }

    /// Ends a request. A client with too many failures is disconnected.
    fn done(&self, bytes: usize) -> Done {
        if self.guard.failures >= AUTH_FAILURES_OF_CONNECTION { Done::Close } else { Done::Bytes(bytes) }
    }

    /// Opens the guard if user and password are right.
    fn attempt(&mut self, user: &[u8], password: &[u8], context: &Context<'_>) -> bool {
        let counters = context.counters;
        counters.auth_cmds.add(1);
        let guard = &mut self.guard;
        let verdict = match &context.server.auth {
            Some(auth) => auth.check(user, password, guard.source, context.now_s),
            None => Verdict::Wrong,
        };
        match verdict {
            Verdict::Welcome => {
                guard.is_shut = false;
                guard.has_authenticated = true;
                guard.failures = 0;
                return true;
            }
            Verdict::Wrong => guard.failures += 1,
            Verdict::Limited => {
                counters.auth_limited.add(1);
                guard.failures = AUTH_FAILURES_OF_CONNECTION;
            }
        }
        counters.auth_errors.add(1);
        false
    }
}
