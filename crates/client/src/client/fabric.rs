//! Concurrent operations over a fabric, until all have ended.

use super::{Answer, batch::answer};
use crate::driver::SubmitError;
use crate::error::Error;
use crate::fabric::FabricLink;
use crate::operation::Operation;

/// Executes a batch.
pub(super) fn exchange(
    link: &mut FabricLink,
    operations: &[Operation<'_>],
    answers: &mut [Option<Result<Answer, Error>>],
) -> std::io::Result<()> {
    let (mut next, mut in_flight) = (0, 0_usize);
    while next < operations.len() || in_flight > 0 {
        let now_ns = link.now_ns();
        while let Some(operation) = operations.get(next) {
            match link.submit(now_ns, operation, next as u64) {
                Ok(()) => in_flight += 1,
                Err(SubmitError::Full) => break,
                Err(error) => answers[next] = Some(Err(link.refused(operation.key, error))),
            }
            next += 1;
        }
        let ended = link.poll(now_ns, |completion| {
            in_flight -= 1;
            answers[completion.token as usize] = Some(answer(&completion));
        })?;
        if ended == 0 && (in_flight > 0 || next < operations.len()) {
            link.wait(u64::MAX)?;
        }
    }
    for (place, operation) in answers.iter_mut().zip(operations) {
        *place = match place.take() {
            Some(Err(error)) => Some(Err(link.named(operation.key, error))),
            other => other,
        };
    }
    Ok(())
}
