//! Turns at what only one call may use at a time, and blocks a thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::error::Error;
use crate::operation::Operation;

/// Rest of a call in its turn.
pub(super) enum Rest<A> {
    Answered(A),
    /// It runs on a thread that may block, even if the caller loses interest. It ends the turn.
    Blocking(Box<dyn FnOnce() -> A + Send>),
}

impl<A: Send + 'static> Rest<A> {
    pub fn blocking(call: impl FnOnce() -> A + Send + 'static) -> Self {
        Self::Blocking(Box::new(call))
    }

    async fn run(self) -> Result<A, Missing> {
        match self {
            Self::Answered(answer) => Ok(answer),
            Self::Blocking(call) => tokio::task::spawn_blocking(call)
                .await
                .map_err(|error| Missing::Lost(io::Error::other(error))),
        }
    }
}

/// Reason why a call in its turn has no answer.
#[derive(Debug)]
pub(super) enum Missing {
    /// The turn has not come in time, and the call was not executed.
    TooLate,
    /// It has panicked, or the runtime has ended.
    Lost(io::Error),
}

impl Missing {
    /// Returns the error of an operation at a server of this name.
    pub fn error(self, operation: &Operation<'_>, server: &str) -> Error {
        let server = server.to_owned();
        match (self, operation.only_reads()) {
            (Self::TooLate, true) => Error::TimedOut { server },
            (Self::TooLate, false) => Error::Unreachable { server },
            (Self::Lost(error), true) => error.into(),
            // It may be on its way.
            (Self::Lost(_), false) => Error::OutcomeUnknown,
        }
    }
}

/// Returns the time by which the turn of a call has to come, whose deadline begins now: so that the server
/// has time to answer.
pub(super) fn turn_until(now: Instant, deadline: Duration) -> Instant {
    now + deadline / 2
}

/// Begins a call in its turn. It waits without a thread until a time. If its caller loses interest before its
/// turn comes, it does not begin.
///
/// A task waits, because the lock goes to the next who waits, even if nobody polls the caller's future.
pub(super) async fn in_turn<T: Send + 'static, A: Send + 'static>(
    lock: &Arc<Mutex<T>>,
    until: Instant,
    begin: impl FnOnce(OwnedMutexGuard<T>) -> Rest<A> + Send + 'static,
) -> Result<A, Missing> {
    if let Ok(owned) = Arc::clone(lock).try_lock_owned() {
        return begin(owned).run().await;
    }
    let lock = Arc::clone(lock);
    let (mut done, ended) = oneshot::channel();
    tokio::spawn(async move {
        let owned = tokio::select! {
            biased;
            () = done.closed() => return,
            owned = timeout_at(until, lock.lock_owned()) => owned,
        };
        let result = match owned {
            Ok(_) if done.is_closed() => return,
            Ok(owned) if Instant::now() < until => begin(owned).run().await,
            Ok(_) | Err(_) => Err(Missing::TooLate),
        };
        // The caller may have lost interest meanwhile.
        let _ = done.send(result);
    });
    let has_ended = |_| Err(Missing::Lost(io::Error::other("the task of the call has ended")));
    ended.await.unwrap_or_else(has_ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Polls a call once, so that it waits for its turn.
    async fn begun<F: Future + Unpin>(call: &mut F) {
        let once = tokio::time::timeout(Duration::ZERO, call).await;
        assert!(once.is_err(), "it has to wait");
    }

    fn push(number: u32) -> impl FnOnce(OwnedMutexGuard<Vec<u32>>) -> Rest<()> + Send {
        move |mut list| Rest::blocking(move || list.push(number))
    }

    /// Calls whose callers have lost interest before their turn are not executed.
    #[tokio::test]
    async fn abandoned_calls_are_not_executed() {
        let lock = Arc::new(Mutex::new(Vec::new()));
        let held = Arc::clone(&lock).lock_owned().await;
        for number in 0..100 {
            begun(&mut Box::pin(in_turn(&lock, later(), push(number)))).await;
            tokio::task::yield_now().await;
        }
        let mut kept = Box::pin(in_turn(&lock, later(), push(100)));
        begun(&mut kept).await;
        drop(held);
        kept.await.unwrap();
        assert_eq!(*lock.lock().await, [100]);
    }

    /// A call that nobody polls does not keep the others from their turns.
    #[tokio::test]
    async fn a_call_that_nobody_polls_ends_its_turn() {
        let lock = Arc::new(Mutex::new(Vec::new()));
        let held = Arc::clone(&lock).lock_owned().await;
        let mut asleep = Box::pin(in_turn(&lock, later(), push(1)));
        begun(&mut asleep).await;
        tokio::task::yield_now().await;
        let mut next = Box::pin(in_turn(&lock, later(), push(2)));
        begun(&mut next).await;
        drop(held);
        tokio::time::timeout(Duration::from_secs(60), next).await.expect("its turn comes").unwrap();
        asleep.await.unwrap();
        assert_eq!(*lock.lock().await, [1, 2]);
    }

    /// A call whose turn does not come in time was not executed, and a write says so.
    #[tokio::test]
    async fn the_wait_for_a_turn_has_an_end() {
        let lock = Arc::new(Mutex::new(Vec::new()));
        let held = Arc::clone(&lock).lock_owned().await;
        for operation in [Operation::get(b"key"), Operation::set(b"key", b"value")] {
            let missing = in_turn(&lock, Instant::now(), push(1)).await.unwrap_err();
            let error = missing.error(&operation, "name");
            let is_read = operation.only_reads();
            assert!(
                matches!(&error, Error::TimedOut { server } if is_read && server == "name")
                    || matches!(&error, Error::Unreachable { server } if !is_read && server == "name")
            );
        }
        assert!(held.is_empty());
    }

    /// A write whose thread has panicked may be on its way.
    #[tokio::test]
    async fn a_lost_write_has_an_unknown_outcome() {
        let lock = Arc::new(Mutex::new(()));
        for operation in [Operation::get(b"key"), Operation::set(b"key", b"value")] {
            let begin = |_| Rest::<()>::blocking(|| panic!("meant"));
            let missing = in_turn(&lock, later(), begin).await.unwrap_err();
            match (missing.error(&operation, "name"), operation.only_reads()) {
                (Error::Io(_), true) | (Error::OutcomeUnknown, false) => {}
                (error, _) => panic!("{error:?}"),
            }
        }
    }
}
