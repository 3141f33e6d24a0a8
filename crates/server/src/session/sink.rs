//! Replies of a batch, straight from the engine into the output.

use micanite_engine::{ItemMeta, Outcome, ReplySink, Request, ValueMeta};
use micanite_wire::memcache::text::reply::{self, VALUE_HEADER_BYTES_MAX};

use super::gather::{Kind, Pending};
use crate::limits::SHORT_REPLY_BYTES_MAX;
use crate::output::Output;
use crate::telemetry::stats::{Counter, Counters};

// Every reply that is no value fits the room that is kept for it, `END` behind it included.
const _: () = assert!(reply::NOT_A_NUMBER.len() <= SHORT_REPLY_BYTES_MAX);
const _: () = assert!(reply::OUT_OF_MEMORY.len() <= SHORT_REPLY_BYTES_MAX);
const _: () = assert!(reply::NUMBER_BYTES_MAX <= SHORT_REPLY_BYTES_MAX);

/// What replies need to know beside their requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'i> {
    /// Where the commands stand.
    pub input: &'i [u8],
    /// The server's clock.
    pub now_s: u32,
    /// Keys were base64 there.
    pub base64: bool,
    /// Room that each request of the batch keeps for a reply that is no value.
    pub short_bytes: usize,
}

impl Around<'_> {
    /// Room for such replies to a whole batch.
    pub fn batch_bytes(&self) -> usize {
        micanite_engine::BATCH_REQUESTS_MAX * self.short_bytes
    }
}

/// Takes the replies of one batch.
#[derive(Debug)]
pub(super) struct Sink<'s, 'i, 'o> {
    pub(super) requests: &'s [Request<'i>],
    pub(super) pending: &'s [Pending],
    pub(super) around: Around<'i>,
    pub(super) output: &'s mut Output<'o>,
    counters: &'s Counters,
    /// Where the reply that is being written begins.
    pub(super) start: usize,
    pub(super) bytes_needed: usize,
    /// The item of a meta command.
    pub(super) item: ItemMeta,
}

impl<'s, 'i, 'o> Sink<'s, 'i, 'o> {
    /// The output must have room for a short reply to each request.
    #[inline]
    pub fn new(
        requests: &'s [Request<'i>],
        pending: &'s [Pending],
        around: Around<'i>,
        output: &'s mut Output<'o>,
        counters: &'s Counters,
    ) -> Self {
        Self {
            requests,
            pending,
            around,
            output,
            counters,
            start: 0,
            bytes_needed: 0,
            item: ItemMeta::default(),
        }
    }

    /// Whether there is room for a value, and for the replies to the requests behind it, of which
    /// any may be a meta command's. If so, the reply begins here.
    #[inline]
    pub(super) fn has_room(&mut self, index: usize, reply_bytes: usize) -> bool {
        let kept_bytes = (self.requests.len() - index) * self.around.short_bytes;
        if self.output.room() < reply_bytes + kept_bytes {
            self.bytes_needed = reply_bytes + self.around.batch_bytes();
            return false;
        }
        self.start = self.output.filled();
        true
    }

    /// How large an empty output has to be for the reply that had no room.
    pub fn bytes_needed(&self) -> usize {
        self.bytes_needed
    }
}

impl ReplySink for Sink<'_, '_, '_> {
    #[inline]
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        if self.pending[index].meta {
            return self.reserve_meta(index, meta.value_bytes);
        }
        let reply_bytes = VALUE_HEADER_BYTES_MAX + meta.value_bytes + 2;
        if !self.has_room(index, reply_bytes) {
            return None;
        }
        let request = &self.requests[index];
        let cas = match request.operation {
            micanite_engine::Operation::Get { cas } | micanite_engine::Operation::GetAndTouch { cas, .. } => {
                cas
            }
            _ => false,
        };
        self.output.push_with(|out| {
            let cas = cas.then_some(meta.cas);
            reply::value_header(out, request.key, meta.flags, meta.value_bytes, cas)
        });
        Some(self.output.give(meta.value_bytes))
    }

    fn rollback(&mut self, _: usize) {
        self.output.truncate(self.start);
    }

    #[inline]
    fn describe(&mut self, _: usize, item: ItemMeta) {
        self.item = item;
    }

    #[inline]
    fn finish(&mut self, index: usize, outcome: Outcome) {
        let pending = &self.pending[index];
        if pending.meta {
            // A number that the request has begun was neither there nor missed.
            let begun = matches!(outcome, Outcome::Number(_)) && self.item.created;
            if !begun {
                count(self.counters, pending.kind, outcome);
            }
            return self.finish_meta(index, outcome);
        }
        count(self.counters, pending.kind, outcome);
        if matches!(pending.kind, Kind::Get | Kind::GetAndTouch) {
            if outcome == Outcome::Hit {
                self.output.push(b"\r\n");
            }
            if pending.ends_get {
                self.output.push(reply::END);
            }
        } else if !pending.noreply {
            write(self.output, outcome);
        }
    }
}

/// Writes the reply to a request that asked for no value.
#[inline]
pub(super) fn write(output: &mut Output<'_>, outcome: Outcome) {
    output.push(match outcome {
        Outcome::Stored => reply::STORED,
        Outcome::NotStored => reply::NOT_STORED,
        Outcome::Exists => reply::EXISTS,
        Outcome::NotFound => reply::NOT_FOUND,
        Outcome::Deleted => reply::DELETED,
        Outcome::Touched => reply::TOUCHED,
        Outcome::NotANumber => reply::NOT_A_NUMBER,
        Outcome::TooLarge => reply::TOO_LARGE,
        // The cache has a waker, so owners are asked; and the engine waits by itself.
        Outcome::OutOfMemory | Outcome::NotOwner | Outcome::Busy => reply::OUT_OF_MEMORY,
        Outcome::Number(number) => {
            output.push_with(|out| reply::number(out, number));
            return;
        }
        // Only requests for a value end so, and their reply is the value.
        Outcome::Hit => return,
    });
}

/// Counts a request, as memcached does: gat is a get and a touch, and its hits are touches.
#[inline]
pub(crate) fn count(counters: &Counters, kind: Kind, outcome: Outcome) {
    let found = !matches!(outcome, Outcome::NotFound);
    let of = |hits: &Counter, misses: &Counter| if found { hits } else { misses }.add(1);
    match kind {
        Kind::Get => {
            counters.cmd_get.add(1);
            of(&counters.get_hits, &counters.get_misses);
        }
        Kind::GetAndTouch => {
            counters.cmd_get.add(1);
            counters.cmd_touch.add(1);
            of(&counters.touch_hits, &counters.touch_misses);
        }
        Kind::Touch => {
            counters.cmd_touch.add(1);
            of(&counters.touch_hits, &counters.touch_misses);
        }
        Kind::Store => count_store(counters, outcome),
        Kind::Cas => {
            count_store(counters, outcome);
            match outcome {
                Outcome::Stored => counters.cas_hits.add(1),
                Outcome::Exists => counters.cas_badval.add(1),
                Outcome::NotFound => counters.cas_misses.add(1),
                _ => {}
            }
        }
        Kind::Delete => of(&counters.delete_hits, &counters.delete_misses),
        // Neither found nor missed what could be counted.
        Kind::Increment | Kind::Decrement if outcome == Outcome::NotANumber => {}
        Kind::Increment => of(&counters.incr_hits, &counters.incr_misses),
        Kind::Decrement => of(&counters.decr_hits, &counters.decr_misses),
    }
}

#[inline]
fn count_store(counters: &Counters, outcome: Outcome) {
    counters.cmd_set.add(1);
    match outcome {
        Outcome::TooLarge => counters.store_too_large.add(1),
        Outcome::OutOfMemory => counters.store_no_memory.add(1),
        _ => {}
    }
}
