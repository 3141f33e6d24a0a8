//! Concurrent operations over links that submit and poll, until all have ended.

use super::batch::{answer, number_of};
use super::{Answer, TOKEN_FIRST};
use crate::driver::SubmitError;
use crate::error::Error;
use crate::fabric::FabricLink;
use crate::local::{EndedList, LocalLink};
use crate::operation::{Completion, Operation};
use std::io;

/// A link with operations in flight.
pub(super) trait Exchange {
    fn now_ns(&self) -> u64;
    /// Tries those dead servers of some keys again that are due.
    fn try_again<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]> + Clone) -> io::Result<()>;
    fn submit(&mut self, now_ns: u64, operation: &Operation<'_>, token: u64) -> Result<(), SubmitError>;
    fn poll(&mut self, now_ns: u64, sink: impl FnMut(Completion<'_>)) -> io::Result<usize>;
    fn wait(&mut self, at_most_ns: u64) -> io::Result<()>;
    /// Returns whether something is on its way, or has ended: otherwise nothing would end a wait.
    fn has_work(&self) -> bool;
    /// Returns the error for an operation that was not taken.
    fn refused(&self, key: &[u8], error: SubmitError) -> Error;
    /// Names the server in an error.
    fn named(&self, key: &[u8], error: Error) -> Error;
    /// Takes completions of other callers of the link back, for their next poll.
    fn keep(&mut self, others: EndedList);
}

macro_rules! exchange {
    ($link:ty) => {
        impl Exchange for $link {
            fn now_ns(&self) -> u64 {
                self.now_ns()
            }

            fn try_again<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]> + Clone) -> io::Result<()> {
                self.try_again(keys)
            }

            fn submit(
                &mut self,
                now_ns: u64,
                operation: &Operation<'_>,
                token: u64,
            ) -> Result<(), SubmitError> {
                self.submit(now_ns, operation, token)
            }

            fn poll(&mut self, now_ns: u64, sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
                self.poll(now_ns, sink)
            }

            fn wait(&mut self, at_most_ns: u64) -> io::Result<()> {
                self.wait(at_most_ns)
            }

            fn has_work(&self) -> bool {
                self.has_work()
            }

            fn refused(&self, key: &[u8], error: SubmitError) -> Error {
                self.refused(key, error)
            }

            fn named(&self, key: &[u8], error: Error) -> Error {
                self.named(key, error)
            }

            fn keep(&mut self, others: EndedList) {
                self.keep(others);
            }
        }
    };
}

exchange!(FabricLink);
exchange!(LocalLink);

/// Executes a batch, whose tokens count from `first`.
pub(super) fn exchange(
    link: &mut impl Exchange,
    batch: (&[Operation<'_>], u64),
    answers: &mut [Option<Result<Answer, Error>>],
) -> io::Result<()> {
    let mut others = EndedList::default();
    let exchanged = run(link, batch, answers, &mut others);
    link.keep(others);
    exchanged?;
    for (place, operation) in answers.iter_mut().zip(batch.0) {
        *place = match place.take() {
            Some(Err(error)) => Some(Err(link.named(operation.key, error))),
            other => other,
        };
    }
    Ok(())
}

fn run(
    link: &mut impl Exchange,
    (operations, first): (&[Operation<'_>], u64),
    answers: &mut [Option<Result<Answer, Error>>],
    others: &mut EndedList,
) -> io::Result<()> {
    link.try_again(operations.iter().map(|operation| operation.key))?;
    let (mut next, mut in_flight) = (0, 0_usize);
    while next < operations.len() || in_flight > 0 {
        let now_ns = link.now_ns();
        while let Some(operation) = operations.get(next) {
            match link.submit(now_ns, operation, first + next as u64) {
                Ok(()) => in_flight += 1,
                Err(SubmitError::Full) => break,
                Err(error) => answers[next] = Some(Err(link.refused(operation.key, error))),
            }
            next += 1;
        }
        let ended = link.poll(now_ns, |completion| {
            match number_of(completion.token, first, operations.len()) {
                Some(number) => {
                    in_flight -= 1;
                    answers[number] = Some(answer(&completion));
                }
                None if completion.token < TOKEN_FIRST => others.keep(&completion),
                // It was left by a call that has ended by an error or a panic.
                None => {}
            }
        })?;
        // The poll may have made the room that an operation lacked.
        if ended == 0 && (in_flight > 0 || next < operations.len()) && link.has_work() {
            link.wait(u64::MAX)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Opcode, Outcome};

    /// A link with no room until it is polled: the rest of a refused value leaves then.
    #[derive(Default)]
    struct Blocked {
        has_room: bool,
        submitted: Option<u64>,
    }

    impl Exchange for Blocked {
        fn now_ns(&self) -> u64 {
            0
        }

        fn try_again<'a>(&mut self, _: impl Iterator<Item = &'a [u8]> + Clone) -> io::Result<()> {
            Ok(())
        }

        fn submit(&mut self, _: u64, _: &Operation<'_>, token: u64) -> Result<(), SubmitError> {
            if !self.has_room {
                return Err(SubmitError::Full);
            }
            self.submitted = Some(token);
            Ok(())
        }

        fn poll(&mut self, _: u64, mut sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
            self.has_room = true;
            let Some(token) = self.submitted.take() else {
                return Ok(0);
            };
            sink(Completion::without_reply(token, Opcode::Set, Outcome::Ok));
            Ok(1)
        }

        fn wait(&mut self, _: u64) -> io::Result<()> {
            panic!("nothing would end it");
        }

        fn has_work(&self) -> bool {
            self.submitted.is_some()
        }

        fn refused(&self, _: &[u8], _: SubmitError) -> Error {
            Error::Refused
        }

        fn named(&self, _: &[u8], error: Error) -> Error {
            error
        }

        fn keep(&mut self, _: EndedList) {}
    }

    /// A call waited a minute behind a value that was refused at its head, whose rest had just left.
    #[test]
    fn nobody_waits_for_a_link_that_has_nothing_to_do() {
        let mut answers = [None];
        exchange(&mut Blocked::default(), (&[Operation::set(b"key", b"value")], 1 << 63), &mut answers)
            .unwrap();
        assert!(matches!(answers[0], Some(Ok(_))));
    }
}
