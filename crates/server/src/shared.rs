//! What all threads of a server share: settings, the cache, counters, the wish to end.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use micanite_engine::{Access, Cache, Route, RouteError, Stats};
use micanite_net::Waker;

use crate::auth::Auth;
use crate::balance::BalanceState;
use crate::configuration::Settings;
use crate::hot::HotKeys;
use crate::kernel_get::KernelGetState;
use crate::latency::Latency;
use crate::loads::Loads;
use crate::native::NativeShared;
use crate::record::Recorder;
use crate::restart::Restart;
use crate::stats::{ConnectionTable, Counter, Counters, Prefixes, Totals};
use crate::tls::TlsShared;
use crate::udp::UdpShared;
use crate::watch::Watch;

/// See the module.
#[derive(Debug)]
pub struct Shared {
    /// As configured.
    pub settings: Settings,
    /// The cache.
    pub cache: Arc<Cache>,
    /// When the server started, unix time.
    pub started_s: u32,
    /// One of each per worker; that worker alone writes it.
    pub counters: Box<[Counters]>,
    /// How long requests take, of each worker.
    pub latency: Box<[Latency]>,
    /// Which keys each worker is asked for most.
    pub hot: Box<[HotKeys]>,
    /// Written by the acceptor alone.
    pub acceptor: AcceptorCounters,
    /// Requests by worker and partition.
    pub loads: Loads,
    /// The native protocol, if it is spoken.
    pub native: Option<NativeShared>,
    /// memcached's protocols over UDP, if they are spoken.
    pub udp: Option<UdpShared>,
    /// GETs answered in the kernel, if they are to be.
    pub(crate) kernel_get: Option<Arc<KernelGetState>>,
    /// Keep other servers off the directories where the cache's memory is pinned, through restarts.
    pub(crate) pin_locks: Vec<File>,
    /// Users, if clients are asked who they are.
    pub auth: Option<Auth>,
    /// TLS, if it is spoken.
    pub tls: Option<TlsShared>,
    /// Whether partitions change by load.
    pub balance: BalanceState,
    /// Whether another program follows in this process.
    pub(crate) restart: Restart,
    /// Wakes the main thread.
    pub main_waker: Waker,
    /// Wakes each worker.
    pub wakers: Arc<[Waker]>,
    /// Workers that still have connections, or may get some.
    working: AtomicUsize,
    ending: AtomicU8,
    tcp_port: AtomicU16,
    verbosity: AtomicU8,
    /// The connections, for `stats conns`.
    pub connection_table: ConnectionTable,
    /// Clients that watch.
    pub watch: Arc<Watch>,
    /// The counts of `stats detail`.
    pub prefixes: Prefixes,
    /// Records requests.
    pub recorder: Recorder,
    /// Whether a client has `stats sizes` counted.
    pub counting_sizes: Arc<AtomicBool>,
    baseline: Mutex<Baseline>,
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It does not.
    Not,
    /// Connections may finish what they have begun; none are accepted.
    Gracefully,
    /// Now.
    AtOnce,
}

/// Counters of the acceptor.
#[derive(Debug, Default)]
pub struct AcceptorCounters {
    accepted: Counter,
    rejected: Counter,
    pausing: AtomicBool,
    pauses: Counter,
    paused_us: Counter,
    paused_at_us: AtomicU64,
}

/// [`AcceptorCounters`] at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptorNumbers {
    /// Connections handed to workers.
    pub accepted: u64,
    /// Connections beyond the limit.
    pub rejected: u64,
    /// Whether connections are accepted now.
    pub accepting: bool,
    /// How often accepting has paused because files had run out.
    pub pauses: u64,
    /// How long that has lasted, apart from a pause that lasts still.
    pub paused_us: u64,
}

/// What the counters were at the last `stats reset`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Baseline {
    /// Of the workers.
    pub totals: Totals,
    /// Of the acceptor.
    pub acceptor: AcceptorNumbers,
    /// Of the engine.
    pub engine: Stats,
}

impl AcceptorCounters {
    /// A connection was handed to a worker.
    pub fn count_accepted(&self) {
        self.accepted.add(1);
    }

    /// A connection was refused.
    pub fn count_rejected(&self) {
        self.rejected.add(1);
    }

    /// Whether accepting pauses because files have run out.
    pub fn set_pausing(&self, pausing: bool) {
        let before = self.pausing.swap(pausing, Ordering::Relaxed);
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_us = now_us.map_or(0, |now| now.as_micros() as u64);
        if pausing && !before {
            self.pauses.add(1);
            self.paused_at_us.store(now_us, Ordering::Relaxed);
        } else if before && !pausing {
            let since_us = self.paused_at_us.load(Ordering::Relaxed);
            self.paused_us.add(now_us.saturating_sub(since_us));
        }
    }

    /// The numbers now.
    pub fn now(&self) -> AcceptorNumbers {
        AcceptorNumbers {
            accepted: self.accepted.get(),
            rejected: self.rejected.get(),
            accepting: !self.pausing.load(Ordering::Relaxed),
            pauses: self.pauses.get(),
            paused_us: self.paused_us.get(),
        }
    }
}

impl Shared {
    /// For a server that starts now.
    ///
    /// # Errors
    /// The kernel has no more descriptors.
    pub fn new(
        settings: Settings,
        cache: Arc<Cache>,
        native: Option<NativeShared>,
        started_s: u32,
    ) -> io::Result<Self> {
        let wakers: Vec<_> = (0..settings.threads)
            .map(|_| Waker::new())
            .collect::<io::Result<_>>()?;
        let wakers: Arc<[Waker]> = wakers.into();
        if settings.threads > 1 {
            // A worker that needs the owner of a partition may find it asleep.
            let wakers = Arc::clone(&wakers);
            cache.set_waker(move |worker| wakers[worker].wake());
        }
        let watch = Watch::new(settings.threads, settings.watcher_bytes);
        let told = Arc::clone(&watch);
        cache.set_eviction_listener(move |item, now_s| told.evicted(item, now_s));
        let per_worker = settings.connections_max.div_ceil(settings.threads);
        let connection_table = ConnectionTable::new(settings.threads, per_worker);
        let prefixes = Prefixes::new(settings.threads, settings.namespace_delimiter);
        let recorder = Recorder::new(settings.threads, settings.namespace_delimiter);
        Ok(Self {
            native,
            udp: settings
                .udp
                .as_ref()
                .map(|_| UdpShared::new(settings.threads)),
            loads: Loads::new(settings.threads, &cache),
            balance: BalanceState::new(settings.balance),
            working: AtomicUsize::new(settings.threads),
            wakers,
            counters: (0..settings.threads).map(|_| Counters::default()).collect(),
            latency: (0..settings.threads).map(|_| Latency::default()).collect(),
            hot: (0..settings.threads)
                .map(|worker| HotKeys::new(cache.seed() ^ worker as u64))
                .collect(),
            verbosity: AtomicU8::new(settings.verbosity),
            settings,
            cache,
            started_s,
            acceptor: AcceptorCounters::default(),
            restart: Restart::new(Err(io::ErrorKind::Unsupported.into())),
            main_waker: Waker::new()?,
            ending: AtomicU8::new(0),
            tcp_port: AtomicU16::new(0),
            connection_table,
            watch,
            prefixes,
            recorder,
            counting_sizes: Arc::default(),
            baseline: Mutex::default(),
            kernel_get: None,
            pin_locks: Vec::new(),
            auth: None,
            tls: None,
        })
    }

    /// The sums over workers, and what the kernel has answered.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for counters in &self.counters {
            totals.add(counters);
        }
        if let Some(kernel_get) = &self.kernel_get {
            kernel_get.add_to(&mut totals);
        }
        totals
    }

    /// GETs are answered in the kernel, or they are not for a reason.
    pub(crate) fn set_kernel_get(&mut self, state: KernelGetState) {
        let state = Arc::new(state);
        self.kernel_get = Some(Arc::clone(&state));
        self.watch.set_listener(state);
    }

    /// Connections that are open.
    pub fn connections(&self) -> u64 {
        let closed = self.totals().connections_closed;
        self.acceptor.now().accepted.saturating_sub(closed)
    }

    /// The counters at the last reset.
    pub fn baseline(&self) -> Baseline {
        *self.baseline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets all counters begin at zero.
    pub fn reset(&self) {
        let baseline = Baseline {
            totals: self.totals(),
            acceptor: self.acceptor.now(),
            engine: self.cache.stats(),
        };
        *self.baseline.lock().unwrap_or_else(PoisonError::into_inner) = baseline;
    }

    /// Changes the route of a partition, from any thread that is not a worker.
    ///
    /// # Errors
    /// There is no such partition or worker.
    pub fn set_route(&self, partition: usize, route: Route) -> Result<(), RouteError> {
        if route.access == Access::Erew {
            self.loads.expect_exclusive();
        }
        self.cache.set_route(partition, route)?;
        if let (Some(kernel_get), Some(native)) = (&self.kernel_get, &self.native) {
            kernel_get.set_generation(|| native.generation(&self.cache));
        }
        Ok(())
    }

    /// How much is logged, 0 to 3.
    pub fn verbosity(&self) -> u8 {
        self.verbosity.load(Ordering::Relaxed)
    }

    /// Changes how much is logged.
    pub fn set_verbosity(&self, level: u32) {
        self.verbosity.store(level.min(3) as u8, Ordering::Relaxed);
    }

    /// The first TCP port that is listened on, 0 if none.
    pub fn tcp_port(&self) -> u16 {
        self.tcp_port.load(Ordering::Relaxed)
    }

    /// Notes the first TCP port.
    pub fn set_tcp_port(&self, port: u16) {
        self.tcp_port.store(port, Ordering::Relaxed);
    }

    /// Whether and how the server is ending.
    #[inline]
    pub fn ending(&self) -> Ending {
        match self.ending.load(Ordering::Acquire) {
            0 => Ending::Not,
            1 => Ending::Gracefully,
            _ => Ending::AtOnce,
        }
    }

    /// Notes that a worker has no connections any more and will get none.
    pub fn worker_is_done(&self) {
        if self.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.wakers.iter().for_each(Waker::wake);
            self.main_waker.wake();
        }
    }

    /// Whether a worker may still have connections.
    pub fn are_working(&self) -> bool {
        self.working.load(Ordering::Acquire) > 0
    }

    /// Lets the server end; once it ends at once, it does not become graceful again. No other
    /// program follows.
    pub fn end(&self, how: Ending) {
        self.restart.cancel();
        self.begin_to_end(how);
    }

    /// Lets another program follow, unless the server ends already.
    pub(crate) fn end_for_restart(&self) -> bool {
        let graceful = Ending::Gracefully as u8;
        let order = Ordering::AcqRel;
        let changed = self
            .ending
            .compare_exchange(0, graceful, order, Ordering::Acquire);
        match changed {
            Ok(_) => self.main_waker.wake(),
            Err(_) => self.restart.cancel(),
        }
        changed.is_ok()
    }

    /// Ends the connections that have not finished in time.
    pub(crate) fn cut_off(&self) {
        self.begin_to_end(Ending::AtOnce);
    }

    fn begin_to_end(&self, how: Ending) {
        self.ending.fetch_max(how as u8, Ordering::AcqRel);
        self.main_waker.wake();
    }
}
