//! The batch pipeline (MICA 4.3.2, multi-stage prefetching): load the buckets of all requests,
//! then the items they point to, then execute in order.
//!
//! Loads of one stage overlap; a request pays for memory once per batch, not once per request.
//! The stages are hints: requests take effect in the third, one after the other, so a batch is
//! as ordered as the requests would be alone.

use micanite_memory::sync::yield_now;

use crate::cache::Cache;
use crate::operations::Side;
use crate::partition::Partition;
use crate::reader::Read;
use crate::request::{Operation, Outcome, ReplySink, Request};
use crate::writer::Writer;

/// How a partition may be touched; the loop is compiled for each.
pub(crate) trait Mode {
    /// The writer of a partition.
    fn writer(partition: &Partition, now_s: u32) -> Writer<'_>;

    /// A get without CAS or touch. Returns whether the sink had room.
    fn get<S: ReplySink>(
        partition: &Partition,
        request: (usize, &Request<'_>),
        now_s: u32,
        sink: &mut S,
    ) -> bool;

    /// Whether values are copied into place without the lock if they are long.
    const SHARED: bool;
}

/// The owner: nobody else writes (EREW, CREW).
pub(crate) enum Own {}

/// One of several writers: optimistic reads, writes under the partition's lock (CRCW).
pub(crate) enum Share {}

impl Mode for Own {
    const SHARED: bool = false;

    #[inline]
    fn writer(partition: &Partition, now_s: u32) -> Writer<'_> {
        #[expect(unsafe_code, reason = "the exclusive owner takes no lock")]
        // SAFETY: chosen only for a worker that has the permission `Own`, inside a batch: until
        // it ends the batch nobody else gets a permission to write (`access.rs`).
        unsafe {
            partition.owner(now_s)
        }
    }

    #[inline]
    fn get<S: ReplySink>(
        partition: &Partition,
        request: (usize, &Request<'_>),
        now_s: u32,
        sink: &mut S,
    ) -> bool {
        Self::writer(partition, now_s).get(request, false, sink)
    }
}

impl Mode for Share {
    const SHARED: bool = true;

    #[inline]
    fn writer(partition: &Partition, now_s: u32) -> Writer<'_> {
        partition.writer(now_s)
    }

    #[inline]
    fn get<S: ReplySink>(
        partition: &Partition,
        (index, request): (usize, &Request<'_>),
        now_s: u32,
        sink: &mut S,
    ) -> bool {
        match partition.read(index, request, now_s, sink) {
            Read::Done { count } => {
                // Counting is a write, and no more than a wish: not worth waiting for.
                if count && let Some(writer) = partition.try_writer(now_s) {
                    writer.note_request(request.hash, request.key);
                }
                true
            }
            Read::NoRoom => false,
            Read::Contended => partition.writer(now_s).get((index, request), false, sink),
        }
    }
}

impl Cache {
    /// Starts loading what a batch will need.
    #[inline]
    pub(crate) fn prefetch(&self, batch: &[Request<'_>]) {
        for request in batch {
            self.partition(request.hash).bucket(request.hash).prefetch();
        }
        for request in batch {
            self.partition(request.hash).prefetch_items(request.hash);
        }
    }

    /// Executes one request; returns whether the sink had room for its reply.
    #[inline]
    pub(crate) fn execute_one<M: Mode, S: ReplySink>(
        &self,
        (index, request): (usize, &Request<'_>),
        now_s: u32,
        sink: &mut S,
    ) -> bool {
        let partition = self.partition(request.hash);
        let value_bytes_max = self.value_bytes_max();
        let outcome = match request.operation {
            Operation::Get { cas: false } => {
                return M::get(partition, (index, request), now_s, sink);
            }
            Operation::Get { cas } => {
                let writer = M::writer(partition, now_s);
                return writer.get((index, request), cas, sink);
            }
            Operation::GetAndTouch { expiry, cas } => {
                let touch = || M::writer(partition, now_s).touch(request, expiry);
                match until_not_busy(touch) {
                    Outcome::Touched => {
                        return M::writer(partition, now_s).get((index, request), cas, sink);
                    }
                    refused => refused,
                }
            }
            _ if request.key.is_empty() || request.key.len() > crate::limits::KEY_BYTES_MAX => {
                Outcome::TooLarge
            }
            Operation::Store { value, .. } if value.len() > value_bytes_max => Outcome::TooLarge,
            Operation::Store {
                condition,
                value,
                flags,
                expiry,
            } if M::SHARED && value.len() >= crate::limits::LONG_VALUE_BYTES => {
                partition.store_long(request, condition, value, (flags, expiry), now_s)
            }
            Operation::Store {
                condition,
                value,
                flags,
                expiry,
            } => until_not_busy(|| {
                let writer = M::writer(partition, now_s);
                writer.store(request, condition, value, (flags, expiry))
            }),
            operation => until_not_busy(|| {
                let writer = M::writer(partition, now_s);
                execute_rare(&writer, request, operation, value_bytes_max)
            }),
        };
        sink.finish(index, outcome);
        true
    }
}

/// Repeats what was stopped by an item that another thread is still writing; that thread needs
/// the lock to finish.
#[inline]
fn until_not_busy(mut execute: impl FnMut() -> Outcome) -> Outcome {
    loop {
        match execute() {
            Outcome::Busy => yield_now(),
            outcome => return outcome,
        }
    }
}

#[inline(never)]
fn execute_rare(
    writer: &Writer<'_>,
    request: &Request<'_>,
    operation: Operation<'_>,
    value_bytes_max: usize,
) -> Outcome {
    match operation {
        Operation::Append { value } => {
            writer.concatenate(request, Side::After, value, value_bytes_max)
        }
        Operation::Prepend { value } => {
            writer.concatenate(request, Side::Before, value, value_bytes_max)
        }
        Operation::Increment { delta } => {
            writer.arithmetic(request, |number| number.wrapping_add(delta))
        }
        Operation::Decrement { delta } => {
            writer.arithmetic(request, |number| number.saturating_sub(delta))
        }
        Operation::Touch { expiry } => writer.touch(request, expiry),
        Operation::Delete => writer.delete(request),
        Operation::Get { .. } | Operation::GetAndTouch { .. } | Operation::Store { .. } => {
            unreachable!("executed by the caller")
        }
    }
}
