//! State that the threads of a server share, in two parts: [`Shared`] is what workers touch in every
//! batch or turn, [`Server`] is what control needs beside it: settings, statistics, certificates,
//! restarts, the end. [`clock`] tells the time.

mod acceptor;
pub mod clock;
mod server;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use micanite_engine::Cache;
use micanite_net::Waker;

pub use acceptor::{AcceptorCounters, AcceptorNumbers};
pub use server::{Baseline, Server};

use crate::configuration::Settings;
use crate::control::local::LocalShared;
use crate::native::NativeShared;
use crate::native::fabric::FabricShared;
use crate::telemetry::costs::Costs;
use crate::telemetry::hot::HotKeys;
use crate::telemetry::latency::Latency;
use crate::telemetry::loads::Loads;
use crate::telemetry::record::Recorder;
use crate::telemetry::stats::{ConnectionTable, Prefixes};
use crate::telemetry::table::Counters;
use crate::telemetry::watch::Watch;
use crate::udp::UdpShared;

/// State that a batch or a turn of a worker touches. It is a part of [`Server`], so that workers
/// reach it without a further pointer.
#[derive(Debug)]
pub struct Shared {
    /// The cache.
    pub cache: Arc<Cache>,
    /// The counters of each worker, which that worker alone writes.
    pub counters: Box<[Counters]>,
    /// The latencies of each worker's requests, which that worker alone writes.
    pub latency: Box<[Latency]>,
    /// The keys that each worker is asked for most, which that worker alone writes.
    pub hot: Box<[HotKeys]>,
    /// Requests by worker and partition.
    pub loads: Loads,
    /// Time that they take, for balancing.
    pub costs: Costs,
    /// The watchers. A batch looks at one word of it, which says if anything below is wanted.
    pub watch: Arc<Watch>,
    /// The counts of `stats detail`.
    pub prefixes: Prefixes,
    /// The recorder of requests.
    pub recorder: Recorder,
    /// The connections, for `stats conns`.
    pub connection_table: ConnectionTable,
    /// The native protocol, if it is spoken.
    pub native: Option<NativeShared>,
    /// memcached's protocols over UDP, if they are spoken.
    pub udp: Option<UdpShared>,
    /// The fabric, if there is one.
    pub fabric: Option<FabricShared>,
    /// Readers on the same host, if there may be some.
    pub local: Option<LocalShared>,
    /// The wakers of the workers.
    pub wakers: Arc<[Waker]>,
    /// The requests that a connection may have in one turn.
    pub turn_requests_max: u32,
    ending: AtomicU8,
}

/// The ways in which a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It does not end.
    Not,
    /// Connections may finish what they have begun; none are accepted.
    Gracefully,
    /// It ends now.
    AtOnce,
}

impl Shared {
    fn new(settings: &Settings, cache: Arc<Cache>, native: Option<NativeShared>) -> io::Result<Self> {
        let threads = settings.threads;
        let wakers = (0..threads).map(|_| Waker::new());
        let wakers: Arc<[Waker]> = wakers.collect::<io::Result<Vec<_>>>()?.into();
        if threads > 1 {
            // A worker that needs the owner of a partition may find it asleep.
            let wakers = Arc::clone(&wakers);
            cache.set_waker(move |worker| wakers[worker].wake());
        }
        let watch = Watch::new(threads, settings.watcher_bytes);
        let told = Arc::clone(&watch);
        cache.set_eviction_listener(move |item, now_s| told.evicted(item, now_s));
        let per_worker = settings.connections_max.div_ceil(threads);
        let hot = (0..threads).map(|worker| HotKeys::new(cache.seed() ^ worker as u64));
        Ok(Self {
            counters: (0..threads).map(|_| Counters::default()).collect(),
            latency: (0..threads).map(|_| Latency::default()).collect(),
            hot: hot.collect(),
            loads: Loads::new(threads, &cache),
            costs: Costs::new(threads, cache.layout().partitions),
            watch,
            prefixes: Prefixes::new(threads, settings.namespace_delimiter),
            recorder: Recorder::new(threads, settings.namespace_delimiter),
            connection_table: ConnectionTable::new(threads, per_worker),
            native,
            fabric: None,
            local: None,
            udp: settings.udp.as_ref().map(|_| UdpShared::new(threads)),
            wakers,
            turn_requests_max: settings.turn_requests_max,
            ending: AtomicU8::new(Ending::Not as u8),
            cache,
        })
    }

    /// Returns how the server ends, if it does.
    #[inline]
    pub fn ending(&self) -> Ending {
        match self.ending.load(Ordering::Acquire) {
            0 => Ending::Not,
            1 => Ending::Gracefully,
            _ => Ending::AtOnce,
        }
    }
}
