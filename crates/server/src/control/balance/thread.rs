//! The thread that measures, and changes routes where that is wanted.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use micanite_control::Balance;
use micanite_engine::Route;

use super::{Balancer, Change, Period, costs};
use crate::control::numa::Follow;
use crate::shared::Server;
use crate::telemetry::costs::Samples;
use crate::telemetry::log::debug;

/// Interval between two measurements of loads.
const PERIOD: Duration = Duration::from_secs(1);

/// The running thread.
#[derive(Debug)]
pub(crate) struct BalanceThread {
    /// Dropping it ends the thread.
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl BalanceThread {
    /// Starts it, if there are workers between which loads can be balanced.
    pub fn start(server: &Arc<Server>) -> io::Result<Option<Self>> {
        if server.settings.threads == 1 {
            return Ok(None);
        }
        let (end, ended) = channel();
        let server = Arc::clone(server);
        let run = move || {
            let mut measured = Measured::of(&server);
            let mut balancer = Balancer::new(server.shared.cache.layout().partitions);
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                period(&server, &mut measured, &mut balancer);
            }
        };
        let thread = Builder::new().name("balance".into()).spawn(run)?;
        Ok(Some(Self { end, thread }))
    }

    /// Ends it.
    pub fn end(self) {
        drop(self.end);
        // A panic ends the process before this.
        let _ = self.thread.join();
    }
}

/// The counts at the end of the last period.
struct Measured {
    at: Instant,
    counts: Vec<Vec<u64>>,
    /// Requests of datagrams, by worker.
    datagrams: Vec<u64>,
    samples: Vec<Samples>,
}

impl Measured {
    fn of(server: &Server) -> Self {
        let shared = &server.shared;
        let counts = shared.loads.now(&shared.cache);
        let datagrams = match &shared.native {
            Some(native) => native.counters.iter().map(|counters| counters.requests.get()).collect(),
            None => vec![0; counts.len()],
        };
        Self { at: Instant::now(), counts, datagrams, samples: shared.costs.now() }
    }
}

fn period(server: &Server, before: &mut Measured, balancer: &mut Balancer) {
    // Until the end: `ctl balance off` is answered when no change is under way.
    let mut routing = server.balance.routing();
    for (partition, mode) in std::mem::take(&mut *routing) {
        balancer.changed_by_hand(partition, mode);
    }
    let is_auto = server.balance.get() == Balance::Auto;
    server.shared.costs.set_wanted(is_auto);
    let now = Measured::of(server);
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    let mut requests = now.counts.clone();
    for (of_worker, before) in requests.iter_mut().zip(&before.counts) {
        let pairs = of_worker.iter_mut().zip(before);
        pairs.for_each(|(now, before)| *now = now.wrapping_sub(*before));
    }
    let datagrams: Vec<_> =
        now.datagrams.iter().zip(&before.datagrams).map(|(now, before)| now - before).collect();
    let samples: Vec<_> =
        now.samples.iter().zip(&before.samples).map(|(now, before)| now.since(before)).collect();
    *before = now;
    let partitions = server.shared.cache.layout().partitions;
    let rates = |of: &[Vec<u64>]| {
        let sum = |partition: usize| of.iter().map(|of_worker| of_worker[partition]).sum::<u64>();
        (0..partitions).map(|partition| (sum(partition) as f64 / seconds) as u64).collect()
    };
    server.balance.set_rates(rates(&requests));
    if !is_auto {
        server.balance.set_costs(Vec::new());
        return balancer.pause();
    }
    let routes: Vec<Route> =
        (0..partitions).filter_map(|partition| server.shared.cache.route(partition)).collect();
    let loads = costs(&requests, &datagrams, &routes, &samples);
    server.balance.set_costs(rates(&loads));
    let requests = requests.iter().flatten().sum();
    if let Some(change) = balancer.period(Period { requests, loads }, &routes) {
        apply(server, change, routes[change.partition()]);
    }
}

fn apply(server: &Server, change: Change, before: Route) {
    let (partition, route) = (change.partition(), change.apply(before));
    let Ok(follow) = server.set_route(partition, route) else {
        return; // It was decided on routes that are there.
    };
    server.balance.count_change();
    let (mode, owner) = (route.access.name(), route.owner);
    debug!("balance: partition {partition} is {mode} now, of worker {owner}");
    if let Follow::Stays(_) = follow {
        debug!("balance: {}", follow.text(partition).trim_end());
    }
}
