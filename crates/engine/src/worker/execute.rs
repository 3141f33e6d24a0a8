//! Execution of a batch: requests in order, each with what prefetching found for it. A long batch is cut into
//! windows, and each is prefetched and executed before the next.

use micanite_memory::sync::{AtomicU64, Ordering};

use crate::access::Permission;
use crate::limits::WINDOW_REQUESTS;
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
        while next == Next::Unhinted
            && let Some(request) = batch.get(executed)
        {
            next = self.execute_unhinted((executed, request), now_s, sink);
            executed += usize::from(next != Next::NoRoom);
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
            let next;
            (executed, next) = self.execute_window(window, hints.all(), executed, now_s, sink);
            if next != Next::Request {
                return (executed, next);
            }
        }
        (executed, Next::Request)
    }

    /// Executes the requests of a window. Returns how many of the batch were executed then, `executed` of
    /// them before.
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
        for (request, hint) in window.iter().zip(hints) {
            match pipeline::execute_hinted(cache, (executed, request), hint, now_s, sink) {
                Some(true) => {
                    if let Some(loads) = loads {
                        count(loads, hint.partition);
                    }
                }
                Some(false) => return (executed, Next::NoRoom),
                None => match self.execute_doubtful((executed, request), hint, now_s, sink) {
                    Next::Request => {}
                    Next::NoRoom => return (executed, Next::NoRoom),
                    next => return (executed + 1, next),
                },
            }
            executed += 1;
        }
        (executed, Next::Request)
    }

    /// Executes a request for which nothing was prefetched, or nothing that is still true.
    #[inline]
    fn execute_unhinted<S: ReplySink + Send>(
        &self,
        (index, request): (usize, &Request<'_>),
        now_s: u32,
        sink: &mut S,
    ) -> Next {
        let partition = self.cache.partition(request.hash);
        let hint = Hint::nothing(partition, partition.index_hash(request.hash));
        match self.execute_doubtful((index, request), &hint, now_s, sink) {
            Next::Request => Next::Unhinted,
            next => next,
        }
    }

    /// Executes a request whose hint needs a closer look.
    #[inline(never)]
    fn execute_doubtful<S: ReplySink + Send>(
        &self,
        (index, request): (usize, &Request<'_>),
        hint: &Hint<'_>,
        now_s: u32,
        sink: &mut S,
    ) -> Next {
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
            return if had_room { next } else { Next::NoRoom };
        }
        let asked = HashedRequest { hash: hint.hash, key: request.key, operation: &request.operation };
        let numbered = (index, &asked);
        let had_room = match permission {
            Permission::Own => pipeline::execute_one::<Own, S>(cache, numbered, hint, now_s, sink),
            Permission::Share => pipeline::execute_one::<Share, S>(cache, numbered, hint, now_s, sink),
            Permission::Read { owner } => self.read_concurrently(owner, numbered, hint, now_s, sink),
            Permission::Elsewhere { owner } => self.delegate((owner, partition), numbered, now_s, sink),
            Permission::Wait => unreachable!("nobody changes routes during a turn"),
        };
        if !had_room {
            return Next::NoRoom;
        }
        if !matches!(permission, Permission::Elsewhere { .. }) {
            self.count(partition);
        }
        if copy_budget::is_spent() { Next::Spent } else { next }
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
