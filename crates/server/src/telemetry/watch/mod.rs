//! `watch`: lines about requests, evictions and connections, for clients that want to see them.
//!
//! ```text
//!  workers --line--> the ring of each watcher that wants it --> its worker --> its connection
//! ```
//!
//! While nobody watches this costs one relaxed load per batch. A watcher that does not keep up
//! loses lines and is told how many (`skipped=`). The thread that writes a line never waits for it.

pub(crate) mod line;
mod ring;

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use micanite_engine::ItemInfo;

use crate::control::kernel_get::KernelGetState;
use crate::limits::WATCHERS_MAX;
use crate::output::Output;
use crate::telemetry::peer::Peer;
use line::Line;
use ring::Ring;

/// Kinds of lines, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    /// Requests for values.
    pub const FETCHERS: Self = Self(1);
    /// Stores.
    pub const MUTATIONS: Self = Self(2);
    /// Items that leave because memory is full.
    pub const EVICTIONS: Self = Self(4);
    /// Removals by clients.
    pub const DELETIONS: Self = Self(8);
    /// Connections that come and go.
    pub const CONNECTIONS: Self = Self(16);
    /// memcached's others: there is nothing to tell of them here.
    const SILENT: Self = Self(32);
    /// Not for watchers: the counts of `stats detail`.
    pub const PREFIXES: Self = Self(64);
    /// Not for watchers: what `ctl record` records.
    pub const RECORDING: Self = Self(128);
    /// All that is not for watchers.
    const OTHERS: u32 = Self::PREFIXES.0 | Self::RECORDING.0;

    /// The kinds that the words after `watch` name; without any, fetchers. `None`: another word.
    pub fn of<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut kinds = Self::default();
        for word in words {
            kinds.0 |= match word {
                b"fetchers" => Self::FETCHERS.0,
                b"mutations" => Self::MUTATIONS.0,
                b"evictions" => Self::EVICTIONS.0,
                b"deletions" => Self::DELETIONS.0,
                b"connevents" => Self::CONNECTIONS.0,
                b"rawcmds" | b"sysevents" | b"proxyreqs" | b"proxyevents" | b"proxyuser" => Self::SILENT.0,
                _ => return None,
            };
        }
        Some(if kinds.0 == 0 { Self::FETCHERS } else { kinds })
    }

    /// Returns whether the two have a kind in common.
    #[inline]
    pub const fn any(self, of: Self) -> bool {
        self.0 & of.0 != 0
    }

    /// Returns whether there is no kind.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// All watchers of a server.
#[derive(Debug)]
pub struct Watch {
    /// Kinds that watchers, prefixes or a recording want.
    wanted: AtomicU32,
    places: Box<[Place]>,
    /// Numbers the lines.
    lines: AtomicU64,
    /// The connection that each worker serves just now; -1 = none.
    serving: Box<[AtomicI32]>,
    counters: Counters,
    /// The program in the kernel, which passes all requests on while there are watchers.
    kernel_get: OnceLock<Arc<KernelGetState>>,
}

/// One watcher, or room for one.
#[derive(Debug)]
struct Place {
    /// Kinds that the watcher wants; 0 if there is no watcher.
    kinds: AtomicU32,
    ring: Ring,
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    skipped: AtomicU64,
    sent: AtomicU64,
}

/// Numbers for `stats`.
#[derive(Clone, Copy, Debug, Default)]
pub struct WatchNumbers {
    /// Watchers now.
    pub watchers: u64,
    /// Lines written for at least one watcher.
    pub written: u64,
    /// Lines that watchers have lost, each counted for each.
    pub skipped: u64,
    /// Lines sent to watchers.
    pub sent: u64,
}

impl Watch {
    /// For so many workers, with rings of so many bytes.
    pub fn new(workers: usize, ring_bytes: usize) -> Arc<Self> {
        let place = |_| Place { kinds: AtomicU32::new(0), ring: Ring::new(ring_bytes) };
        Arc::new(Self {
            wanted: AtomicU32::new(0),
            places: (0..WATCHERS_MAX).map(place).collect(),
            lines: AtomicU64::new(1),
            serving: (0..workers).map(|_| AtomicI32::new(-1)).collect(),
            counters: Counters::default(),
            kernel_get: OnceLock::new(),
        })
    }

    /// Has the kernel answer nothing while what it does is watched.
    pub(crate) fn set_listener(&self, kernel_get: Arc<KernelGetState>) {
        // There is one.
        let _ = self.kernel_get.set(kernel_get);
    }

    fn wanted_has_changed(&self) {
        if let Some(kernel_get) = self.kernel_get.get() {
            kernel_get.pause_for(|| self.wanted());
        }
    }

    /// Kinds that watchers, prefixes or a recording want.
    #[inline]
    pub fn wanted(&self) -> Kinds {
        Kinds(self.wanted.load(Ordering::Relaxed))
    }

    /// Returns whether requests are counted by prefix.
    pub fn counts_prefixes(&self) -> bool {
        self.wanted().any(Kinds::PREFIXES)
    }

    /// Notes which connection a worker serves, for its lines.
    #[inline]
    pub fn set_serving(&self, worker: usize, descriptor: i32) {
        self.serving[worker].store(descriptor, Ordering::Relaxed);
    }

    pub(crate) fn serving(&self, worker: usize) -> i32 {
        self.serving[worker].load(Ordering::Relaxed)
    }

    /// Returns whether a worker has watchers to serve.
    pub fn has_watchers(&self) -> bool {
        self.wanted().0 & !Kinds::OTHERS != 0
    }

    /// Turns the counts of `stats detail` on or off.
    pub fn set_prefixes(&self, on: bool) {
        self.set(Kinds::PREFIXES, on);
    }

    /// Has requests recorded, or not any more.
    pub(crate) fn set_recording(&self, on: bool) {
        self.set(Kinds::RECORDING, on);
    }

    fn set(&self, kind: Kinds, on: bool) {
        if on {
            self.wanted.fetch_or(kind.0, Ordering::AcqRel);
        } else {
            self.wanted.fetch_and(!kind.0, Ordering::AcqRel);
        }
        self.wanted_has_changed();
    }

    /// A new watcher; `None` if there are too many.
    pub fn begin(self: &Arc<Self>, kinds: Kinds) -> Option<Watcher> {
        let free = |place: &&Place| {
            let taken = place.kinds.compare_exchange(0, kinds.0 | TAKEN, Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        };
        let place = self.places.iter().position(|place| free(&place))?;
        // The ring may hold lines for the previous watcher.
        self.places[place].ring.clear();
        self.places[place].kinds.store(kinds.0, Ordering::Release);
        self.wanted.fetch_or(kinds.0, Ordering::Relaxed);
        self.wanted_has_changed();
        Some(Watcher { place, watch: Arc::clone(self) })
    }

    /// Counts anew the kinds that watchers want. A watcher that begins meanwhile adds its own later.
    fn count_wanted(&self) {
        let kinds = |place: &Place| place.kinds.load(Ordering::Acquire) & !TAKEN;
        let wanted = || self.places.iter().fold(0, |sum, place| sum | kinds(place));
        loop {
            let before = self.wanted.load(Ordering::Relaxed);
            let after = before & Kinds::OTHERS | wanted();
            let swapped = self.wanted.compare_exchange(before, after, Ordering::AcqRel, Ordering::Relaxed);
            // A watcher may have come between the look at its place and the exchange.
            if swapped.is_ok() && wanted() & !after == 0 {
                return self.wanted_has_changed();
            }
        }
    }

    /// Writes a line to each watcher that wants this kind.
    #[cold]
    pub(crate) fn tell(&self, kind: Kinds, write: impl FnOnce(&mut Line)) {
        let number = self.lines.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut line = Line::new(now.unwrap_or_default(), number);
        write(&mut line);
        let bytes = line.end();
        let mut written = false;
        for place in &self.places {
            if Kinds(place.kinds.load(Ordering::Acquire)).any(kind) {
                if place.ring.push(bytes) {
                    written = true;
                } else {
                    self.counters.skipped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        if written {
            self.counters.written.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells that an item leaves because memory is full.
    pub fn evicted(&self, item: &ItemInfo<'_>, now_s: u32) {
        if self.wanted().any(Kinds::EVICTIONS) {
            self.tell(Kinds::EVICTIONS, |line| line.eviction(item, now_s));
        }
    }

    /// Tells that a connection has come.
    pub fn connected(&self, peer: Peer, descriptor: i32) {
        if self.wanted().any(Kinds::CONNECTIONS) {
            self.tell(Kinds::CONNECTIONS, |line| {
                line.connection("conn_new", peer, None, descriptor);
            });
        }
    }

    /// Tells that a connection has gone.
    pub fn disconnected(&self, peer: Peer, reason: &'static str, descriptor: i32) {
        if self.wanted().any(Kinds::CONNECTIONS) {
            self.tell(Kinds::CONNECTIONS, |line| {
                line.connection("conn_close", peer, Some(reason), descriptor);
            });
        }
    }

    /// For `stats`.
    pub fn numbers(&self) -> WatchNumbers {
        let used = |place: &&Place| place.kinds.load(Ordering::Relaxed) != 0;
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        WatchNumbers {
            watchers: self.places.iter().filter(used).count() as u64,
            written: get(&self.counters.written),
            skipped: get(&self.counters.skipped),
            sent: get(&self.counters.sent),
        }
    }
}

/// A place that is being prepared.
const TAKEN: u32 = 1 << 31;

/// The right to the lines of a place, until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    place: usize,
    watch: Arc<Watch>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.watch.places[self.place].kinds.store(0, Ordering::Release);
        self.watch.count_wanted();
    }
}

impl Watcher {
    /// Writes the lines that are there. Returns whether there are more than the output has room for.
    pub(crate) fn drain(&self, output: &mut Output<'_>) -> bool {
        let drained = self.watch.places[self.place].ring.drain(output);
        let sent = &self.watch.counters.sent;
        sent.fetch_add(drained.lines, Ordering::Relaxed);
        drained.more
    }
}
