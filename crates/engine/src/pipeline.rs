//! The batch pipeline (MICA 4.3.2, multi-stage prefetching): load the buckets of all requests,
//! then the items they point to, then execute in order.
//!
//! Loads of one stage overlap; a request pays for memory once per batch, not once per request.
//! The stages are hints: requests take effect in the third, one after the other, so a batch is
//! as ordered as the requests would be alone.

use crate::cache::Cache;
use crate::operations::Side;
use crate::partition::Partition;
use crate::reader::Read;
use crate::request::{Operation, Outcome, ReplySink, Request};
use crate::writer::Writer;

/// How a batch may touch partitions; chosen once per batch, so that the loop is compiled for it.
pub(crate) trait Access {
    /// The writer of a partition.
    fn writer(partition: &Partition) -> Writer<'_>;

    /// A get without CAS or touch. Returns whether the sink had room.
    fn get<S: ReplySink>(
        partition: &Partition,
        request: (usize, &Request<'_>),
        now_s: u32,
        sink: &mut S,
    ) -> bool;
}

/// One worker owns every partition (EREW with one core).
pub(crate) enum Exclusive {}

/// Workers share partitions: optimistic reads, writes under the partition's lock.
pub(crate) enum Shared {}

impl Access for Exclusive {
    #[inline]
    fn writer(partition: &Partition) -> Writer<'_> {
        #[expect(unsafe_code, reason = "the exclusive owner takes no lock")]
        // SAFETY: this access is chosen for a cache of one worker, whose handle exists once, and
        // is borrowed mutably while a batch runs.
        unsafe {
            partition.owner()
        }
    }

    #[inline]
    fn get<S: ReplySink>(
        partition: &Partition,
        request: (usize, &Request<'_>),
        now_s: u32,
        sink: &mut S,
    ) -> bool {
        Self::writer(partition).get(request, false, None, now_s, sink)
    }
}

impl Access for Shared {
    #[inline]
    fn writer(partition: &Partition) -> Writer<'_> {
        partition.writer()
    }

    #[inline]
    fn get<S: ReplySink>(
        partition: &Partition,
        (index, request): (usize, &Request<'_>),
        now_s: u32,
        sink: &mut S,
    ) -> bool {
        match partition.read(index, request, now_s, sink) {
            Read::Done { due } => {
                // A move is a write, and no more than a wish: not worth waiting for.
                if due && let Some(writer) = partition.try_writer() {
                    writer.reinsert(request, now_s);
                }
                true
            }
            Read::NoRoom => false,
            Read::Contended => partition
                .writer()
                .get((index, request), false, None, now_s, sink),
        }
    }
}

impl Cache {
    /// Runs a batch; returns how many requests were executed.
    #[inline]
    pub(crate) fn run<A: Access, S: ReplySink>(
        &self,
        batch: &[Request<'_>],
        now_s: u32,
        sink: &mut S,
        prefetch: bool,
    ) -> usize {
        if prefetch && batch.len() > 1 {
            for request in batch {
                self.partition(request.hash).bucket(request.hash).prefetch();
            }
            for request in batch {
                self.partition(request.hash).prefetch_items(request.hash);
            }
        }
        for (index, request) in batch.iter().enumerate() {
            if !self.execute_one::<A, S>(index, request, now_s, sink) {
                return index;
            }
        }
        batch.len()
    }

    /// Executes one request; returns whether the sink had room for its reply.
    #[inline]
    fn execute_one<A: Access, S: ReplySink>(
        &self,
        index: usize,
        request: &Request<'_>,
        now_s: u32,
        sink: &mut S,
    ) -> bool {
        let partition = self.partition(request.hash);
        let outcome = match request.operation {
            Operation::Get { cas: false } => {
                return A::get(partition, (index, request), now_s, sink);
            }
            Operation::Get { cas } => {
                return A::writer(partition).get((index, request), cas, None, now_s, sink);
            }
            Operation::GetAndTouch { expiry, cas } => {
                let request = (index, request);
                return A::writer(partition).get(request, cas, Some(expiry), now_s, sink);
            }
            _ if request.key.is_empty() || request.key.len() > crate::limits::KEY_BYTES_MAX => {
                Outcome::TooLarge
            }
            Operation::Store {
                condition,
                value,
                flags,
                expiry,
            } => {
                if value.len() > self.value_bytes_max() {
                    Outcome::TooLarge
                } else {
                    let meta = (flags, expiry);
                    A::writer(partition).store(request, condition, value, meta, now_s)
                }
            }
            operation => self.execute_rare(&A::writer(partition), request, operation, now_s),
        };
        sink.finish(index, outcome);
        true
    }

    #[inline(never)]
    fn execute_rare(
        &self,
        writer: &Writer<'_>,
        request: &Request<'_>,
        operation: Operation<'_>,
        now_s: u32,
    ) -> Outcome {
        let max = self.value_bytes_max();
        match operation {
            Operation::Append { value } => {
                writer.concatenate(request, Side::After, value, max, now_s)
            }
            Operation::Prepend { value } => {
                writer.concatenate(request, Side::Before, value, max, now_s)
            }
            Operation::Increment { delta } => {
                writer.arithmetic(request, |number| number.wrapping_add(delta), now_s)
            }
            Operation::Decrement { delta } => {
                writer.arithmetic(request, |number| number.saturating_sub(delta), now_s)
            }
            Operation::Touch { expiry } => writer.touch(request, expiry, now_s),
            Operation::Delete => writer.delete(request, now_s),
            Operation::Get { .. } | Operation::GetAndTouch { .. } | Operation::Store { .. } => {
                unreachable!("executed by the caller")
            }
        }
    }
}
