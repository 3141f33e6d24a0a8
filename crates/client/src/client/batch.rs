//! Concurrent operations, until all have ended.

use super::{Answer, Client, TOKEN_FIRST, Value, Way, exchange};
use crate::driver::{Route, SubmitError};
use crate::error::Error;
use crate::link::Link;
use crate::local::{LocalLink, has_key_length};
use crate::operation::{Completion, Opcode, Operation, Outcome};
use std::collections::VecDeque;

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
            Way::Local(link) => {
                let mut exchange = |link: &mut LocalLink| {
                    link.begin_batch();
                    let exchanged = exchange::exchange(link, batch, &mut answers);
                    link.end_batch();
                    if exchanged.is_ok() {
                        let repeat = |link: &mut LocalLink| repeat_reads(link, operations, &mut answers);
                        link.within_deadline(repeat);
                    }
                    exchanged
                };
                // One call has one deadline. What many have lost is repeated within another one.
                match operations.len() {
                    1 => link.within_deadline(exchange),
                    _ => exchange(link),
                }
            }
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
        if let (Way::Datagrams(datagrams), false) = (&mut self.way, large.is_empty()) {
            let (link, streams) = &mut **datagrams;
            link.over_streams(streams, operations, &large, &mut answers);
        }
        let missing = || Err(Error::Refused);
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }
}

/// Operations in a row whose cores have no room until the client waits for replies.
const REFUSALS_MAX: usize = 256;

/// A batch over datagrams.
struct Batch<'a> {
    operations: &'a [Operation<'a>],
    /// Token of the first.
    first: u64,
    /// The next one that was not looked at yet.
    next: usize,
    /// Those that wait for the room of their cores.
    waiting: Vec<(Option<Route>, VecDeque<usize>)>,
    /// Cores that had no reply in time: while they are silent, the rest of the batch does not wait for them.
    late: Vec<Route>,
}

/// Result of an attempt to submit an operation.
enum Taken {
    Submitted,
    /// It has ended without a request.
    Ended,
    Waits,
}

impl Batch<'_> {
    fn is_submitted(&self) -> bool {
        self.waiting.is_empty() && self.next == self.operations.len()
    }

    /// Lets an operation wait behind others of its route; returns false if none waits.
    fn waits_behind(&mut self, route: Option<Route>, number: usize) -> bool {
        let others = self.waiting.iter_mut().find(|(other, _)| *other == route);
        others.map(|(_, numbers)| numbers.push_back(number)).is_some()
    }

    /// Notes the cores of an operation that had no reply in time.
    fn note_late(&mut self, route: Option<Route>) {
        if let Some(route) = route
            && !self.late.contains(&route)
        {
            self.late.push(route);
        }
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
        let mut batch = Batch { operations, first, next: 0, waiting: Vec::new(), late: Vec::new() };
        let mut in_flight = 0;
        self.cork();
        while !batch.is_submitted() || in_flight > 0 {
            let now_ns = self.now_ns();
            in_flight += self.submit_some(now_ns, &mut batch, answers, large);
            self.flush();
            let ended = self.driver().counters().completed;
            let mut silent = Vec::new();
            let mut take = |completion: Completion<'_>| {
                let Some(number) = number_of(completion.token, first, operations.len()) else {
                    return;
                };
                in_flight -= 1;
                if completion.outcome == Outcome::TimedOut {
                    silent.push(number);
                }
                match completion.outcome {
                    Outcome::UseStream => large.push(number),
                    _ => answers[number] = Some(answer(&completion)),
                }
            };
            self.poll(now_ns, &mut take)?;
            for number in silent {
                batch.note_late(self.driver().route_now(&operations[number]));
            }
            let is_over = batch.is_submitted() && in_flight == 0;
            // The poll may have made the room that operations lacked: then nothing would end a wait.
            let may_wait = self.driver().counters().completed == ended && self.driver().pending() > 0;
            if !is_over && may_wait {
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

    /// Submits operations of a batch as far as there is room. Those of a core that has none wait beside
    /// others. Returns how many are on their way.
    fn submit_some(
        &mut self,
        now_ns: u64,
        batch: &mut Batch<'_>,
        answers: &mut [Option<Result<Answer, Error>>],
        large: &mut Vec<usize>,
    ) -> usize {
        let mut submitted = 0;
        let mut waiting = std::mem::take(&mut batch.waiting);
        for (_, numbers) in &mut waiting {
            while let Some(number) = numbers.front() {
                match self.submit_one(now_ns, (batch, *number), answers, large) {
                    Taken::Submitted => submitted += 1,
                    Taken::Ended => {}
                    Taken::Waits => break,
                }
                numbers.pop_front();
            }
        }
        waiting.retain(|(_, numbers)| !numbers.is_empty());
        batch.waiting = waiting;
        let mut refusals = 0;
        while refusals < REFUSALS_MAX && batch.next < batch.operations.len() {
            let number = batch.next;
            batch.next += 1;
            let is_behind = !batch.waiting.is_empty()
                && batch.waits_behind(self.driver().route_now(&batch.operations[number]), number);
            if is_behind {
                refusals += 1;
                continue;
            }
            match self.submit_one(now_ns, (batch, number), answers, large) {
                Taken::Submitted => (submitted, refusals) = (submitted + 1, 0),
                Taken::Ended => {}
                Taken::Waits => {
                    refusals += 1;
                    let route = self.driver().route_now(&batch.operations[number]);
                    batch.waiting.push((route, VecDeque::from([number])));
                }
            }
        }
        submitted
    }

    fn submit_one(
        &mut self,
        now_ns: u64,
        (batch, number): (&Batch<'_>, usize),
        answers: &mut [Option<Result<Answer, Error>>],
        large: &mut Vec<usize>,
    ) -> Taken {
        let operation = &batch.operations[number];
        if let Some(server) = self.silent_server(now_ns, &batch.late, operation) {
            answers[number] = Some(Err(self.down(server)));
            return Taken::Ended;
        }
        match self.submit(now_ns, operation, batch.first + number as u64) {
            Ok(()) => return Taken::Submitted,
            // The client's own requests take room, too.
            Err(SubmitError::Full) if self.driver().pending() > 0 => return Taken::Waits,
            Err(SubmitError::TooLong) => large.push(number),
            Err(error) => answers[number] = Some(Err(self.refused(error))),
        }
        Taken::Ended
    }

    /// Returns the server of an operation whose cores were late in this batch, and are silent. One with a bad
    /// key or expiry is left to the driver.
    fn silent_server(&self, now_ns: u64, late: &[Route], operation: &Operation<'_>) -> Option<usize> {
        let has_key = operation.opcode == Opcode::Noop || has_key_length(operation.key);
        if late.is_empty() || !has_key || !operation.expires_in_time() {
            return None;
        }
        let route = self.driver().route_now(operation)?;
        let is_silent = late.contains(&route) && self.driver().is_silent(now_ns, route);
        is_silent.then_some(route.server())
    }

    fn refused(&self, error: SubmitError) -> Error {
        match error {
            SubmitError::ServerDown { server } => self.down(server),
            SubmitError::BadKey | SubmitError::TooLong => Error::BadKey,
            SubmitError::ExpiryTooFar => Error::ExpiryTooFar,
            SubmitError::Full => Error::Refused,
        }
    }
}

/// Repeats the reads whose stream was lost.
fn repeat_reads(
    link: &mut LocalLink,
    operations: &[Operation<'_>],
    answers: &mut [Option<Result<Answer, Error>>],
) {
    for (place, operation) in answers.iter_mut().zip(operations) {
        let may_repeat = operation.may_repeat() && link.has_time();
        if let (Some(Err(Error::OutcomeUnknown)), true) = (&place, may_repeat) {
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
