//! Requests of the text protocol that are answered outside of batches: administration, refused lines
//! and bodies.

use micanite_engine::{Operation, Outcome, ReplySink, Request, Semantics, ValueMeta};
use micanite_wire::memcache::text::meta::base64::{DECODED_BYTES_MAX, decode};
use micanite_wire::memcache::text::{Command, ShutdownHow, StoreVerb, expiry, reply};

use super::super::long::Answered;
use super::super::{Awaits, Context, Phase, Session, Status, batch};
use super::meta::{META_REPLY_BYTES_MAX, SingleMeta};
use super::operator;
use crate::limits::{SHORT_REPLY_BYTES_MAX, STATS_REPLY_BYTES_MAX};
use crate::output::Output;
use crate::shared::Ending;
use crate::telemetry::stats;

/// A request that is answered outside of batches.
#[derive(Debug)]
pub(in crate::session) enum Unbatched<'i> {
    /// Administration.
    Command(Command<'i>),
    /// The end of a get line without further keys.
    EndOfGet,
    /// A line that the parser refuses.
    Refused { reply: &'static str, swallow_bytes: u64, close: bool },
    /// A value that is longer than the largest.
    TooLarge { verb: StoreVerb, key: &'i [u8], value_bytes: usize, noreply: bool },
    /// A body whose end is not where its length says.
    BadChunk { noreply: bool },
    /// A meta command that is a batch of one.
    Meta(SingleMeta<'i>),
    /// An ms with a value that is longer than the largest, and its key as sent.
    MetaTooLarge { key: &'i [u8], base64: bool, body_bytes: usize },
}

impl batch::Unbatched for Unbatched<'_> {
    fn is_administration(&self) -> bool {
        match self {
            Self::Command(command) => !matches!(
                command,
                Command::MetaNoop | Command::Version | Command::Quit | Command::Verbosity { .. }
            ),
            _ => false,
        }
    }

    fn room(&self) -> usize {
        match self {
            Self::Command(
                Command::Stats { .. } | Command::Operator { .. } | Command::RefreshCerts { .. },
            ) => STATS_REPLY_BYTES_MAX,
            Self::Meta(_) => META_REPLY_BYTES_MAX,
            _ => SHORT_REPLY_BYTES_MAX,
        }
    }

    fn answer(
        self,
        session: &mut Session,
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Option<Status> {
        if let Self::Meta(single) = self {
            return single.execute(output, context).err();
        }
        match session.answer_long(&self, output, context) {
            Answered::Elsewhere => session.answer(self, output, context),
            Answered::Done => {}
            Answered::More(status) => return Some(status),
        }
        None
    }
}

impl Session {
    #[inline(never)]
    fn answer(&mut self, request: Unbatched<'_>, output: &mut Output<'_>, context: &mut Context<'_>) {
        match request {
            Unbatched::Command(command) => self.command(command, output, context),
            Unbatched::EndOfGet => output.push(reply::END),
            Unbatched::Refused { reply, swallow_bytes, close } => {
                output.push(reply.as_bytes());
                self.awaits = Awaits::Refused { bytes: swallow_bytes };
                if close {
                    self.phase = Phase::Closing;
                }
            }
            Unbatched::TooLarge { verb, key, value_bytes, noreply } => {
                let is_cache = context.server.settings.semantics == Semantics::Cache;
                if verb == StoreVerb::Set && is_cache {
                    // The client believes that it has replaced the old value. A store keeps what it
                    // has acknowledged.
                    delete(key, context);
                }
                context.counters.store_too_large.add(1);
                say(reply::TOO_LARGE, noreply, output);
                self.awaits = Awaits::Refused { bytes: value_bytes as u64 + 2 };
            }
            Unbatched::BadChunk { noreply } => {
                context.counters.cmd_set.add(1);
                say(reply::BAD_CHUNK, noreply, output);
            }
            Unbatched::MetaTooLarge { key, base64, body_bytes } => {
                let is_cache = context.server.settings.semantics == Semantics::Cache;
                let mut decoded = [0; DECODED_BYTES_MAX];
                let key = if base64 { decode(key, &mut decoded) } else { Some(key) };
                if let Some(key) = key.filter(|_| is_cache) {
                    delete(key, context); // as above
                }
                context.counters.store_too_large.add(1);
                output.push(reply::TOO_LARGE);
                self.awaits = Awaits::Refused { bytes: body_bytes as u64 };
            }
            Unbatched::Meta(_) => unreachable!("executed as a batch of one"),
        }
    }

    fn command(&mut self, command: Command<'_>, output: &mut Output<'_>, context: &mut Context<'_>) {
        match command {
            Command::MetaNoop => output.push(reply::META_NOOP),
            Command::Version => {
                for part in ["VERSION ", crate::VERSION, "\r\n"] {
                    output.push(part.as_bytes());
                }
            }
            Command::Quit => self.phase = Phase::Closing,
            Command::FlushAll { noreply, .. } | Command::FlushNamespace { noreply, .. }
                if context.server.settings.switches.no_flush =>
            {
                context.counters.cmd_flush.add(1);
                say(FLUSH_REFUSED, noreply, output);
            }
            Command::FlushAll { delay_s, noreply } => {
                flush_all(delay_s, context);
                say(reply::OK, noreply, output);
            }
            Command::FlushNamespace { name, noreply } => {
                say(flush_namespace(name, context), noreply, output);
            }
            Command::Verbosity { level, noreply } => {
                context.server.set_verbosity(level);
                say(reply::OK, noreply, output);
            }
            Command::RefreshCerts { noreply } => refresh_certs(noreply, output, context),
            Command::Shutdown { how, noreply } => match ending(how, context) {
                Ok(ending) => {
                    context.server.end(ending);
                    self.phase = Phase::Closing;
                }
                Err(refusal) => say(refusal, noreply, output),
            },
            Command::Stats { arguments } => report(arguments, output, context),
            Command::Operator { operator, arguments } => {
                operator::answer(operator, arguments, output, context)
            }
            Command::Get { .. }
            | Command::GetAndTouch { .. }
            | Command::Store { .. }
            | Command::Delete { .. }
            | Command::Arithmetic { .. }
            | Command::Touch { .. }
            | Command::Meta(_) => unreachable!("executed in a batch"),
        }
    }
}

/// Returns how the server is to end, or why it does not.
fn ending(how: ShutdownHow, context: &Context<'_>) -> Result<Ending, &'static [u8]> {
    match how {
        _ if !context.server.settings.shutdown_enabled => Err(reply::SHUTDOWN_DISABLED),
        ShutdownHow::AtOnce => Ok(Ending::AtOnce),
        ShutdownHow::Gracefully => Ok(Ending::Gracefully),
        ShutdownHow::Unknown => Err(reply::SHUTDOWN_MODE),
    }
}

pub(super) fn say(reply: &[u8], noreply: bool, output: &mut Output<'_>) {
    if !noreply {
        output.push(reply);
    }
}

/// Flushes all items. Zero and negative delays flush at once; a time before the start of the server flushes
/// nothing (as in memcached 1.6.45).
pub(in crate::session) fn flush_all(delay_s: i64, context: &mut Context<'_>) {
    context.counters.cmd_flush.add(1);
    let at_s = match delay_s {
        ..=0 => context.now_s,
        later => expiry(later, context.now_s),
    };
    if at_s >= context.server.started_s {
        context.worker.flush_all(at_s, context.now_s);
    }
}

/// Has the certificates loaded again. Connections of this worker wait for it: a few milliseconds, or
/// [`REFRESH_TIME`](crate::limits::REFRESH_TIME) if a file blocks, and at most once a second.
fn refresh_certs(noreply: bool, output: &mut Output<'_>, context: &Context<'_>) {
    const BYTES_MAX: usize = 1024;
    let refreshed = match context.server.tls.as_ref().zip(context.server.reloader.get()) {
        None => Err("Error TLS not enabled".into()),
        Some((tls, reloader)) => tls.admit_client(context.now_s).and_then(|()| reloader.read_certificates()),
    };
    match refreshed {
        Ok(()) => say(reply::OK, noreply, output),
        Err(what) if !noreply => {
            let what = what.as_bytes();
            output.push(&what[..what.len().min(BYTES_MAX)]);
            output.push(b"\r\n");
        }
        Err(_) => {}
    }
}

fn flush_namespace(name: &[u8], context: &mut Context<'_>) -> &'static [u8] {
    if name.contains(&context.server.settings.namespace_delimiter) {
        return reply::BAD_NAMESPACE;
    }
    match context.worker.invalidate_namespace(name, context.now_s) {
        Ok(()) => {
            context.counters.cmd_flush_namespace.add(1);
            reply::OK
        }
        Err(_) => reply::TOO_MANY_NAMESPACES,
    }
}

pub(in crate::session) fn report(arguments: &[u8], output: &mut Output<'_>, context: &Context<'_>) {
    let mut words = arguments.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    match words.next() {
        None => stats::general(context.server, context.now_s, output),
        Some(b"settings") => stats::settings(context.server, output),
        Some(b"partitions") => stats::partitions(context.shared, output),
        Some(b"native") => stats::native(context.shared, output),
        Some(b"kernel") => stats::kernel(context.server, output),
        Some(b"local") => stats::local(context.server, output),
        Some(b"numa") => stats::numa(context.server, output),
        Some(b"fabric") => stats::fabric(context.server, output),
        Some(b"udp") => stats::udp(context.server, output),
        Some(b"items") => stats::items(context.server, context.now_s, output),
        Some(b"slabs") => stats::slabs(context.server, context.now_s, output),
        // Empty over UDP, where no reply is made in steps. There is no external storage, and no proxy.
        Some(b"sizes" | b"conns" | b"extstore" | b"proxy" | b"proxyfuncs") => {}
        Some(b"reset") => {
            context.server.reset();
            context.shared.prefixes.clear();
            return output.push(reply::RESET);
        }
        Some(b"detail") => return output.push(detail(words.next(), context)),
        Some(b"cachedump") => return output.push(b"CLIENT_ERROR bad command line\r\n"),
        Some(_) => return output.push(reply::ERROR),
    }
    output.push(reply::END);
}

/// Reply with -F.
const FLUSH_REFUSED: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";
/// Reply with -X.
const DETAIL_REFUSED: &[u8] = b"CLIENT_ERROR stats detail not allowed\r\n";

/// Answers `stats detail on` and `off`.
fn detail(word: Option<&[u8]>, context: &Context<'_>) -> &'static [u8] {
    let shared = context.shared;
    match word {
        _ if context.server.settings.switches.no_dump => return DETAIL_REFUSED,
        Some(b"on") => {
            shared.prefixes.prepare();
            shared.watch.set_prefixes(true);
        }
        Some(b"off") => shared.watch.set_prefixes(false),
        _ => return b"CLIENT_ERROR usage: stats detail on|off|dump\r\n",
    }
    reply::OK
}

/// Deletes an item, and ignores the outcome.
pub(in crate::session) fn delete(key: &[u8], context: &mut Context<'_>) {
    let request = Request { hash: context.hash(key), key, operation: Operation::Delete };
    context.execute(&[request], &mut Ignored);
}

/// Ignores replies.
struct Ignored;

impl ReplySink for Ignored {
    fn reserve(&mut self, _: usize, _: ValueMeta) -> Option<&mut [u8]> {
        None
    }
    fn rollback(&mut self, _: usize) {}
    fn finish(&mut self, _: usize, _: Outcome) {}
}
