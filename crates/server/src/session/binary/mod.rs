//! The conversation in the binary protocol: the same batches, other words.
//!
//! The reply to a store tells the new CAS value, which the engine says of its `Meta` operations.

mod answer;
mod gather;
mod sink;
#[cfg(test)]
mod tests;

use micanite_engine::BATCH_REQUESTS_MAX;
use micanite_wire::memcache::binary::reply::SHORT_BYTES_MAX;

use super::{Context, Progress, Session, Status, Unfinished};
use crate::limits::{INPUT_BYTES, OUTPUT_BYTES, STATS_PARTITIONS_MAX, STATS_REPLY_BYTES_MAX};
use crate::output::Output;
use gather::{Gather, Stop};
use sink::Sink;

/// The longest reply that is no value and no statistics.
const SHORT_REPLY_BYTES_MAX: usize = 280;
/// Room that a batch keeps for replies that are no values.
const BATCH_REPLY_BYTES: usize = BATCH_REQUESTS_MAX * SHORT_REPLY_BYTES_MAX;
/// Room for statistics, whose lines need a header each.
const STATS_ROOM_BYTES: usize = STATS_REPLY_BYTES_MAX + 24 * (3 * STATS_PARTITIONS_MAX + 200);

const _: () = assert!(SHORT_BYTES_MAX <= SHORT_REPLY_BYTES_MAX);
const _: () = assert!(STATS_ROOM_BYTES <= OUTPUT_BYTES);
// A value that came in one block of input can be answered from the output without a buffer.
const _: () = assert!(INPUT_BYTES + BATCH_REPLY_BYTES <= OUTPUT_BYTES);

impl Session {
    /// As [`Session::process`].
    pub(super) fn process_binary(
        &mut self,
        input: &[u8],
        requests_left: &mut u32,
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Progress {
        let stopped = |consumed, status| Progress { consumed, status };
        let mut gather = Gather::new(input, self.swallow(input));
        loop {
            let stop = gather.fill(requests_left, context);
            let ran = run(&gather, output, context);
            self.keys += match &ran {
                Ok(()) => gather.requests.len(),
                Err(unfinished) => unfinished.index,
            };
            if let Err(Unfinished { index, status }) = ran {
                return stopped(gather.pending[index].at, status);
            }
            gather.clear();
            match stop {
                Stop::Full => {}
                Stop::Incomplete => return stopped(gather.at, Status::NeedInput),
                Stop::BodyIncomplete => {
                    self.awaits_body = true;
                    return stopped(gather.at, Status::NeedInput);
                }
                Stop::TurnOver => return stopped(gather.at, Status::TurnOver),
                Stop::Body { .. } if context.worker.is_spent() => {
                    return stopped(gather.at, Status::TurnOver);
                }
                Stop::Body { bytes } => return stopped(gather.at, Status::NeedBody { bytes }),
                Stop::Aside { aside, .. } if self.authenticates_again(&aside, context) => {
                    return stopped(gather.at, Status::TurnOver);
                }
                Stop::Aside { .. } if context.worker.is_spent() => {
                    return stopped(gather.at, Status::TurnOver);
                }
                Stop::Aside { aside, bytes } => {
                    let room = aside.room();
                    if output.room() < room {
                        return stopped(gather.at, Status::NeedOutput { bytes: room });
                    }
                    if aside.is_administration() {
                        context.charge_administration(requests_left);
                    }
                    self.answer_binary(aside, output, context);
                    gather.at += bytes;
                    gather.at += self.swallow(&input[gather.at..]);
                    if self.closing {
                        return stopped(input.len(), Status::Close);
                    }
                }
            }
        }
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
    if output.room() < requests.len() * SHORT_REPLY_BYTES_MAX {
        return Err(Unfinished::no_room(0, BATCH_REPLY_BYTES));
    }
    let mut sink = Sink::new(requests, &gather.pending, output, context.counters);
    let done = context.execute(requests, &mut sink);
    let bytes = sink.bytes_needed();
    match done == requests.len() {
        true => Ok(()),
        false if context.worker.is_spent() => Err(Unfinished::spent(done)),
        false => Err(Unfinished::no_room(done, bytes)),
    }
}
