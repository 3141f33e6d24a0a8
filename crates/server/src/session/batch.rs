//! Batches, for every protocol: a [`Codec`] parses commands into a [`Batch`], the engine executes it,
//! and the codec writes the replies through a [`Sink`].

use arrayvec::ArrayVec;
use micanite_engine::{BATCH_REQUESTS_MAX, ItemMeta, Operation, Outcome, ReplySink, Request, ValueMeta};

use super::{Context, Kind, Session, Status, count};
use crate::output::Output;
use crate::telemetry::table::Counters;

/// A protocol: parses commands, writes replies.
pub(super) trait Codec<'i>: Sized + Sync {
    /// Form of a reply: what it depends on besides the engine's request and its outcome.
    type Form: Copy + Send + Sync;
    /// A request that is answered outside of batches.
    type Unbatched: Unbatched;
    /// Room that each request of a batch keeps for a reply without a value.
    const SHORT_REPLY_BYTES_MAX: usize;

    /// Begins a batch with the rest of a command that did not fit the last one.
    #[inline]
    fn begin(&mut self, _: &mut Batch<'i, Self>, _: &Context<'_>) {}

    /// Parses the next command into the batch, which has room for a request. Otherwise returns why
    /// the batch ends before the command.
    fn parse(&mut self, batch: &mut Batch<'i, Self>, context: &Context<'_>) -> Option<Stop<Self::Unbatched>>;

    /// Goes back to a request at `at`: the next input begins with its command.
    fn rewind(&mut self, _at: usize, _key_index: u32) {}

    /// Writes the part of a reply before its value. Returns false if the reply has no room
    /// ([`Sink::has_room`]).
    fn begin_value(
        sink: &mut Sink<'_, 'i, '_, Self>,
        index: usize,
        form: &Self::Form,
        meta: ValueMeta,
    ) -> bool;

    /// Writes the reply of a request, or the part of it after its value.
    fn finish(sink: &mut Sink<'_, 'i, '_, Self>, index: usize, form: &Self::Form, outcome: Outcome);
}

/// A request that is answered outside of batches.
pub(super) trait Unbatched {
    /// Returns whether it may take as long as many requests do.
    fn is_administration(&self) -> bool;

    /// Returns the room that its reply needs.
    fn room(&self) -> usize;

    /// Answers it in an output with that room. Returns a status if it is not complete: then it has to
    /// come again.
    fn answer(
        self,
        session: &mut Session,
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Option<Status>;
}

/// Reason why a batch ends.
#[derive(Debug)]
pub(super) enum Stop<U> {
    /// The batch is full.
    Full,
    /// The input has no further complete request.
    Incomplete,
    /// The same, and the next request lacks only the rest of its body.
    BodyIncomplete,
    /// The turn's requests are used up.
    TurnOver,
    /// The next request is longer than the largest input.
    Long { bytes: usize },
    /// The next request is answered outside of batches. It takes `bytes` of the input.
    Unbatched { request: U, bytes: usize },
}

/// A request that was parsed, for its reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending<F> {
    /// Position of its command in the input.
    pub at: usize,
    /// Number of its key among those of the command.
    pub key_index: u32,
    pub kind: Kind,
    pub form: F,
}

/// Requests that execute together.
pub(super) struct Batch<'i, C: Codec<'i>> {
    pub input: &'i [u8],
    /// End of the commands that were parsed.
    pub at: usize,
    requests: ArrayVec<Request<'i>, BATCH_REQUESTS_MAX>,
    pending: ArrayVec<Pending<C::Form>, BATCH_REQUESTS_MAX>,
    /// Room that each request keeps for a reply without a value.
    pub short_reply_bytes: usize,
}

impl<'i, C: Codec<'i>> Batch<'i, C> {
    pub fn new(input: &'i [u8], at: usize) -> Self {
        Self {
            input,
            at,
            requests: ArrayVec::new(),
            pending: ArrayVec::new(),
            short_reply_bytes: C::SHORT_REPLY_BYTES_MAX,
        }
    }

    /// Removes the requests, after they were executed.
    #[inline]
    pub fn clear(&mut self) {
        self.requests.clear();
        self.pending.clear();
        self.short_reply_bytes = C::SHORT_REPLY_BYTES_MAX;
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.requests.is_full()
    }

    pub fn len(&self) -> usize {
        self.requests.len()
    }

    pub fn pending(&self, index: usize) -> Pending<C::Form> {
        self.pending[index]
    }

    /// Adds a request of the command at [`Self::at`].
    #[inline]
    pub fn push(&mut self, request: Request<'i>, key_index: u32, kind: Kind, form: C::Form) {
        self.requests.push(request);
        self.pending.push(Pending { at: self.at, key_index, kind, form });
    }

    /// Parses commands until something ends the batch. Every complete one takes one of
    /// `requests_left`.
    #[inline]
    pub fn fill(
        &mut self,
        codec: &mut C,
        requests_left: &mut u32,
        context: &Context<'_>,
    ) -> Stop<C::Unbatched> {
        codec.begin(self, context);
        loop {
            if self.is_full() {
                return Stop::Full;
            }
            if self.at == self.input.len() {
                return Stop::Incomplete;
            }
            if *requests_left == 0 {
                return Stop::TurnOver;
            }
            match codec.parse(self, context) {
                None => *requests_left -= 1,
                Some(stop @ Stop::Unbatched { .. }) => {
                    *requests_left -= 1;
                    return stop;
                }
                Some(stop) => return stop,
            }
        }
    }

    /// Executes the requests and writes their replies.
    #[inline]
    pub fn execute(
        &self,
        codec: &C,
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Unfinished> {
        if self.requests.is_empty() {
            return Ok(());
        }
        execute(codec, &self.requests, &self.pending, self.short_reply_bytes, output, context)
    }
}

/// A batch that was not executed to its end.
pub(super) struct Unfinished {
    /// Number of requests that were executed.
    pub executed: usize,
    pub status: Status,
}

/// Executes requests and writes their replies.
#[inline]
pub(super) fn execute<'i, C: Codec<'i>>(
    codec: &C,
    requests: &[Request<'i>],
    pending: &[Pending<C::Form>],
    short_reply_bytes: usize,
    output: &mut Output<'_>,
    context: &mut Context<'_>,
) -> Result<(), Unfinished> {
    let unfinished = |executed, status| Err(Unfinished { executed, status });
    if context.worker.is_spent() {
        return unfinished(0, Status::TurnOver);
    }
    if output.room() < requests.len() * short_reply_bytes {
        return unfinished(0, Status::NeedOutput { bytes: BATCH_REQUESTS_MAX * short_reply_bytes });
    }
    let mut sink = Sink {
        codec,
        requests,
        pending,
        short_reply_bytes,
        output,
        counters: context.counters,
        now_s: context.now_s,
        start: 0,
        bytes_needed: 0,
        item: ItemMeta::default(),
    };
    let executed = context.execute(requests, &mut sink);
    let bytes = sink.bytes_needed;
    match executed == requests.len() {
        true => Ok(()),
        false if context.worker.is_spent() => unfinished(executed, Status::TurnOver),
        false => unfinished(executed, Status::NeedOutput { bytes }),
    }
}

/// Receives the replies of a batch from the engine, straight into the output. The output has room for
/// a short reply to each request.
pub(super) struct Sink<'s, 'i, 'o, C: Codec<'i>> {
    pub codec: &'s C,
    pub requests: &'s [Request<'i>],
    pending: &'s [Pending<C::Form>],
    short_reply_bytes: usize,
    pub output: &'s mut Output<'o>,
    counters: &'s Counters,
    pub now_s: u32,
    /// Start of the reply that is being written.
    start: usize,
    /// Length of an empty output that would have had room.
    bytes_needed: usize,
    /// The item that the engine described last.
    pub item: ItemMeta,
}

impl<'i, C: Codec<'i>> ReplySink for Sink<'_, 'i, '_, C> {
    #[inline]
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        let form = &self.pending[index].form;
        C::begin_value(self, index, form, meta).then(|| self.output.give(meta.value_bytes))
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
        if !(matches!(outcome, Outcome::Number(_)) && self.has_created(index)) {
            count(self.counters, pending.kind, outcome);
        }
        C::finish(self, index, &pending.form, outcome);
    }
}

impl<'i, C: Codec<'i>> Sink<'_, 'i, '_, C> {
    /// Returns whether a reply with a value has room, with short replies to all requests from this one on.
    /// If so, the reply begins here.
    #[inline]
    pub fn has_room(&mut self, index: usize, reply_bytes: usize) -> bool {
        let kept_bytes = (self.requests.len() - index) * self.short_reply_bytes;
        if self.output.room() < reply_bytes + kept_bytes {
            self.bytes_needed = reply_bytes + BATCH_REQUESTS_MAX * self.short_reply_bytes;
            return false;
        }
        self.start = self.output.filled();
        true
    }

    /// Returns whether a request has created its number, which was neither a hit nor a miss.
    fn has_created(&self, index: usize) -> bool {
        self.item.created && matches!(self.requests[index].operation, Operation::MetaArithmetic(_))
    }
}
