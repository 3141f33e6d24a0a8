//! Batches of requests, and the workers that execute them: one at a time, and another one when the
//! first may not use a partition.

use std::sync::Arc;

use super::Key;
use crate::tests::support::{Reply, Setup};
use crate::*;

/// One request, owned.
#[derive(Clone, Debug)]
pub(crate) struct OwnedRequest {
    pub key: usize,
    pub action: Action,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Get { cas: bool },
    GetEntry,
    GetAndTouch { expiry: Expiry, cas: bool },
    Store { condition: Condition, value: Vec<u8>, flags: u32, expiry: Expiry },
    StoreEntry { condition: Condition, value: Vec<u8>, flags: u32, expiry: Expiry },
    Concatenate { before: bool, more: Vec<u8> },
    Arithmetic { up: bool, delta: u64 },
    Touch { expiry: Expiry },
    Delete,
    MetaGet(MetaGet),
    MetaStore { store: MetaStore<'static>, value: Vec<u8> },
    MetaDelete(MetaDelete),
    MetaArithmetic(MetaArithmetic),
}

impl Action {
    fn operation(&self) -> Operation<'_> {
        match *self {
            Self::Get { cas } => Operation::Get { cas },
            Self::GetEntry => Operation::GetEntry,
            Self::GetAndTouch { expiry, cas } => Operation::GetAndTouch { expiry, cas },
            Self::Store { condition, ref value, flags, expiry } => {
                Operation::Store { condition, value, flags, expiry }
            }
            Self::StoreEntry { condition, ref value, flags, expiry } => {
                Operation::StoreEntry { condition, value, flags, expiry }
            }
            Self::Concatenate { before: true, ref more } => Operation::Prepend { value: more },
            Self::Concatenate { ref more, .. } => Operation::Append { value: more },
            Self::Arithmetic { up: true, delta } => Operation::Increment { delta },
            Self::Arithmetic { delta, .. } => Operation::Decrement { delta },
            Self::Touch { expiry } => Operation::Touch { expiry },
            Self::Delete => Operation::Delete,
            Self::MetaGet(get) => Operation::MetaGet(get),
            Self::MetaStore { store, ref value } => Operation::MetaStore(MetaStore { value, ..store }),
            Self::MetaDelete(delete) => Operation::MetaDelete(delete),
            Self::MetaArithmetic(by) => Operation::MetaArithmetic(by),
        }
    }
}

/// Replies of a batch, in the order in which its requests took effect.
pub(super) struct Executed {
    pub in_order: Vec<(usize, Reply)>,
    pub elsewhere: u64,
}

/// Handles of all workers, used by one thread.
pub(super) struct Workers {
    setup: Setup,
    cache: Arc<Cache>,
    handles: Vec<Worker>,
    /// Number of the present worker.
    turn: usize,
    pub now_s: u32,
    /// Values that the sink of the next batch has room for.
    pub room_values: usize,
}

impl Workers {
    pub fn new(setup: &Setup) -> Self {
        let cache = setup.cache();
        Self {
            setup: *setup,
            handles: Self::handles(&cache, setup),
            cache,
            turn: 0,
            now_s: 1000,
            room_values: usize::MAX,
        }
    }

    fn handles(cache: &Arc<Cache>, setup: &Setup) -> Vec<Worker> {
        let handle = |number| cache.worker(number).unwrap();
        (0..setup.workers).map(handle).collect()
    }

    /// Opens the cache anew in its maps, if it has any, after a close or after a kill.
    pub fn reopen(&mut self, closed: bool) -> bool {
        let Some(maps) = self.cache.config().maps.clone() else {
            return false;
        };
        // The first batch or upkeep after its second does a flush. The model does it in that
        // second, and counts its items.
        self.execute_once(&[], &[], &[]);
        if closed {
            self.end_write_back();
            crate::image::close(&self.cache.partitions).unwrap();
        }
        self.handles.clear();
        self.cache = self.setup.cache_in(Some(Maps { kept: true, ..maps }));
        self.handles = Self::handles(&self.cache, &self.setup);
        true
    }

    /// Ends write-back; the upkeep copies back what is left.
    fn end_write_back(&mut self) {
        self.cache.end_write_back();
        let now_s = self.now_s;
        while self.cache.dirty_chunks() > 0 {
            self.handles.iter_mut().for_each(|worker| worker.maintain(now_s));
        }
    }

    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    pub fn turn(&mut self) -> &mut Worker {
        &mut self.handles[self.turn]
    }

    /// Calls the present worker while the others sleep.
    pub fn beside_sleepers<T>(&mut self, call: impl FnOnce(&mut Worker) -> T) -> T {
        let turn = self.turn;
        let others = |number: &usize| *number != turn;
        for other in (0..self.handles.len()).filter(others) {
            assert!(self.handles[other].fall_asleep());
        }
        let result = call(self.turn());
        for other in (0..self.handles.len()).filter(others) {
            self.handles[other].wake_up();
        }
        result
    }

    /// Switches to the next worker.
    pub fn swap(&mut self) {
        self.turn = (self.turn + 1) % self.handles.len();
    }

    pub fn maintain(&mut self) {
        let now_s = self.now_s;
        self.turn().maintain(now_s);
    }

    /// Changes the mode and the owner of one partition.
    pub fn change_route(&mut self, drawn: usize) {
        let access = [Access::Erew, Access::Crew, Access::Crcw][drawn % 3];
        let owner = drawn / 3 % self.handles.len();
        let partition = drawn / 16 % self.cache.layout().partitions;
        self.cache.set_route(partition, Route { access, owner }).unwrap();
        if drawn.is_multiple_of(7) {
            self.delegate_from_now_on();
        }
    }

    /// Lets the other workers execute what is theirs, once they are woken.
    fn delegate_from_now_on(&mut self) {
        let cache = Arc::downgrade(&self.cache);
        self.cache.set_waker(move |owner| cache.upgrade().unwrap().mailboxes.serve(owner));
    }

    /// Executes a batch, to the end: repeats requests that a full sink or another owner stopped.
    pub fn execute(&mut self, keys: &[Key], batch: &[OwnedRequest]) -> Executed {
        let mut in_order = Vec::with_capacity(batch.len());
        let mut left: Vec<usize> = (0..batch.len()).collect();
        let mut elsewhere = Vec::new();
        while !left.is_empty() {
            let replies = self.execute_once(keys, batch, &left);
            for (reply, at) in replies.into_iter().zip(left.iter().copied()) {
                if reply.outcome == Some(Outcome::NotOwner) {
                    self.check_not_owner(keys[batch[at].key].hash, &batch[at].action);
                    elsewhere.push(at);
                } else {
                    in_order.push((at, reply));
                }
            }
            let taken = in_order.len() + elsewhere.len();
            left.drain(..left.len() - (batch.len() - taken));
        }
        let repeated = elsewhere.len() as u64;
        if repeated > 0 {
            self.swap();
            let replies = self.execute_once(keys, batch, &elsewhere);
            assert_eq!(replies.len(), elsewhere.len());
            in_order.extend(elsewhere.into_iter().zip(replies));
        }
        Executed { in_order, elsewhere: repeated }
    }

    fn execute_once(&mut self, keys: &[Key], batch: &[OwnedRequest], which: &[usize]) -> Vec<Reply> {
        let request = |at: &usize| {
            let request = &batch[*at];
            let key = &keys[request.key];
            Request { hash: key.hash, key: &key.name, operation: request.action.operation() }
        };
        let requests: Vec<_> = which.iter().map(request).collect();
        let room_values = std::mem::replace(&mut self.room_values, usize::MAX);
        let mut sink = Sink { replies: Vec::with_capacity(which.len()), room_values, ..Sink::default() };
        let now_s = self.now_s;
        let executed = self.beside_sleepers(|worker| worker.execute(&requests, now_s, &mut sink));
        assert_eq!(executed, sink.replies.len(), "replies of a batch");
        let full = executed < which.len();
        assert!(!full || sink.room_values == 0, "a batch ended with room");
        sink.replies
    }

    /// Checks that `NotOwner` comes only where the route requires it.
    fn check_not_owner(&self, hash: KeyHash, action: &Action) {
        let route = self.cache.route(self.cache.partition_of(hash)).unwrap();
        let may = match route.access {
            Access::Erew => route.owner == self.turn,
            // Only the owner knows the value of a dirty item.
            Access::Crew => {
                let may_be_dirty = self.setup.area == Some(ChunkWrite::Back);
                route.owner == self.turn || is_read(action) && !may_be_dirty
            }
            Access::Crcw => true,
        };
        assert!(!may, "worker {} refused in {route:?}", self.turn);
    }
}

/// Returns whether another worker than the owner may serve this under CREW. A meta get may be one
/// that changes its item.
fn is_read(action: &Action) -> bool {
    matches!(action, Action::Get { cas: false })
}

impl std::fmt::Display for Workers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let routes = (0..).map_while(|partition| self.cache.route(partition));
        let routes: Vec<_> = routes.collect();
        write!(formatter, "worker {}, {routes:?}\n{:?}", self.turn, self.cache.stats())
    }
}

/// Keeps replies; has room for this many values only.
#[derive(Default)]
struct Sink {
    replies: Vec<Reply>,
    room_values: usize,
    described: ItemMeta,
    entry: Option<ChunkEntry>,
}

impl ReplySink for Sink {
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        assert_eq!(index, self.replies.len());
        self.room_values = self.room_values.checked_sub(1)?;
        self.replies.push(Reply {
            outcome: None,
            value: vec![0; meta.value_bytes],
            flags: meta.flags,
            cas: meta.cas,
            item: self.described,
            entry: self.entry.take(),
        });
        self.replies.last_mut().map(|reply| &mut reply.value[..])
    }

    fn rollback(&mut self, index: usize) {
        assert_eq!(index + 1, self.replies.len());
        self.replies.pop();
        self.room_values += 1;
    }

    fn describe(&mut self, index: usize, item: ItemMeta) {
        assert_eq!(index, self.replies.len());
        self.described = item;
    }

    fn entry(&mut self, index: usize, entry: ChunkEntry) {
        assert_eq!(index, self.replies.len());
        self.entry = Some(entry);
    }

    fn finish(&mut self, index: usize, outcome: Outcome) {
        assert_eq!(index + usize::from(outcome == Outcome::Hit), self.replies.len());
        if outcome != Outcome::Hit {
            let (item, entry) = (self.described, self.entry.take());
            self.replies.push(Reply { item, entry, ..Reply::default() });
        }
        self.described = ItemMeta::default();
        self.replies[index].outcome = Some(outcome);
    }
}
