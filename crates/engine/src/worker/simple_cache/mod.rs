//! [`SimpleCache`]: the engine behind `get` and `set`, for any number of threads.
//!
//! The rest of the engine leaves two things to its caller: the handles of workers, and the time. This
//! module has both, so that a program can begin without them.

mod clock;

use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use arrayvec::ArrayVec;

use crate::access::Access;
use crate::cache::Cache;
use crate::cache::config::Config;
use crate::cache::error::CreateError;
use crate::limits::{BATCH_REQUESTS_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX_MIN};
use crate::log::item::Expiry;
use crate::operations::request::{Operation, Outcome, ReplySink, Request, ValueMeta};
use crate::partition::Semantics;
use crate::worker::Worker;
use clock::{Clock, second};

/// Longest value, where there is memory for [`LARGEST_VALUES_MIN`] of them.
const VALUE_BYTES_MAX: usize = 1 << 20;
const LARGEST_VALUES_MIN: usize = 16;
/// Worker handles for each CPU: a thread that loses its CPU keeps its handle.
const WORKERS_PER_CPU: usize = 2;
/// Attempts of a cache to store beside a thread that lost its CPU while it wrote one of the oldest items.
const STORE_ATTEMPTS_MAX: usize = 100;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);
/// Milliseconds between two shares of upkeep.
const UPKEEP_MS: u64 = 10;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Number of this thread: it tells which handle the thread tries first.
    static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    /// Keys that a call on this thread has evicted, and not reported yet.
    static EVICTED: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
    /// Caches whose callbacks run on this thread.
    static REPORTING: RefCell<Vec<*const Cache>> = const { RefCell::new(Vec::new()) };
}

/// A cache whose callback runs, until it is dropped.
struct Reporting;

impl Reporting {
    /// Begins, unless the callback of this cache runs already.
    fn begin(cache: &Cache) -> Option<Self> {
        let cache = std::ptr::from_ref(cache);
        REPORTING.with_borrow_mut(|running| match running.contains(&cache) {
            true => None,
            false => {
                running.push(cache);
                Some(Self)
            }
        })
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        REPORTING.with_borrow_mut(Vec::pop);
    }
}

type OnEviction = Box<dyn Fn(&[u8]) + Send + Sync>;

/// A cache for any number of threads, in memory of a fixed size. Share it by reference or in an
/// [`Arc`].
///
/// Keys have 1 to 250 bytes. An item may leave at any time, because memory is full. A key never has
/// another key's value, an older value, or part of one.
///
/// ```
/// use micanite_engine::SimpleCache;
/// use std::time::Duration;
///
/// let cache = SimpleCache::new(64 << 20)?;
/// cache.set("greeting", "hello")?;
/// cache.set_for("session", "alice", Duration::from_secs(60))?;
///
/// assert_eq!(cache.get("greeting"), Some(b"hello".to_vec()));
/// assert_eq!(cache.get_many(&["session", "nobody"]), [Some(b"alice".to_vec()), None]);
/// assert!(cache.remove("greeting"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Threads share it without further ado:
/// ```
/// # use micanite_engine::SimpleCache;
/// let cache = SimpleCache::new(64 << 20)?.on_eviction(|key| println!("no room for {key:?}"));
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         let cache = &cache;
///         scope.spawn(move || cache.set(format!("thread {thread}"), "was here"));
///     }
/// });
/// assert!(cache.get("thread 3").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Programs with threads of their own for requests are faster with a [`Worker`] for each, which needs
/// no lock, no look at the clock and no memory for a value.
pub struct SimpleCache {
    cache: Arc<Cache>,
    handles: Box<[Handle]>,
    clock: Clock,
    upkeep_due_ms: AtomicU64,
    /// The handle whose share of the upkeep is next.
    upkeep_next: AtomicUsize,
    on_eviction: Option<OnEviction>,
}

/// On a cache line of its own: threads lock different ones.
#[repr(align(64))]
struct Handle(Mutex<Worker>);

/// Reason why a value was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetError {
    /// The key is empty, or longer than [`KEY_BYTES_MAX`].
    KeyLength,
    /// The value is longer than the cache accepts ([`SimpleCache::value_bytes_max`]).
    TooLarge {
        /// The longest value that the cache accepts.
        value_bytes_max: usize,
    },
    /// There is no space, and nothing has changed: a store is full, or a thread that writes one of the
    /// oldest items makes no progress.
    OutOfMemory,
}

impl fmt::Display for SetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyLength => write!(formatter, "a key must have 1 to {KEY_BYTES_MAX} bytes"),
            Self::TooLarge { value_bytes_max } => {
                write!(formatter, "a value must have at most {value_bytes_max} bytes in this cache")
            }
            Self::OutOfMemory => formatter.write_str("there is no space for the value now"),
        }
    }
}

impl std::error::Error for SetError {}

impl fmt::Debug for SimpleCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SimpleCache").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl SimpleCache {
    /// Makes an empty cache. Items, their headers and the index take `memory_bytes` at most, 1 MiB or
    /// more. Values have at most a sixteenth of that, and at most 1 MiB.
    ///
    /// # Errors
    /// Too little memory, or a mapping that the kernel refuses.
    pub fn new(memory_bytes: usize) -> Result<Self, CreateError> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let value_bytes_max = (memory_bytes / LARGEST_VALUES_MIN).clamp(VALUE_BYTES_MAX_MIN, VALUE_BYTES_MAX);
        let workers = WORKERS_PER_CPU * cpus;
        // Keys may come from strangers, who must not know which ones meet.
        let seed = RandomState::new().build_hasher().finish();
        Self::with_config(&Config { memory_bytes, value_bytes_max, workers, seed, ..Config::default() })
    }

    /// Makes a cache of other settings. `workers` is the number of calls that run at the same time;
    /// `access` is always [`Access::Crcw`].
    ///
    /// # Errors
    /// Those of [`Cache::new`].
    pub fn with_config(config: &Config) -> Result<Self, CreateError> {
        let cache = Arc::new(Cache::new(&Config { access: Access::Crcw, ..config.clone() })?);
        let handles = (0..config.workers).filter_map(|number| cache.worker(number));
        Ok(Self {
            handles: handles.map(|worker| Handle(Mutex::new(worker))).collect(),
            cache,
            clock: Clock::start(),
            upkeep_due_ms: AtomicU64::new(0),
            upkeep_next: AtomicUsize::new(0),
            on_eviction: None,
        })
    }

    /// Calls `callback` with the key of each item that is evicted before its time, because memory is
    /// full. It runs on the thread whose call evicted the item, after that call has released all locks.
    /// It may use the cache. Evictions that it causes itself are not reported, so that it ends.
    pub fn on_eviction(mut self, callback: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        if self.on_eviction.is_none() {
            self.cache.set_eviction_listener(|item, now_s| {
                if !item.expiry.has_passed(now_s) {
                    EVICTED.with_borrow_mut(|evicted| evicted.push(item.key.into()));
                }
            });
            self.cache.notify_evictions(true);
        }
        self.on_eviction = Some(Box::new(callback));
        self
    }

    /// Returns a copy of the value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let (key, mut value) = (key.as_ref(), [None]);
        self.run(|worker, now_s| look_up(worker, now_s, &[key], &mut value));
        let [value] = value;
        value
    }

    /// Returns copies of the values of keys, in their order. This is faster than one `get` after the
    /// other, because the latencies of memory overlap.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Option<Vec<u8>>> {
        let mut values = Vec::new();
        values.resize_with(keys.len(), || None);
        let batches = keys.chunks(BATCH_REQUESTS_MAX).zip(values.chunks_mut(BATCH_REQUESTS_MAX));
        for (keys, values) in batches {
            let keys: ArrayVec<_, BATCH_REQUESTS_MAX> = keys.iter().map(AsRef::as_ref).collect();
            self.run(|worker, now_s| look_up(worker, now_s, &keys, values));
        }
        values
    }

    /// Stores a value, in place of the one that the key may have.
    ///
    /// # Errors
    /// A key or value of a length that the cache does not accept. See [`SetError`].
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), SetError> {
        self.store(key.as_ref(), value.as_ref(), None)
    }

    /// Stores a value that ends after `lifetime`, and within a second of it.
    ///
    /// # Errors
    /// Those of [`Self::set`].
    pub fn set_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Duration,
    ) -> Result<(), SetError> {
        self.store(key.as_ref(), value.as_ref(), Some(lifetime))
    }

    /// Removes a key. Returns whether it had a value.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> bool {
        let key = key.as_ref();
        is_key(key) && self.run(|worker, now_s| worker.delete(key, now_s)) == Outcome::Deleted
    }

    /// Returns the longest value that the cache accepts.
    pub fn value_bytes_max(&self) -> usize {
        self.cache.value_bytes_max()
    }

    /// Returns the cache of the engine: its statistics, its sizes, [`Cache::close`].
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    fn store(&self, key: &[u8], value: &[u8], lifetime: Option<Duration>) -> Result<(), SetError> {
        if !is_key(key) {
            return Err(SetError::KeyLength);
        }
        let expiry = lifetime.map_or(Expiry::NEVER, |lifetime| self.clock.expiry(lifetime));
        let attempts_max = match self.cache.config().semantics {
            Semantics::Cache => STORE_ATTEMPTS_MAX,
            Semantics::Store => 1,
        };
        for attempt in 0..attempts_max {
            if attempt > 0 {
                std::thread::sleep(BETWEEN_ATTEMPTS);
            }
            match self.run(|worker, now_s| worker.set(key, value, expiry, now_s)) {
                Outcome::Stored => return Ok(()),
                Outcome::TooLarge => {
                    return Err(SetError::TooLarge { value_bytes_max: self.value_bytes_max() });
                }
                _ => {}
            }
        }
        Err(SetError::OutOfMemory)
    }

    /// Runs `work` with a worker, and what is due after it. No code of the caller runs in `work`: it could
    /// use the cache, or panic while the worker is locked.
    fn run<R>(&self, work: impl FnOnce(&mut Worker, u32) -> R) -> R {
        let now = self.clock.now();
        let result = work(&mut self.worker(), second(now));
        self.maintain(now);
        if let Some(callback) = &self.on_eviction {
            let evicted = EVICTED.take();
            if let (false, Some(_reporting)) = (evicted.is_empty(), Reporting::begin(&self.cache)) {
                evicted.iter().for_each(|key| callback(key));
            }
        }
        result
    }

    /// Returns a handle that no other thread uses: this thread's own, if that is free.
    fn worker(&self) -> MutexGuard<'_, Worker> {
        let own = THREAD.with(|number| number % self.handles.len());
        let (before, from_own) = self.handles.split_at(own);
        for Handle(worker) in from_own.iter().chain(before) {
            match worker.try_lock() {
                Err(TryLockError::WouldBlock) => {}
                locked => return locked.expect("no call has panicked within the engine"),
            }
        }
        self.handles[own].0.lock().expect("no call has panicked within the engine")
    }

    /// Does the upkeep of the next worker's share, if it is time.
    fn maintain(&self, now: Duration) {
        let now_ms = now.as_millis() as u64;
        let due_ms = self.upkeep_due_ms.load(Ordering::Relaxed);
        let next_ms = now_ms + UPKEEP_MS;
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        if now_ms < due_ms || self.upkeep_due_ms.compare_exchange(due_ms, next_ms, success, failure).is_err()
        {
            return;
        }
        let next = self.upkeep_next.fetch_add(1, Ordering::Relaxed) % self.handles.len();
        if let Ok(mut worker) = self.handles[next].0.try_lock() {
            worker.maintain(second(now));
        }
    }
}

fn is_key(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len())
}

/// Takes the values of a batch, each at the place of its key.
struct Values<'a> {
    places: &'a [usize],
    values: &'a mut [Option<Vec<u8>>],
}

impl ReplySink for Values<'_> {
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        Some(self.values[self.places[index]].insert(vec![0; meta.value_bytes]))
    }

    fn rollback(&mut self, index: usize) {
        self.values[self.places[index]] = None;
    }

    fn finish(&mut self, _: usize, _: Outcome) {}
}

/// Looks up the keys of a batch. Those that cannot be keys have no value.
fn look_up(worker: &mut Worker, now_s: u32, keys: &[&[u8]], values: &mut [Option<Vec<u8>>]) {
    let mut places = ArrayVec::<usize, BATCH_REQUESTS_MAX>::new();
    let mut requests = ArrayVec::<Request<'_>, BATCH_REQUESTS_MAX>::new();
    for (place, &key) in keys.iter().enumerate().filter(|(_, key)| is_key(key)) {
        places.push(place);
        let operation = Operation::Get { cas: false };
        requests.push(Request { hash: worker.cache().hash(key), key, operation });
    }
    if !requests.is_empty() {
        // There is no turn and no lack of room: all requests are executed.
        worker.execute(&requests, now_s, &mut Values { places: &places, values });
    }
}
