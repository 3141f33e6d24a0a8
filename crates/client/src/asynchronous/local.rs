//! A server on the same host, for tokio. Gets that the server's memory answers do not wait at all. All else
//! goes over the link's stream, one request at a time, on a thread that may block.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::Owned;
use super::turns::{Rest, in_turn, turn_until};
use crate::client::{Answer, Value};
use crate::error::Error;
use crate::local::{LocalLink, SharedReading, Writes, has_key_length};
use crate::operation::{Opcode, Operation, Outcome};

/// Handle of a link. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct LocalHandle {
    memory: Arc<SharedReading>,
    writes: Arc<Writes>,
    /// Waiters get it in turn, so that a get that waits for a write comes after it.
    link: Arc<tokio::sync::Mutex<LocalLink>>,
    /// URL of the server, without the login.
    name: Arc<str>,
    deadline: Duration,
}

/// A write on its way, until it is dropped.
struct Writing {
    writes: Arc<Writes>,
    hash: u64,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.writes.end(self.hash);
    }
}

impl LocalHandle {
    pub fn new(mut link: LocalLink) -> Self {
        let memory = SharedReading::default();
        memory.follow(&mut link);
        let writes = Arc::clone(link.writes());
        let (name, deadline) = (link.url().to_string().into(), link.deadline());
        Self {
            memory: Arc::new(memory),
            writes,
            link: Arc::new(tokio::sync::Mutex::new(link)),
            name,
            deadline,
        }
    }

    /// Executes an operation.
    pub async fn call(&self, operation: &Operation<'_>) -> Result<Answer, Error> {
        let is_plain = operation.opcode == Opcode::Get && !operation.wants_cas;
        if is_plain && let Some(answer) = self.answer(operation.key) {
            return Ok(answer);
        }
        let (handle, owned) = (self.clone(), Owned::of(operation));
        let now = Instant::now();
        let end = (now + self.deadline).into_std();
        let begin = move |link| handle.begin(link, owned, end);
        let called = in_turn(&self.link, turn_until(now, self.deadline), begin).await;
        called.map_err(|missing| missing.error(operation, &self.name))?
    }

    /// Begins an operation in its turn.
    fn begin(
        self,
        link: OwnedMutexGuard<LocalLink>,
        operation: Owned,
        until: std::time::Instant,
    ) -> Rest<Result<Answer, Error>> {
        let is_plain = operation.rest.opcode == Opcode::Get && !operation.rest.wants_cas;
        // The write that it has waited for is over.
        if is_plain && let Some(answer) = self.answer(&operation.key) {
            return Rest::Answered(Ok(answer));
        }
        let is_write = !matches!(operation.rest.opcode, Opcode::Get | Opcode::Noop);
        // The request is sent even if the caller loses interest: gets of the key wait for its end.
        let writing = self.memory.hash(&operation.key).filter(|_| is_write).map(|hash| {
            self.writes.begin(hash);
            Writing { writes: Arc::clone(&self.writes), hash }
        });
        Rest::blocking(move || self.call_link(link, writing, &operation.borrow(), until))
    }

    fn call_link(
        &self,
        mut link: OwnedMutexGuard<LocalLink>,
        writing: Option<Writing>,
        operation: &Operation<'_>,
        until: std::time::Instant,
    ) -> Result<Answer, Error> {
        let answer = link.by(until, |link| link.call(operation));
        self.memory.follow(&mut link);
        // Before the link is free: a get that waits for it then finds no write.
        drop(writing);
        answer
    }

    /// Answers a plain get from the memory. `None`: the server has to be asked.
    fn answer(&self, key: &[u8]) -> Option<Answer> {
        let value = self.look(key)?;
        let outcome = if value.is_some() { Outcome::Ok } else { Outcome::NotFound };
        Some(Answer { outcome, number: 0, value: value.unwrap_or_default(), resent: false })
    }

    /// Gets the values of many keys. Each key has its own result. If the server does not answer for a key, it
    /// is not asked for the others, whose error is the same.
    pub async fn get_each(&self, keys: &[&[u8]]) -> Vec<Result<Option<Value>, Error>> {
        let mut values = Vec::with_capacity(keys.len());
        let mut lost: Option<Error> = None;
        for key in keys {
            let value = match (self.look(key), &lost) {
                (Some(value), _) => Ok(value),
                (None, Some(error)) if has_key_length(key) => Err(error.clone()),
                (None, _) => {
                    let answer = self.call(&Operation::get(key)).await;
                    answer.map(|answer| (answer.outcome == Outcome::Ok).then_some(answer.value))
                }
            };
            if let Err(error) = &value
                && !error.is_of_one_request()
            {
                lost = Some(error.clone());
            }
            values.push(value);
        }
        values
    }

    /// Looks a key up in the memory. `None`: the server has to be asked.
    fn look(&self, key: &[u8]) -> Option<Option<Value>> {
        let mut bytes = Vec::new();
        let flags = self.memory.look(key, Some(&self.writes), &mut bytes)?;
        Some(flags.map(|flags| Value { bytes, flags, cas: None }))
    }
}
