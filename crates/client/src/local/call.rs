//! Calls of a link: one operation, until it has ended.

use super::link::LocalLink;
use crate::client::{Answer, answer, repeat};
use crate::driver::SubmitError;
use crate::error::Error;
use crate::operation::{Completion, Operation, Outcome};

/// Token of [`LocalLink::call`].
pub(super) const CALL: u64 = u64::MAX;

impl LocalLink {
    /// Executes one operation and waits for its end. A read whose stream was lost is repeated once, if the
    /// deadline is not over.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn call(&mut self, operation: &Operation<'_>) -> Result<Answer, Error> {
        self.within_deadline(|link| match link.call_once(operation) {
            Err(first @ Error::OutcomeUnknown) if operation.may_repeat() && link.has_time() => {
                repeat(operation, first, || link.call_once(operation))
            }
            result => result,
        })
    }

    fn call_once(&mut self, operation: &Operation<'_>) -> Result<Answer, Error> {
        if std::mem::replace(&mut self.is_calling, true) {
            self.give_up(|token| token == CALL, |_| {});
        }
        // Completions of other operations wait here: nobody else takes them meanwhile.
        let mut others = std::mem::take(&mut self.ended);
        let mut found = None;
        let mut is_submitted = false;
        let mut is_left = false;
        let mut result = loop {
            if !is_submitted {
                match self.submit(self.now_ns(), operation, CALL) {
                    Ok(()) => is_submitted = true,
                    // Room comes with replies.
                    Err(SubmitError::Full) => {}
                    Err(error) => break Err(self.refused(operation.key, error)),
                }
            }
            let mut take = |ended: Completion<'_>| match ended.token {
                CALL => found = Some(answer(&ended)),
                _ => others.keep(&ended),
            };
            match self.poll(self.now_ns(), &mut take) {
                Ok(0) => {
                    // The poll may have made the room that the operation lacked.
                    if self.has_work()
                        && let Err(error) = self.wait(u64::MAX)
                    {
                        is_left = true;
                        break Err(error.into());
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    is_left = true;
                    break Err(error.into());
                }
            }
            if let Some(answer) = found.take() {
                break answer;
            }
        };
        if is_left {
            // A reply that comes later would be taken for the next call's.
            self.lose_stream(Outcome::Unknown, |token, opcode, outcome| {
                if token != CALL {
                    others.keep(&Completion::without_reply(token, opcode, outcome));
                }
            });
            if is_submitted && !operation.only_reads() {
                result = Err(Error::OutcomeUnknown);
            }
        }
        // Attaching has ended those of the stream before, also where it failed.
        self.keep(others);
        self.is_calling = false;
        result.map_err(|error| self.named(operation.key, error))
    }
}
