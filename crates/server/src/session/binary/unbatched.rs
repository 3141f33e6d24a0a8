//! Requests of the binary protocol that are answered outside of batches: administration, refusals.

use micanite_engine::Semantics;
use micanite_wire::memcache::binary::reply::{self, Status};
use micanite_wire::memcache::binary::{Command, Head, Store};
use micanite_wire::memcache::text;

use super::super::text::{delete, flush_all, report};
use super::super::{Awaits, Context, Phase, Session, Status as SessionStatus, batch};
use super::reply::fail;
use super::{SHORT_REPLY_BYTES_MAX, STATS_ROOM_BYTES};
use crate::limits::STATS_REPLY_BYTES_MAX;
use crate::output::Output;
use crate::security::auth::Auth;

/// A request that is answered outside of batches.
#[derive(Debug)]
pub(in crate::session) enum Unbatched<'i> {
    Command {
        command: Command<'i>,
        head: Head,
    },
    /// A request that the parser refuses.
    Refused {
        status: Status,
        head: Head,
        swallow_bytes: u64,
        close: bool,
    },
    /// A value that is longer than the largest.
    TooLarge {
        store: Store<'i>,
        head: Head,
    },
    /// The input is no request.
    BadMagic,
}

impl batch::Unbatched for Unbatched<'_> {
    fn is_administration(&self) -> bool {
        matches!(self, Self::Command { command: Command::Flush { .. } | Command::Stat { .. }, .. })
    }

    fn room(&self) -> usize {
        match self {
            Self::Command { command: Command::Stat { .. }, .. } => STATS_ROOM_BYTES,
            _ => SHORT_REPLY_BYTES_MAX,
        }
    }

    #[inline(never)]
    fn answer(
        self,
        session: &mut Session,
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Option<SessionStatus> {
        match self {
            Self::Command { command, head } => session.command_binary(command, head, output, context),
            Self::Refused { head, .. } if is_sasl(head, context) => {
                // Comes again, to the guard.
                session.authenticate_again(head.opcode == 0x20);
                return Some(SessionStatus::TurnOver);
            }
            Self::Refused { status, head, swallow_bytes, close } => {
                fail(output, head, status);
                session.awaits = Awaits::Refused { bytes: swallow_bytes };
                if close {
                    session.phase = Phase::Closing;
                }
            }
            Self::TooLarge { store, head } => {
                let is_cache = context.server.settings.semantics == Semantics::Cache;
                let sets = matches!(head.opcode, 0x01 | 0x11);
                if sets && is_cache {
                    // As in the text protocol: the client believes that it has replaced the value.
                    delete(store.key, context);
                }
                context.counters.store_too_large.add(1);
                fail(output, head, Status::TooLarge);
                session.awaits = Awaits::Refused { bytes: store.value_bytes as u64 };
            }
            Self::BadMagic => session.phase = Phase::Closing,
        }
        None
    }
}

/// Returns whether a request is one of SASL, which clients may send again after they have
/// authenticated.
fn is_sasl(head: Head, context: &Context<'_>) -> bool {
    let has_sasl = context.server.auth.as_ref().is_some_and(Auth::sasl);
    has_sasl && (0x20..=0x22).contains(&head.opcode)
}

impl Session {
    fn command_binary(
        &mut self,
        command: Command<'_>,
        head: Head,
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) {
        let done = |quiet: bool, output: &mut Output<'_>| {
            if !quiet {
                output.push_with(|out| reply::done(out, head, 0));
            }
        };
        match command {
            Command::Flush { .. } if context.server.settings.switches.no_flush => {
                context.counters.cmd_flush.add(1);
                fail(output, head, Status::AuthError);
            }
            Command::Flush { delay_s, quiet } => {
                flush_all(delay_s.into(), context);
                done(quiet, output);
            }
            Command::Noop => done(false, output),
            Command::Version => {
                let version = crate::VERSION.as_bytes();
                output.push_with(|out| reply::body(out, head, version, 0));
            }
            Command::Quit { quiet } => {
                done(quiet, output);
                self.phase = Phase::Closing;
            }
            Command::Stat { arguments } => statistics(arguments, head, output, context),
            Command::Get { .. }
            | Command::Store(_)
            | Command::Delete { .. }
            | Command::Arithmetic(_)
            | Command::Touch { .. } => unreachable!("executed in a batch"),
        }
    }
}

/// Sends the lines of the text protocol, each in its own reply.
fn statistics(arguments: &[u8], head: Head, output: &mut Output<'_>, context: &Context<'_>) {
    let mut bytes = vec![0; STATS_REPLY_BYTES_MAX];
    let mut lines = Output::new(&mut bytes, 0);
    let mut words = arguments.split(|byte| *byte == b' ');
    match (words.next(), words.next()) {
        // As in memcached.
        (Some(b"conns"), _) => return fail(output, head, Status::NotFound),
        (Some(b"detail"), Some(b"dump")) if !context.server.settings.switches.no_dump => {
            return prefixes(lines, head, output, context);
        }
        _ => report(arguments, &mut lines, context),
    }
    for line in lines.since(0).split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(line) = line.strip_prefix(b"STAT ") {
            let name_bytes = line.iter().position(|byte| *byte == b' ');
            let (name, value) = line.split_at(name_bytes.unwrap_or(line.len()));
            let value = value.strip_prefix(b" ").unwrap_or(value);
            output.push_with(|out| reply::statistic(out, head, name, value));
        } else if ENDS.contains(&line) {
            return output.push_with(|out| reply::statistic(out, head, &[], &[]));
        } else if !line.is_empty() {
            return fail(output, head, Status::NotFound);
        }
    }
}

/// Answers `stats detail dump` as one statistic.
fn prefixes(mut lines: Output<'_>, head: Head, output: &mut Output<'_>, context: &Context<'_>) {
    if context.shared.prefixes.tell(&mut Vec::new(), &mut lines) {
        return fail(output, head, Status::TooLarge);
    }
    lines.push(text::reply::END);
    output.push_with(|out| reply::statistic(out, head, b"detailed", lines.since(0)));
    output.push_with(|out| reply::statistic(out, head, &[], &[]));
}

/// Last lines of reports.
const ENDS: [&[u8]; 3] = [
    text::reply::END.trim_ascii_end(),
    text::reply::RESET.trim_ascii_end(),
    text::reply::OK.trim_ascii_end(),
];
