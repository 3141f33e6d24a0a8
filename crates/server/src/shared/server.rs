//! State that control needs, around what workers touch per batch.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use micanite_engine::{Access, Cache, ImageState, Route, RouteError, Stats};
use micanite_net::Waker;

use super::{AcceptorCounters, AcceptorNumbers, Ending, Shared};
use crate::configuration::Settings;
use crate::control::balance::BalanceState;
use crate::control::kernel_get::KernelGetState;
use crate::control::numa::{Follow, NumaState};
use crate::control::reload::Reloader;
use crate::control::restart::Restart;
use crate::native::NativeShared;
use crate::security::auth::Auth;
use crate::security::tls::TlsShared;
use crate::telemetry::log;
use crate::telemetry::table::Totals;

/// A server: the state of its workers, and what control needs beside it. Workers touch the latter
/// when connections come and go, and for commands of administration.
#[derive(Debug)]
pub struct Server {
    /// The state that workers touch per batch.
    pub shared: Shared,
    /// The settings, as configured.
    pub settings: Settings,
    /// Unix time of the start.
    pub started_s: u32,
    /// Counters that the acceptor alone writes.
    pub acceptor: AcceptorCounters,
    /// GETs answered in the kernel, if they are to be.
    pub(crate) kernel_get: Option<Arc<KernelGetState>>,
    /// Locks that keep other servers off the directories where the cache's memory is pinned, through
    /// restarts.
    pub(crate) pin_locks: Vec<File>,
    /// Users, if clients have to authenticate.
    pub auth: Option<Auth>,
    /// TLS, if it is spoken.
    pub tls: Option<Arc<TlsShared>>,
    /// Reads both again, once its thread runs.
    pub reloader: OnceLock<Reloader>,
    /// The balancing of partitions.
    pub balance: BalanceState,
    /// The places of partitions on NUMA nodes.
    pub numa: NumaState,
    /// The program that follows in this process, if one does.
    pub(crate) restart: Restart,
    /// The waker of the main thread.
    pub main_waker: Waker,
    /// Workers that still have connections, or may get some.
    working: AtomicUsize,
    /// Workers whose upkeep has run since the end began.
    settled: AtomicUsize,
    tcp_port: AtomicU16,
    verbosity: AtomicU8,
    /// A client has `stats sizes` counted.
    pub counting_sizes: Arc<AtomicBool>,
    baseline: Mutex<Baseline>,
}

/// The counters at the last `stats reset`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Baseline {
    /// Counters of the workers.
    pub totals: Totals,
    /// Counters of the acceptor.
    pub acceptor: AcceptorNumbers,
    /// Counters of the engine.
    pub engine: Stats,
}

impl Server {
    /// A server that starts now.
    ///
    /// # Errors
    /// The kernel has no more descriptors.
    pub fn new(
        settings: Settings,
        cache: Arc<Cache>,
        native: Option<NativeShared>,
        started_s: u32,
    ) -> io::Result<Self> {
        let numa = NumaState::new(&settings.nodes, &cache);
        Ok(Self {
            numa,
            shared: Shared::new(&settings, cache, native)?,
            balance: BalanceState::new(settings.balance),
            working: AtomicUsize::new(settings.threads),
            settled: AtomicUsize::new(0),
            verbosity: AtomicU8::new(settings.verbosity),
            settings,
            started_s,
            acceptor: AcceptorCounters::default(),
            restart: Restart::new(Err(io::ErrorKind::Unsupported.into())),
            main_waker: Waker::new()?,
            tcp_port: AtomicU16::new(0),
            counting_sizes: Arc::default(),
            baseline: Mutex::default(),
            kernel_get: None,
            pin_locks: Vec::new(),
            auth: None,
            tls: None,
            reloader: OnceLock::new(),
        })
    }

    /// Returns the sums over workers, with what the kernel has answered and readers have read.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for counters in &self.shared.counters {
            totals.add(counters);
        }
        if let Some(kernel_get) = &self.kernel_get {
            kernel_get.add_to(&mut totals);
        }
        if let Some(local) = &self.shared.local {
            local.add_to(&mut totals);
        }
        totals
    }

    /// Notes that GETs are answered in the kernel, or the reason why not.
    pub(crate) fn set_kernel_get(&mut self, state: KernelGetState) {
        let state = Arc::new(state);
        self.kernel_get = Some(Arc::clone(&state));
        self.shared.watch.set_listener(state);
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> u64 {
        let closed = self.totals().connections_closed;
        self.acceptor.now().accepted.saturating_sub(closed)
    }

    /// Returns the counters at the last reset.
    pub fn baseline(&self) -> Baseline {
        *self.baseline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets all counters begin at zero.
    pub fn reset(&self) {
        let baseline = Baseline {
            totals: self.totals(),
            acceptor: self.acceptor.now(),
            engine: self.shared.cache.stats(),
        };
        *self.baseline.lock().unwrap_or_else(PoisonError::into_inner) = baseline;
    }

    /// Changes the route of a partition, from any thread that is not a worker and holds
    /// [`BalanceState::routing`]. Returns what that means for its memory.
    ///
    /// # Errors
    /// There is no such partition or worker.
    pub fn set_route(&self, partition: usize, route: Route) -> Result<Follow, RouteError> {
        let before = self.shared.cache.route(partition).unwrap_or(route);
        if route.access == Access::Erew {
            self.shared.loads.expect_exclusive();
        }
        self.shared.cache.set_route(partition, route)?;
        if let (Some(kernel_get), Some(native)) = (&self.kernel_get, &self.shared.native) {
            kernel_get.set_generation(|| native.generation(&self.shared.cache));
        }
        Ok(self.numa.follow(partition, before, route))
    }

    /// Returns the verbosity, 0 to 3.
    pub fn verbosity(&self) -> u8 {
        self.verbosity.load(Ordering::Relaxed)
    }

    /// Changes the verbosity.
    pub fn set_verbosity(&self, level: u32) {
        let level = level.min(3) as u8;
        self.verbosity.store(level, Ordering::Relaxed);
        log::set_verbosity(level);
    }

    /// Returns the first TCP port of the listeners, 0 if there is none.
    pub fn tcp_port(&self) -> u16 {
        self.tcp_port.load(Ordering::Relaxed)
    }

    /// Notes the first TCP port, which the directory names as well.
    pub fn set_tcp_port(&self, port: u16) {
        self.tcp_port.store(port, Ordering::Relaxed);
        if let Some(native) = &self.shared.native {
            native.set_stream_port(port);
        }
    }

    /// Notes that a worker has no connections any more and will get none.
    pub fn worker_is_done(&self) {
        if self.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.wakers.iter().for_each(Waker::wake);
            self.main_waker.wake();
        }
    }

    /// Notes that a worker's upkeep has run since the end began.
    pub(crate) fn worker_has_settled(&self) {
        self.settled.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns whether items that outlive the process may lack values that are in the cache area of a fabric
    /// only. The upkeep of workers copies them back.
    pub(crate) fn lacks_values(&self) -> bool {
        let cache = &self.shared.cache;
        self.shared.fabric.is_some()
            && *cache.image_state() != ImageState::None
            && (self.settled.load(Ordering::Acquire) < self.settings.threads || cache.dirty_chunks() > 0)
    }

    /// Returns true if a worker may still have connections.
    pub fn are_working(&self) -> bool {
        self.working.load(Ordering::Acquire) > 0
    }

    /// Ends the server. No other program follows. An end at once does not become graceful again.
    pub fn end(&self, how: Ending) {
        self.begin_to_end(how);
        // After it: a restart that began meanwhile either finds the end, or is found here.
        self.restart.cancel();
    }

    /// Ends the server for another program that follows, unless it ends already.
    pub(crate) fn end_for_restart(&self) -> bool {
        self.shared.cache.end_write_back();
        let graceful = Ending::Gracefully as u8;
        let order = Ordering::AcqRel;
        let changed = self.shared.ending.compare_exchange(0, graceful, order, Ordering::Acquire);
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
        self.shared.cache.end_write_back();
        self.shared.ending.fetch_max(how as u8, Ordering::AcqRel);
        self.main_waker.wake();
    }
}
