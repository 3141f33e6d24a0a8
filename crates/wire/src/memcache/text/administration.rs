//! Commands that do not address one item.

use super::command::{Command, ShutdownHow};
use super::number::{signed, unsigned};
use super::operator::Operator;
use super::parser::{BAD_EXPTIME, key, noreply};
use super::refusal::{BAD_FORMAT, Refusal, Result};
use super::tokens::Words;

/// Returns `None` for an unknown command.
pub(super) fn administration<'a>(verb: &[u8], words: Words<'a>) -> Option<Result<Command<'a>>> {
    Some(match verb {
        b"flush_all" => flush_all(words),
        b"flush_namespace" => flush_namespace(words),
        b"verbosity" => verbosity(words),
        b"refresh_certs" => Ok(Command::RefreshCerts { noreply: noreply(words) }),
        b"version" => Ok(Command::Version),
        b"quit" => Ok(Command::Quit),
        b"shutdown" => Ok(shutdown(words)),
        b"stats" => Ok(Command::Stats { arguments: words.rest().trim_ascii() }),
        b"mn" => Ok(Command::MetaNoop),
        _ => Ok(Command::Operator { operator: Operator::of(verb)?, arguments: words.rest().trim_ascii() }),
    })
}

fn flush_namespace(mut words: Words<'_>) -> Result<Command<'_>> {
    let name = key(&mut words);
    let noreply = noreply(words);
    let name = name.map_err(|refusal| refusal.silent(noreply))?;
    Ok(Command::FlushNamespace { name, noreply })
}

fn verbosity(mut words: Words<'_>) -> Result<Command<'_>> {
    let level = words.next().ok_or(BAD_FORMAT)?;
    let noreply = level == b"noreply" || noreply(words);
    let level = unsigned(level).and_then(|level| u32::try_from(level).ok());
    let level = level.ok_or(Refusal::of(BAD_FORMAT).silent(noreply))?;
    Ok(Command::Verbosity { level, noreply })
}

/// Accepts any argument. An unknown one is refused at execution, after the check whether shutdown
/// is enabled.
fn shutdown(words: Words<'_>) -> Command<'_> {
    let noreply = noreply(words);
    let how = match words.rest().trim_ascii() {
        b"" => ShutdownHow::AtOnce,
        b"graceful" => ShutdownHow::Gracefully,
        _ => ShutdownHow::Unknown,
    };
    Command::Shutdown { how, noreply }
}

fn flush_all(mut words: Words<'_>) -> Result<Command<'_>> {
    let noreply = noreply(words);
    let delay_s = match words.next() {
        None => 0,
        Some(b"noreply") if words.clone().next().is_none() => 0,
        Some(word) => match signed(word) {
            Some(delay_s) => delay_s.into(),
            None => return Err(Refusal::of(BAD_EXPTIME).silent(noreply)),
        },
    };
    Ok(Command::FlushAll { delay_s, noreply })
}
