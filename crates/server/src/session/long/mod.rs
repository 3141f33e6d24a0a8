//! Replies that may be longer than the output, or take longer than a turn should. They are made in steps.
//! Until the last one, the command stays at the start of the input, and the session keeps its progress.

use micanite_engine::{Walk, Walked};
use micanite_wire::memcache::text::{Command, Operator, reply};

use super::text::{Classes, Unbatched, split};
use super::{Context, Phase, Session, Status};
use crate::limits::{LONG_REPLY_BUCKETS, STATS_REPLY_BYTES_MAX};
use crate::output::Output;
use crate::telemetry::stats::{ConnectionsProgress, Lines, Sizes, connections};
use crate::telemetry::watch::Kinds;

mod cachedump;
mod dump;

use cachedump::CacheDump;
use dump::{Dump, Keys};

/// A reply that was begun.
#[derive(Debug)]
pub(super) enum LongReply {
    /// `lru_crawler metadump` and `mgdump`.
    Dump { keys: Keys, walk: Walk },
    /// `stats cachedump`, with the number of items left.
    CacheDump { walk: Walk, left: u64 },
    /// `stats sizes`.
    Sizes(Box<Sizes>),
    /// `stats conns`.
    Connections(ConnectionsProgress),
    /// `stats detail dump`, up to this prefix.
    Prefixes(Vec<u8>),
}

/// Result of a step.
pub(super) enum Answered {
    /// The reply is not made in steps.
    Elsewhere,
    /// The reply is complete.
    Done,
    /// More steps follow.
    More(Status),
}

impl Session {
    /// Begins or continues a long reply. The output has room for [`STATS_REPLY_BYTES_MAX`].
    #[cold]
    pub(super) fn answer_long(
        &mut self,
        request: &Unbatched<'_>,
        output: &mut Output<'_>,
        context: &Context<'_>,
    ) -> Answered {
        if let Unbatched::Command(Command::Operator { operator: Operator::Watch, arguments }) = request {
            self.watch(arguments, output, context);
            return Answered::Done;
        }
        let mut long = match self.long.take() {
            Some(long) => long,
            None => match begin(request, output, context) {
                Ok(long) => long,
                Err(answered) => return answered,
            },
        };
        match long.step(output, context) {
            None => Answered::Done,
            Some(status) => {
                self.long = Some(long);
                Answered::More(status)
            }
        }
    }
}

impl Session {
    /// Makes the client a watcher of the kinds that its words name.
    fn watch(&mut self, arguments: &[u8], output: &mut Output<'_>, context: &Context<'_>) {
        if context.server.settings.switches.no_watch {
            return output.push(b"CLIENT_ERROR watch commands not allowed\r\n");
        }
        let Some(kinds) = Kinds::of(split(arguments)) else {
            return output.push(reply::ERROR);
        };
        let watch = &context.shared.watch;
        let Some(watcher) = watch.begin(kinds) else {
            return output.push(b"SERVER_ERROR too many watchers\r\n");
        };
        self.phase = Phase::Watching(watcher);
        let evictions = watch.wanted().any(Kinds::EVICTIONS);
        context.shared.cache.notify_evictions(evictions);
        output.push(reply::OK);
    }
}

fn begin(
    request: &Unbatched<'_>,
    output: &mut Output<'_>,
    context: &Context<'_>,
) -> Result<LongReply, Answered> {
    match request {
        Unbatched::Command(Command::Operator { operator: Operator::LruCrawler, arguments }) => {
            begin_dump(arguments, output, context)
        }
        Unbatched::Command(Command::Stats { arguments }) => begin_stats(arguments, output, context),
        _ => Err(Answered::Elsewhere),
    }
}

fn begin_stats(
    arguments: &[u8],
    output: &mut Output<'_>,
    context: &Context<'_>,
) -> Result<LongReply, Answered> {
    let mut words = split(arguments);
    match (words.next(), words.next()) {
        (Some(b"sizes"), _) => match Sizes::begin(context.server) {
            Some(sizes) => Ok(LongReply::Sizes(Box::new(sizes))),
            None => {
                output.push(b"SERVER_ERROR stats sizes is at work for another client\r\n");
                Err(Answered::Done)
            }
        },
        (Some(b"conns"), _) => Ok(LongReply::Connections(ConnectionsProgress::default())),
        (Some(b"cachedump"), _) => {
            let is_allowed = !context.server.settings.switches.no_dump;
            cachedump::begin(split(arguments).skip(1), is_allowed, output)
        }
        (Some(b"detail"), Some(b"dump")) if !context.server.settings.switches.no_dump => {
            Ok(LongReply::Prefixes(Vec::new()))
        }
        _ => Err(Answered::Elsewhere),
    }
}

fn begin_dump(
    arguments: &[u8],
    output: &mut Output<'_>,
    context: &Context<'_>,
) -> Result<LongReply, Answered> {
    let mut words = split(arguments);
    let keys = match words.next() {
        Some(b"metadump") => Keys::WithMeta,
        Some(b"mgdump") => Keys::Only,
        _ => return Err(Answered::Elsewhere),
    };
    if context.server.settings.switches.no_dump {
        output.push(match keys {
            Keys::WithMeta => b"ERROR metadump not allowed\r\n".as_slice(),
            Keys::Only => b"ERROR key dump not allowed\r\n",
        });
        return Err(Answered::Done);
    }
    let (Some(classes), rest) = (words.next(), words.next()) else {
        return Err(Answered::Elsewhere);
    };
    if rest.is_some() || words.next().is_some() {
        return Err(Answered::Elsewhere);
    }
    let all = Classes { all_items: true };
    let chosen = match classes {
        b"hash" => Some(all),
        classes => Classes::of(classes),
    };
    let Some(chosen) = chosen else {
        output.push(b"BADCLASS invalid class id\r\n");
        return Err(Answered::Done);
    };
    output.push(reply::OK);
    if !chosen.all_items {
        output.push(keys.end());
        return Err(Answered::Done);
    }
    Ok(LongReply::Dump { keys, walk: Walk::default() })
}

/// Ends a report, if there is no more of it.
fn full_or_end(more: bool, output: &mut Output<'_>) -> Walked {
    if more {
        return Walked::Full;
    }
    output.push(reply::END);
    Walked::End
}

impl LongReply {
    /// Makes the next step. Returns why it stopped, or `None` at the end of the reply.
    fn step(&mut self, output: &mut Output<'_>, context: &Context<'_>) -> Option<Status> {
        let worker = &*context.worker;
        let more = match self {
            Self::Dump { keys, walk } => {
                let mut dump = Dump::new(*keys, output);
                let walked = worker.walk(walk, LONG_REPLY_BUCKETS, context.now_s, &mut dump);
                if walked == Walked::End {
                    output.push(keys.end());
                }
                walked
            }
            Self::CacheDump { walk, left } => {
                let mut dump = CacheDump::new(left, output);
                let walked = worker.walk(walk, LONG_REPLY_BUCKETS, context.now_s, &mut dump);
                if walked == Walked::End || *left == 0 {
                    output.push(reply::END);
                    Walked::End
                } else {
                    walked
                }
            }
            Self::Sizes(sizes) => sizes.step(worker, context.now_s, output),
            Self::Connections(progress) => {
                let mut lines = Lines::new(output);
                let more = connections(progress, context.server, context.now_s, &mut lines);
                full_or_end(more, output)
            }
            Self::Prefixes(last) => {
                let more = context.shared.prefixes.tell(last, output);
                full_or_end(more, output)
            }
        };
        match more {
            Walked::End => None,
            Walked::Buckets => Some(Status::TurnOver),
            Walked::Full => Some(Status::NeedOutput { bytes: STATS_REPLY_BYTES_MAX }),
        }
    }
}
