//! Lines about requests: a sink around the sink of a batch sees how each request ends.

use micanite_engine::{Condition, ItemMeta, Operation, Outcome, ReplySink, Request, StoreMode, ValueMeta};

use super::Context;
use crate::telemetry::costs::Timing;
use crate::telemetry::outcome::{deletes, has_found};
use crate::telemetry::record::{ItemFacts, Recording};
use crate::telemetry::stats::Prefixes;
use crate::telemetry::watch::line::{Line, Stored};
use crate::telemetry::watch::{Kinds, Watch};

/// Executes a batch that somebody watches, or that is recorded or timed.
#[inline(never)]
pub(crate) fn execute<S: ReplySink + Send>(
    context: &mut Context<'_>,
    requests: &[Request<'_>],
    sink: &mut S,
) -> usize {
    let watch = &*context.shared.watch;
    let mut watched = Watched {
        inner: sink,
        requests,
        watch,
        prefixes: &context.shared.prefixes,
        wanted: watch.wanted(),
        worker: context.worker.number(),
        descriptor: watch.serving(context.worker.number()),
        now_s: context.now_s,
        facts: ItemFacts::default(),
        recording: None,
        timing: None,
    };
    if watched.wanted.any(Kinds::RECORDING) {
        let recording = Recording::new(context.shared, watched.worker, context.now_s);
        watched.recording = Some(recording);
    }
    let (shared, worker) = (context.shared, watched.worker);
    if shared.costs.is_timed(worker) {
        watched.timing = Some(Timing::new(&shared.costs, worker, &shared.cache));
    }
    context.worker.execute(requests, context.now_s, &mut watched)
}

struct Watched<'a, S> {
    inner: &'a mut S,
    requests: &'a [Request<'a>],
    watch: &'a Watch,
    prefixes: &'a Prefixes,
    wanted: Kinds,
    worker: usize,
    descriptor: i32,
    now_s: u32,
    /// Facts about the present request's item.
    facts: ItemFacts,
    recording: Option<Recording<'a>>,
    timing: Option<Timing<'a>>,
}

impl<S: ReplySink> ReplySink for Watched<'_, S> {
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.facts.value_bytes = Some(meta.value_bytes);
        self.inner.reserve(index, meta)
    }

    fn rollback(&mut self, index: usize) {
        self.inner.rollback(index);
    }

    fn describe(&mut self, index: usize, item: ItemMeta) {
        self.facts.item = Some(item);
        self.inner.describe(index, item);
    }

    fn entry(&mut self, index: usize, entry: micanite_engine::ChunkEntry) {
        self.inner.entry(index, entry);
    }

    fn finish(&mut self, index: usize, outcome: Outcome) {
        self.inner.finish(index, outcome);
        let facts = std::mem::take(&mut self.facts);
        let request = &self.requests[index];
        if let Some(timing) = &mut self.timing {
            timing.finish(index, request, facts.bytes().unwrap_or(0));
            if self.wanted.is_empty() {
                return;
            }
        }
        if let Some(recording) = &mut self.recording {
            recording.finish(request, outcome, facts);
            if self.wanted == Kinds::RECORDING {
                return;
            }
        }
        if self.wanted.any(Kinds::PREFIXES) {
            self.prefixes.count(self.worker, request, outcome);
        }
        self.tell(request, outcome, facts.bytes());
    }
}

impl<S> Watched<'_, S> {
    fn tell(&self, request: &Request<'_>, outcome: Outcome, value_bytes: Option<usize>) {
        let key = request.key;
        if is_fetch(&request.operation) {
            if self.wanted.any(Kinds::FETCHERS) {
                let found = has_found(outcome);
                self.watch.tell(Kinds::FETCHERS, |line| {
                    line.fetch(key, found, self.descriptor, value_bytes);
                });
            }
        } else if let Some(command) = deletes(&request.operation) {
            if self.wanted.any(Kinds::DELETIONS) && outcome == Outcome::Deleted {
                let tell = |line: &mut Line| line.deletion(key, command);
                self.watch.tell(Kinds::DELETIONS, tell);
            }
        } else if self.wanted.any(Kinds::MUTATIONS)
            && let Some(stored) = stored(request, outcome)
        {
            self.watch.tell(Kinds::MUTATIONS, |line| {
                line.store(&stored, self.now_s, self.descriptor);
            });
        }
    }
}

/// Returns whether memcached logs a fetch: increments and touches look for their item, too.
fn is_fetch(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::Get { .. }
            | Operation::GetEntry
            | Operation::GetAndTouch { .. }
            | Operation::MetaGet(_)
            | Operation::Touch { .. }
            | Operation::Increment { .. }
            | Operation::Decrement { .. }
            | Operation::MetaArithmetic(_)
    )
}

fn stored<'r>(request: &Request<'r>, outcome: Outcome) -> Option<Stored<'r>> {
    let (command, expiry, value_bytes) = match request.operation {
        Operation::Store { condition, value, expiry, .. }
        | Operation::StoreEntry { condition, value, expiry, .. } => {
            let command = match condition {
                Condition::Always => "set",
                Condition::Absent => "add",
                Condition::Present => "replace",
                Condition::Unchanged(_) => "cas",
            };
            (command, Some(expiry), Some(value.len()))
        }
        // The expiry stays, and the length of the whole is not known here.
        Operation::Append { .. } => ("append", None, None),
        Operation::Prepend { .. } => ("prepend", None, None),
        Operation::MetaStore(store) => match store.mode {
            StoreMode::Append | StoreMode::AppendOrSet => ("append", None, None),
            StoreMode::Prepend | StoreMode::PrependOrSet => ("prepend", None, None),
            mode => {
                let command = match (mode, store.compare) {
                    (StoreMode::Add, _) => "add",
                    (StoreMode::Replace, _) => "replace",
                    (_, Some(_)) => "cas",
                    _ => "set",
                };
                (command, Some(store.expiry), Some(store.value.len()))
            }
        },
        _ => return None,
    };
    let status = match outcome {
        Outcome::Stored => "stored",
        Outcome::Exists => "exists",
        Outcome::NotFound => "not_found",
        Outcome::NotStored => "not_stored",
        Outcome::TooLarge => "too_large",
        _ => "no_memory",
    };
    Some(Stored { key: request.key, status, command, expiry, value_bytes })
}
