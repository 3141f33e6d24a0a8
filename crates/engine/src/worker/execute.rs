//! Execution of a batch: requests in order, each with what prefetching found for it. A long batch is cut into
//! windows, and each is prefetched and executed before the next.

use micanite_memory::sync::{AtomicU64, Ordering};

use crate::access::Permission;
use crate::limits::{DELEGATED_REQUESTS_MAX, WINDOW_REQUESTS};
use crate::operations::request::{HashedRequest, Operation, ReplySink, Request};
use crate::partition::{Hint, Partition};
use crate::reader::Read;
use crate::region::copy_budget;
use crate::worker::Worker;
use crate::worker::pipeline::{self, Own, Share};
use crate::worker::prefetch::{Hints, look_up, prefetch_buckets, prefetch_items};

/// Step after a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The next request.
    Request,
    /// The next request, but all hints are void: another owner may have written.
    Unhinted,
    /// The end of the batch: the turn is spent.
    Spent,
    /// The end of the batch: there was no room for the reply, and the request was not executed.
    NoRoom,
}

impl Worker {
    /// Executes requests in order, at least one. Returns how many: fewer than given when the turn
    /// is spent ([`Self::is_spent`]), or when [`ReplySink::reserve`] had no room for the next one.
    /// That one then has had no effect but that of a touch.
    ///
    /// The owner of a partition that this worker may not touch executes the request meanwhile, on
    /// the owner's thread, if the cache has a waker ([`crate::Cache::set_waker`]). Otherwise the outcome
    /// is [`crate::Outcome::NotOwner`].
    ///
    /// `now_s` is on the same clock as the expiries.
    ///
    /// More requests overlap more of the memory's latency: batches of 16 or more are worth collecting, and
    /// beyond [`crate::BATCH_REQUESTS_MAX`] nothing is gained. A route change waits for the end of the batch.
    #[inline]
    pub fn execute<S: ReplySink + Send>(&mut self, batch: &[Request<'_>], now_s: u32, sink: &mut S) -> usize {
        self.flush_if_due(now_s);
        let cache = &*self.cache;
        cache.epochs.enter(self.number);
        cache.mailboxes.serve(self.number);
        let outer = copy_budget::replace(self.turn_left_bytes);
        let (mut executed, mut next) = if self.is_spent() || !cache.prefetch_on.load(Ordering::Relaxed) {
            (0, Next::Unhinted)
        } else if let [request] = batch {
            let hint = look_up(cache, self.number, request.hash);
            self.execute_window(std::slice::from_ref(request), std::slice::from_ref(&hint), 0, now_s, sink)
        } else {
            self.execute_windows(batch, now_s, sink)
        };
        while next == Next::Unhinted && executed < batch.len() {
            let count;
            (count, next) = self.execute_unhinted((executed, &batch[executed..]), now_s, sink);
            executed += count;
        }
        self.turn_left_bytes = copy_budget::replace(outer);
        cache.epochs.leave(self.number);
        executed
    }

    /// Prefetches and executes one window after the other. Returns how many requests were executed.
    #[inline]
    fn execute_windows<S: ReplySink + Send>(
        &self,
        batch: &[Request<'_>],
        now_s: u32,
        sink: &mut S,
    ) -> (usize, Next) {
        let cache = &*self.cache;
        let mut hints = Hints::new();
        let mut executed = 0;
        for window in batch.chunks(WINDOW_REQUESTS) {
            prefetch_buckets(cache, self.number, window, &mut hints);
            prefetch_items(cache.level, &mut hints);
            let before = executed;
            while executed - before < window.len() {
                let done = executed - before;
                let (rest, hints) = (&window[done..], &hints.all()[done..]);
                let next;
                (executed, next) = self.execute_window(rest, hints, executed, now_s, sink);
                if next != Next::Request {
                    return (executed, next);
                }
            }
        }
        (executed, Next::Request)
    }

    /// Executes the requests of a window, at most until others were delegated with one. Returns how many of
    /// the batch were executed then, `executed` of them before.
    #[inline(always)]
    fn execute_window<S: ReplySink + Send>(
        &self,
        window: &[Request<'_>],
        hints: &[Hint<'_>],
        mut executed: usize,
        now_s: u32,
        sink: &mut S,
    ) -> (usize, Next) {
        let cache = &*self.cache;
        let loads = cache.loads.get(self.number);
        let before = executed;
        for (request, hint) in window.iter().zip(hints) {
            match pipeline::execute_hinted(cache, (executed, request), hint, now_s, sink) {
                Some(true) => {
                    if let Some(loads) = loads {
                        count(loads, hint.partition);
                    }
                }
                Some(false) => return (executed, Next::NoRoom),
                None => {
                    let rest = &window[executed - before..];
                    let (count, next) = self.execute_doubtful((executed, rest), hint, now_s, sink);
                    if count != 1 || next != Next::Request {
                        return (executed + count, next);
                    }
                }
            }
            executed += 1;
        }
        (executed, Next::Request)
    }

    /// Executes the first of these requests, for which nothing was prefetched, or nothing that is still true,
    /// and those that were delegated with it. Returns how many.
    #[inline]
    fn execute_unhinted<S: ReplySink + Send>(
        &self,
        (index, requests): (usize, &[Request<'_>]),
        now_s: u32,
        sink: &mut S,
    ) -> (usize, Next) {
        let partition = self.cache.partition(requests[0].hash);
        let hint = Hint::nothing(partition, partition.index_hash(requests[0].hash));
        let (count, next) = self.execute_doubtful((index, requests), &hint, now_s, sink);
        (count, if next == Next::Request { Next::Unhinted } else { next })
    }

    /// Executes a request whose hint needs a closer look: the first of these. Another worker that has to
    /// execute it executes those behind it that are for it, too. Returns how many were executed.
    #[inline(never)]
    fn execute_doubtful<S: ReplySink + Send>(
        &self,
        (index, requests): (usize, &[Request<'_>]),
        hint: &Hint<'_>,
        now_s: u32,
        sink: &mut S,
    ) -> (usize, Next) {
        let request = &requests[0];
        let (cache, partition) = (&*self.cache, hint.partition);
        let nothing;
        let (mut hint, mut next) = (hint, Next::Request);
        let mut permission = partition.route.permission(self.number);
        if permission == Permission::Wait {
            permission = self.wait(partition);
            // Another owner may have written meanwhile.
            nothing = Hint::nothing(partition, hint.hash);
            (hint, next) = (&nothing, Next::Unhinted);
        }
        if let Operation::Get { cas: false } = request.operation
            && let Some(had_room) = self.read_plain((index, request.key), (permission, hint), now_s, sink)
        {
            return if had_room { (1, next) } else { (0, Next::NoRoom) };
        }
        let asked = HashedRequest { hash: hint.hash, key: request.key, operation: &request.operation };
        let numbered = (index, &asked);
        let done = match permission {
            Permission::Own => Some(pipeline::execute_one::<Own, S>(cache, numbered, hint, now_s, sink)),
            Permission::Share => Some(pipeline::execute_one::<Share, S>(cache, numbered, hint, now_s, sink)),
            Permission::Read { .. } => self.read_concurrently(numbered, hint, now_s, sink),
            Permission::Elsewhere { .. } => None,
            Permission::Wait => unreachable!("nobody changes routes during a turn"),
        };
        let (count, had_room) = if let Some(had_room) = done {
            (usize::from(had_room), had_room)
        } else {
            self.delegate_run(permission, (index, requests), now_s, sink)
        };
        if !matches!(permission, Permission::Elsewhere { .. }) {
            requests[..count].iter().for_each(|request| self.count(cache.partition(request.hash)));
        }
        let next = match (had_room, copy_budget::is_spent()) {
            (false, _) => Next::NoRoom,
            (true, true) => Next::Spent,
            (true, false) => next,
        };
        (count, next)
    }

    /// Delegates the first of these requests, and those behind it for which this worker has the same
    /// permission: up to the last one that the owner has to execute. Returns how many were executed, and
    /// whether the sink had room.
    #[cold]
    fn delegate_run<S: ReplySink + Send>(
        &self,
        permission: Permission,
        (index, requests): (usize, &[Request<'_>]),
        now_s: u32,
        sink: &mut S,
    ) -> (usize, bool) {
        let (Permission::Read { owner } | Permission::Elsewhere { owner }) = permission else {
            unreachable!("nobody else owns the partition: {permission:?}");
        };
        let cache = &*self.cache;
        let is_same = |request: &&Request<'_>| {
            cache.partition(request.hash).route.permission(self.number) == permission
        };
        let same = requests.iter().take(DELEGATED_REQUESTS_MAX).take_while(is_same).count();
        let may_stay = |request: &Request<'_>| {
            matches!(permission, Permission::Read { .. })
                && matches!(request.operation, Operation::Get { cas: false } | Operation::MetaGet(_))
        };
        let last = requests[..same].iter().rposition(|request| !may_stay(request)).unwrap_or(0);
        self.delegate(owner, (index, &requests[..=last]), now_s, sink)
    }

    #[inline(always)]
    fn count(&self, partition: &Partition) {
        if let Some(loads) = self.cache.loads.get(self.number) {
            count(loads, partition);
        }
    }

    /// Reads an item beside other writers where prefetching saw it, if neither it nor the permission is
    /// unusual. Returns whether the sink had room.
    #[inline(always)]
    fn read_plain<S: ReplySink>(
        &self,
        (index, key): (usize, &[u8]),
        (permission, hint): (Permission, &Hint<'_>),
        now_s: u32,
        sink: &mut S,
    ) -> Option<bool> {
        if !matches!(permission, Permission::Read { .. } | Permission::Share) {
            return None;
        }
        let partition = hint.partition;
        let Read::Done { count: is_counted } = partition.read_plain((index, key), hint, sink)? else {
            return Some(false);
        };
        self.count(partition);
        if is_counted {
            partition.note_read(permission == Permission::Share, (hint.hash, key), now_s);
        }
        Some(true)
    }
}

/// Counts a request of a worker, for the balance of loads.
#[inline(always)]
fn count(loads: &[AtomicU64], partition: &Partition) {
    let load = &loads[partition.layout.number];
    load.store(load.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
