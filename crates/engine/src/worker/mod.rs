//! A worker executes batches of requests, with its permission for each partition.

mod accesses;
mod execute;
mod flush;
pub(crate) mod outside;
pub(crate) mod pipeline;
mod prefetch;
mod simple;
pub(crate) mod simple_cache;
mod upkeep;

use std::sync::Arc;

use micanite_memory::sync::{Ordering, yield_now};
use micanite_wire::hash::KeyHash;

use crate::access::Permission;
use crate::access::lock::{Queue, Turn};
use crate::cache::Cache;
use crate::limits::READ_ROUNDS_MAX;
use crate::operations::request::{HashedRequest, Operation, Outcome, ReplySink, Request};
use crate::partition::{Hint, Partition};
use crate::reader::walk::{Visitor, Walk, Walked};
use crate::reader::{PlainGet, Read};
use crate::region::copy_budget;
use crate::worker::pipeline::Own;

/// The right to execute requests, as one of the workers that the cache was made for. One per
/// thread.
#[derive(Debug)]
pub struct Worker {
    cache: Arc<Cache>,
    number: usize,
    /// Bytes that the turn may still move within the memory.
    turn_left_bytes: isize,
    /// Bytes that all earlier turns have moved.
    moved_before_bytes: u64,
    /// The partition that upkeep begins with; it rotates.
    maintained_first: usize,
}

impl Drop for Worker {
    /// Shares the partitions that it owned: it would no longer answer for them.
    fn drop(&mut self) {
        if self.cache.handles_free.len() > 1 {
            let idle = || self.serve_mailbox();
            self.cache.share_partitions_of(self.number, idle);
        }
        self.cache.handles_free[self.number].store(true, Ordering::Release);
    }
}

/// Requests, and their sink, that another thread executes meanwhile.
struct Delegated<'a, S> {
    /// Index of the next request in the batch of the requesting worker.
    index: usize,
    requests: &'a [Request<'a>],
    sink: &'a mut S,
    had_room: bool,
    /// Bytes that the turn of the requesting worker may still move.
    left_bytes: isize,
}

/// A worker inside a batch.
pub(crate) struct Batch<'a>(&'a Worker);

impl Batch<'_> {
    /// Returns the worker's number.
    pub fn number(&self) -> usize {
        self.0.number
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.0.cache.epochs.leave(self.0.number);
    }
}

impl Cache {
    /// Returns the handle of a worker, 0 to `workers - 1`. Returns `None` while the handle is in
    /// use, and for numbers out of range.
    pub fn worker(self: &Arc<Self>, number: usize) -> Option<Worker> {
        let free = self.handles_free.get(number)?;
        free.swap(false, Ordering::AcqRel).then(|| {
            self.ended[number].store(false, Ordering::Release);
            Worker::new(Arc::clone(self), number)
        })
    }
}

impl Worker {
    pub(crate) fn new(cache: Arc<Cache>, number: usize) -> Self {
        Self {
            cache,
            number,
            turn_left_bytes: copy_budget::UNLIMITED,
            moved_before_bytes: 0,
            maintained_first: 0,
        }
    }

    /// Returns the cache.
    #[inline]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the cache, for tests.
    #[cfg(all(test, not(any(loom, miri))))]
    pub(crate) fn shared_cache(&self) -> Arc<Cache> {
        Arc::clone(&self.cache)
    }

    /// Returns the worker's number, 0 to `workers - 1`.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Walks like [`Cache::walk`], on the thread of a worker, outside of a batch.
    pub fn walk(
        &self,
        walk: &mut Walk,
        buckets_max: usize,
        now_s: u32,
        visitor: &mut impl Visitor,
    ) -> Walked {
        let idle = || self.serve_mailbox();
        self.cache.walk_idly(walk, buckets_max, now_s, visitor, idle)
    }

    /// Begins a batch, until the result is dropped: permissions loaded meanwhile hold.
    pub(crate) fn enter(&self) -> Batch<'_> {
        self.cache.epochs.enter(self.number);
        Batch(self)
    }

    /// Prefetches the bucket of a key: a hint, useful as soon as the hash is known.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        let partition = self.cache.partition(hash);
        partition.bucket(partition.index_hash(hash)).prefetch();
    }

    /// Begins a turn: from now on requests move at most [`Cache::turn_moved_bytes`] within the
    /// memory, and one item more. Without a turn there is no such limit.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.moved_before_bytes = self.moved_total_bytes();
        self.turn_left_bytes = self.cache.turn_moved_bytes() as isize;
    }

    /// Returns the bytes that the turn has moved.
    #[inline]
    pub fn moved_bytes(&self) -> usize {
        let allowed_bytes = self.cache.turn_moved_bytes() as isize;
        allowed_bytes.saturating_sub(self.turn_left_bytes).max(0) as usize
    }

    /// Returns the bytes that all turns have moved, this one included: it never decreases.
    #[inline]
    pub fn moved_total_bytes(&self) -> u64 {
        self.moved_before_bytes + self.moved_bytes() as u64
    }

    /// Charges work outside of the engine to the turn, as moved bytes.
    pub fn charge(&mut self, bytes: usize) {
        self.turn_left_bytes = self.turn_left_bytes.saturating_sub_unsigned(bytes);
    }

    /// Returns whether the turn has moved as much as it may.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.turn_left_bytes <= 0
    }

    /// Executes a request for a partition that this worker may only read. Returns whether the sink had room;
    /// `None` if the owner has to execute it: it writes, or the owner writes the same bucket all the time.
    #[inline]
    fn read_concurrently<S: ReplySink + Send>(
        &self,
        (index, request): (usize, &HashedRequest<'_>),
        hint: &Hint<'_>,
        now_s: u32,
        sink: &mut S,
    ) -> Option<bool> {
        let partition = hint.partition;
        for _ in 0..READ_ROUNDS_MAX {
            let numbered = (index, request);
            let read = match request.operation {
                Operation::Get { cas: false } => {
                    partition.read_prefetched(numbered, &PlainGet, hint, now_s, sink)
                }
                Operation::MetaGet(get) => partition.read_prefetched(numbered, get, hint, now_s, sink),
                _ => Read::Changes,
            };
            match read {
                Read::Done { count } => {
                    if count {
                        partition.note_read(false, (request.hash, request.key), now_s);
                    }
                    return Some(true);
                }
                Read::NoRoom => return Some(false),
                Read::Contended => {
                    self.serve_mailbox();
                    yield_now();
                }
                Read::Changes => break,
            }
        }
        None
    }

    /// Delegates requests of one owner's partitions to it, and waits for them. Returns how many were
    /// executed: fewer than given when the sink had no room for the next reply, or the turn is spent.
    #[cold]
    fn delegate<S: ReplySink + Send>(
        &self,
        owner: usize,
        (index, requests): (usize, &[Request<'_>]),
        now_s: u32,
        sink: &mut S,
    ) -> (usize, bool) {
        let cache = &*self.cache;
        let Some(waker) = cache.waker.get() else {
            sink.finish(index, Outcome::NotOwner);
            return (1, true);
        };
        let left_bytes = copy_budget::replace(copy_budget::UNLIMITED);
        let mut job = Delegated { index, requests, sink, had_room: true, left_bytes };
        // The owner's thread has the permission: this worker is inside a batch, so the routes that it has
        // loaded still hold. The turn of the requesting worker pays for moved bytes.
        let run = || {
            let outer = copy_budget::replace(job.left_bytes);
            for request in job.requests {
                let partition = cache.partition(request.hash);
                let hint = Hint::nothing(partition, partition.index_hash(request.hash));
                let asked =
                    HashedRequest { hash: hint.hash, key: request.key, operation: &request.operation };
                let numbered = (job.index, &asked);
                job.had_room = pipeline::execute_one::<Own, S>(cache, numbered, &hint, now_s, job.sink);
                job.index += usize::from(job.had_room);
                if !job.had_room || copy_budget::is_spent() {
                    break;
                }
            }
            job.left_bytes = copy_budget::replace(outer);
        };
        let pair = (self.number, owner);
        cache.mailboxes.delegate(pair, run, || waker(owner));
        copy_budget::replace(job.left_bytes);
        (job.index - index, job.had_room)
    }

    /// Lets a route change finish, and waits until it is done. It loads the permission while no
    /// route changes, so that it does not see the next change.
    #[cold]
    fn wait(&self, partition: &Partition) -> Permission {
        let cache = &*self.cache;
        cache.epochs.leave(self.number);
        let _turn = self.turn(&cache.changing);
        cache.epochs.enter(self.number);
        partition.route.permission(self.number)
    }

    /// Executes the requests that other workers have delegated to this one, while it waits.
    pub(crate) fn serve_mailbox(&self) {
        self.cache.mailboxes.serve(self.number);
    }

    /// Takes a place in a queue. This worker serves others while it waits.
    fn turn<'q>(&self, queue: &'q Queue) -> Turn<'q> {
        queue.wait(|| self.serve_mailbox())
    }

    /// Executes the requests that other workers have delegated to this one. Call it after a
    /// wake-up.
    pub fn serve(&mut self) {
        self.cache.epochs.enter(self.number);
        self.cache.mailboxes.serve(self.number);
        self.cache.epochs.leave(self.number);
    }

    /// Announces that the thread is about to sleep: from now on requests wake it through the
    /// cache's waker. Returns false if a request has come, so that it should not sleep.
    pub fn fall_asleep(&mut self) -> bool {
        self.cache.mailboxes.fall_asleep(self.number)
    }

    /// Announces that the thread has woken.
    pub fn wake_up(&mut self) {
        self.cache.mailboxes.wake_up(self.number);
        self.serve();
    }
}
