//! Concurrent operations, until all have ended.

use super::{Answer, Client, ServerStream, TOKEN_FIRST, Value, Way, exchange};
use crate::driver::SubmitError;
use crate::error::Error;
use crate::link::Link;
use crate::local::LocalLink;
use crate::operation::{Completion, Operation, Outcome};
use std::time::Instant;

impl Client {
    /// Executes one operation.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn call(&mut self, operation: &Operation<'_>) -> Result<Answer, Error> {
        let mut answers = self.batch(std::slice::from_ref(operation));
        answers.pop().unwrap_or(Err(Error::Refused))
    }

    /// Executes many operations concurrently and returns their results in the order of
    /// `operations`. They may take effect in any order.
    pub fn batch(&mut self, operations: &[Operation<'_>]) -> Vec<Result<Answer, Error>> {
        if let Err(error) = self.follow_fork() {
            return operations.iter().map(|_| Err(error.clone())).collect();
        }
        let mut answers: Vec<Option<Result<Answer, Error>>> = Vec::new();
        answers.resize_with(operations.len(), || None);
        let mut large = Vec::new();
        let first = self.next_token;
        self.next_token += operations.len() as u64;
        let batch = (operations, first);
        let exchanged = match &mut self.way {
            Way::Datagrams(datagrams) => datagrams.0.exchange(batch, &mut answers, &mut large),
            Way::Fabric(link) => exchange::exchange(&mut **link, batch, &mut answers),
            Way::Local(link) => exchange::exchange(&mut **link, batch, &mut answers),
        };
        if let Err(error) = exchanged {
            // Requests on their way have no caller any more, and may be executed.
            let sent = |token| {
                if let Some(number) = number_of(token, first, operations.len())
                    && !operations[number].only_reads()
                {
                    answers[number] = Some(Err(Error::OutcomeUnknown));
                }
            };
            match &mut self.way {
                Way::Datagrams(datagrams) => datagrams.0.give_up(sent),
                Way::Local(link) => link.give_up(|token| token >= TOKEN_FIRST, sent),
                // Only the child of a fork gets errors there, and connects anew.
                Way::Fabric(_) => {}
            }
            let error = Error::from(error);
            let failed = || Err(error.clone());
            return answers.into_iter().map(|answer| answer.unwrap_or_else(failed)).collect();
        }
        match &mut self.way {
            Way::Datagrams(datagrams) => {
                let (link, streams) = &mut **datagrams;
                let began = Instant::now();
                for number in large {
                    answers[number] = Some(link.over_stream(streams, began, &operations[number]));
                }
            }
            Way::Local(link) => repeat_reads(link, operations, &mut answers),
            Way::Fabric(_) => {}
        }
        let missing = || Err(Error::Refused);
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }
}

impl Link {
    /// Executes a batch by datagrams, whose tokens count from `first`. Numbers of operations that need a
    /// stream go to `large`.
    fn exchange(
        &mut self,
        (operations, first): (&[Operation<'_>], u64),
        answers: &mut [Option<Result<Answer, Error>>],
        large: &mut Vec<usize>,
    ) -> std::io::Result<()> {
        self.try_again(operations.iter().map(|operation| operation.key))?;
        let mut next = 0;
        let mut in_flight = 0;
        self.cork();
        while next < operations.len() || in_flight > 0 {
            let now_ns = self.now_ns();
            while let Some(operation) = operations.get(next) {
                match self.submit(now_ns, operation, first + next as u64) {
                    Ok(()) => in_flight += 1,
                    // The client's own requests take room, too.
                    Err(SubmitError::Full) if self.driver().pending() > 0 => break,
                    Err(SubmitError::TooLong) => large.push(next),
                    Err(error) => answers[next] = Some(Err(self.refused(error))),
                }
                next += 1;
            }
            self.flush();
            let ended = self.driver().counters().completed;
            let mut take = |completion: Completion<'_>| {
                let Some(number) = number_of(completion.token, first, operations.len()) else {
                    return;
                };
                in_flight -= 1;
                match completion.outcome {
                    Outcome::UseStream => large.push(number),
                    _ => answers[number] = Some(answer(&completion)),
                }
            };
            self.poll(now_ns, &mut take)?;
            let is_over = next == operations.len() && in_flight == 0;
            if !is_over && self.driver().counters().completed == ended {
                self.wait(u64::MAX)?;
            }
        }
        for (place, operation) in answers.iter_mut().zip(operations) {
            *place = match place.take() {
                Some(Err(error)) => Some(Err(self.named(operation.key, error))),
                other => other,
            };
        }
        Ok(())
    }

    fn refused(&self, error: SubmitError) -> Error {
        match error {
            SubmitError::ServerDown { server } => self.down(server),
            SubmitError::BadKey | SubmitError::TooLong => Error::BadKey,
            SubmitError::ExpiryTooFar => Error::ExpiryTooFar,
            SubmitError::Full => Error::Refused,
        }
    }

    fn over_stream(
        &self,
        streams: &mut [ServerStream],
        began: Instant,
        operation: &Operation<'_>,
    ) -> Result<Answer, Error> {
        let server = self.driver().server_now(operation.key);
        let address = self.stream_address(server)?;
        streams[server].call(began, address, operation)
    }
}

/// Repeats the reads whose stream was lost.
fn repeat_reads(
    link: &mut LocalLink,
    operations: &[Operation<'_>],
    answers: &mut [Option<Result<Answer, Error>>],
) {
    for (place, operation) in answers.iter_mut().zip(operations) {
        if let (Some(Err(Error::OutcomeUnknown)), true) = (&place, operation.may_repeat()) {
            *place = Some(repeat(operation, Error::OutcomeUnknown, || link.call(operation)));
        }
    }
}

/// Repeats a call that has ended by an error of its stream. The error remains if the first attempt may have
/// changed something and the second one had no reply.
pub(crate) fn repeat(
    operation: &Operation<'_>,
    first: Error,
    again: impl FnOnce() -> Result<Answer, Error>,
) -> Result<Answer, Error> {
    let is_harmless = operation.only_reads() || !matches!(first, Error::OutcomeUnknown);
    match again() {
        Err(error) if !is_harmless && !error.is_of_reply() => Err(first),
        result => result,
    }
}

/// Returns the number of an operation in its batch; `None` if it belongs to another one.
pub(super) fn number_of(token: u64, first: u64, operations: usize) -> Option<usize> {
    let number = token.checked_sub(first)? as usize;
    (number < operations).then_some(number)
}

/// Converts a completion to the result of a blocking call. Servers are named later.
pub(crate) fn answer(completion: &Completion<'_>) -> Result<Answer, Error> {
    let server = String::new();
    match completion.outcome {
        Outcome::Ok | Outcome::NotFound | Outcome::Exists | Outcome::NotStored => Ok(Answer {
            outcome: completion.outcome,
            number: completion.number,
            value: Value { bytes: completion.value.to_vec(), flags: completion.flags, cas: completion.cas },
            resent: completion.resent,
        }),
        Outcome::OutOfSpace => Err(Error::OutOfSpace),
        Outcome::TooLarge { limit_bytes } => Err(Error::TooLarge { limit_bytes: Some(limit_bytes) }),
        Outcome::NotANumber => Err(Error::NotANumber),
        Outcome::BadRequest | Outcome::UseStream => Err(Error::Refused),
        Outcome::Version(version) => Err(Error::Version { server, version }),
        Outcome::TimedOut => Err(Error::TimedOut { server }),
        Outcome::Unknown => Err(Error::OutcomeUnknown),
        Outcome::ServerDown => Err(Error::Unreachable { server }),
    }
}
