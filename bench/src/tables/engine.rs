//! Our engine under the common port.

use micanite_engine::{Outcome, ReplySink, Request, ValueMeta, Worker};
use micanite_server::native::Outbox;
use micanite_wire::native::Status;

use super::answers::Answers;
use crate::harness::in_process::NOW_S;

/// Executes a batch: the engine writes values straight into the replies.
#[inline]
pub(super) fn execute<O: Outbox + Send>(
    worker: &mut Worker,
    requests: &[Request<'_>],
    answers: &mut Answers<'_, O>,
) {
    let mut sink = Sink { answers, value_bytes: 0 };
    let done = worker.execute(requests, NOW_S, &mut sink);
    // A reply without room for the next value: none of this load's, for requests are longer.
    for index in done..requests.len() {
        answers.status(index, Status::NoRoom);
    }
}

struct Sink<'a, 'b, O> {
    answers: &'a mut Answers<'b, O>,
    value_bytes: usize,
}

impl<O: Outbox> ReplySink for Sink<'_, '_, O> {
    #[inline]
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.value_bytes = meta.value_bytes;
        self.answers.room(index, meta.flags, meta.value_bytes)
    }

    /// Does nothing: the reply is begun again, or has no value.
    #[inline]
    fn rollback(&mut self, _: usize) {}

    #[inline]
    fn finish(&mut self, index: usize, outcome: Outcome) {
        match outcome {
            Outcome::Hit => self.answers.found(index, self.value_bytes),
            Outcome::Stored => self.answers.status(index, Status::Ok),
            _ => self.answers.status(index, Status::NotFound),
        }
    }
}
