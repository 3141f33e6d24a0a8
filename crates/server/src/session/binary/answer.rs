//! What is not for a batch: administration, refusals, requests of several steps.

use micanite_engine::Semantics;
use micanite_wire::memcache::binary::reply::{self, Status};
use micanite_wire::memcache::binary::{Command, Head, Store};
use micanite_wire::memcache::text;

use super::super::answer::{delete, flush_all, report};
use super::sink::fail;
use super::{Context, SHORT_REPLY_BYTES_MAX, STATS_ROOM_BYTES, Session};
use crate::limits::STATS_REPLY_BYTES_MAX;
use crate::output::Output;
use crate::security::auth::Auth;

/// A request that is answered between batches.
#[derive(Debug)]
pub(super) enum Aside<'i> {
    /// A command.
    Command { command: Command<'i>, head: Head },
    /// A request that the parser refuses.
    Refused { status: Status, head: Head, swallow_bytes: u64, close: bool },
    /// A value that is longer than the largest.
    TooLarge { store: Store<'i>, head: Head },
    /// No request at all.
    BadMagic,
}

impl Aside<'_> {
    /// Whether it may take as long as many requests do.
    pub fn is_administration(&self) -> bool {
        matches!(self, Self::Command { command: Command::Flush { .. } | Command::Stat { .. }, .. })
    }

    /// Room for the reply.
    pub fn room(&self) -> usize {
        match self {
            Self::Command { command: Command::Stat { .. }, .. } => STATS_ROOM_BYTES,
            _ => SHORT_REPLY_BYTES_MAX,
        }
    }
}

impl Session {
    /// Whether a request is SASL's, which somebody who is known may use as well: then it is
    /// dealt with as that of somebody who is not.
    pub(super) fn authenticates_again(&mut self, aside: &Aside<'_>, context: &Context<'_>) -> bool {
        let Aside::Refused { head, .. } = aside else {
            return false;
        };
        let has_sasl = context.server.auth.as_ref().is_some_and(Auth::sasl);
        let again = has_sasl && (0x20..=0x22).contains(&head.opcode);
        if again {
            self.ask_again(head.opcode == 0x20);
        }
        again
    }

    #[inline(never)]
    pub(super) fn answer_binary(
        &mut self,
        aside: Aside<'_>,
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) {
        match aside {
            Aside::Command { command, head } => {
                self.command_binary(command, head, output, context);
            }
            Aside::Refused { status, head, swallow_bytes, close } => {
                fail(output, head, status);
                self.swallow_bytes = swallow_bytes;
                self.closing = close;
            }
            Aside::TooLarge { store, head } => {
                let is_cache = context.server.settings.semantics == Semantics::Cache;
                let sets = matches!(head.opcode, 0x01 | 0x11);
                if sets && is_cache {
                    // As with text: the client believes that the old value has gone.
                    delete(store.key, context);
                }
                context.counters.store_too_large.add(1);
                fail(output, head, Status::TooLarge);
                self.swallow_bytes = store.value_bytes as u64;
            }
            Aside::BadMagic => self.closing = true,
        }
    }

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
                self.closing = true;
            }
            Command::Stat { arguments } => statistics(arguments, head, output, context),
            Command::Get { .. }
            | Command::Store(_)
            | Command::Delete { .. }
            | Command::Arithmetic(_)
            | Command::Touch { .. } => unreachable!("gathered for the engine"),
        }
    }
}

/// The lines of the text protocol, each in a reply of its own.
fn statistics(arguments: &[u8], head: Head, output: &mut Output<'_>, context: &Context<'_>) {
    let mut bytes = vec![0; STATS_REPLY_BYTES_MAX];
    let mut lines = Output::new(&mut bytes, 0);
    let mut words = arguments.split(|byte| *byte == b' ');
    match (words.next(), words.next()) {
        // memcached does not know it here either.
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

/// `stats detail dump`, which is one statistic.
fn prefixes(mut lines: Output<'_>, head: Head, output: &mut Output<'_>, context: &Context<'_>) {
    if context.shared.prefixes.tell(&mut Vec::new(), &mut lines) {
        return fail(output, head, Status::TooLarge);
    }
    lines.push(text::reply::END);
    output.push_with(|out| reply::statistic(out, head, b"detailed", lines.since(0)));
    output.push_with(|out| reply::statistic(out, head, &[], &[]));
}

/// What ends a report, or says that it was done.
const ENDS: [&[u8]; 3] = [
    text::reply::END.trim_ascii_end(),
    text::reply::RESET.trim_ascii_end(),
    text::reply::OK.trim_ascii_end(),
];
