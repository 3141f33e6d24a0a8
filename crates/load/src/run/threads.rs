//! The threads of a run, and what they are watched for.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Barrier, OnceLock};
use std::time::Duration;

use micanite_client::Link;
use micanite_control::cores;

use crate::address::{Endpoint, Protocol};
use crate::plan::Plan;
use crate::report::Second;
use crate::requests::feed::{Feed, Pass, Share};
use crate::run::clock::{Clock, SECOND_NS, nanoseconds};
use crate::run::progress::Seconds;
use crate::run::recorder::{Interval, Recorder};
use crate::run::wait::Claim;
use crate::run::worker::{Outcome, Task, Worker};
use crate::run::{fill_feed, shares};
use crate::target::{
    Checks, ClientConnection, Connection, Memcached, NativeLink, Redis, SplitConnection, StreamConnection,
    UdpConnection, introduce_native, open, open_fabric, open_local, open_native, open_stream,
};

/// Threads are given this long to start.
const START_DELAY: Duration = Duration::from_millis(5);

/// A run that is under way.
pub(crate) struct Running<'a> {
    pub plan: &'a Plan,
    pub endpoints: &'a [Endpoint],
    pub window_ns: Range<u64>,
    pub deadline_ns: u64,
    pub pipeline: usize,
    /// After this a datagram is lost.
    pub timeout: Duration,
    /// True if lost writes are written again.
    pub resend: bool,
    /// Visits of all items by the same connections, before the clock starts.
    pub passes: Vec<Pass>,
}

/// The common start of the threads, after their visits.
struct Start {
    barrier: Barrier,
    clock: OnceLock<Clock>,
    /// Why a thread's visits failed.
    failure: OnceLock<String>,
}

/// Results of a run's threads.
pub(crate) struct Watched {
    pub outcomes: Vec<Outcome>,
    pub seconds: Vec<Second>,
    pub server_cpu_s: Option<f64>,
}

/// The targets of each thread's connections: all in turn, or only one.
pub(crate) fn places(plan: &Plan, only: Option<usize>) -> Vec<Vec<usize>> {
    let mut threads = vec![Vec::new(); plan.threads];
    for number in 0..plan.connections {
        let target = number % plan.targets.len();
        if only.is_none_or(|only| only == target) {
            threads[number * plan.threads / plan.connections].push(target);
        }
    }
    threads
}

impl Running<'_> {
    /// Connects, starts the threads for the protocol, and watches them to the end.
    pub fn execute(
        &self,
        places: &[Vec<usize>],
        feed: impl Fn(usize) -> Feed + Sync,
        watch: impl FnMut(&Second),
    ) -> Result<Watched, String> {
        let plan = self.plan;
        let checks = || Checks { items: plan.data(), expiry_s: plan.expiry_s };
        let (pipeline, multiget) = (self.pipeline, plan.multiget);
        let window = (pipeline, multiget);
        let socket = |target: usize| open(&plan.targets[target], &self.endpoints[target]);
        match plan.protocol() {
            Protocol::Memcached => self.threads(each(places, socket)?, &feed, watch, |socket| {
                StreamConnection::<Memcached>::new(socket, checks(), window)
            }),
            Protocol::Redis => self.threads(each(places, socket)?, &feed, watch, |socket| {
                StreamConnection::<Redis>::new(socket, checks(), window)
            }),
            Protocol::MemcachedUdp if plan.tcp_writes => {
                let sockets = |target: usize| {
                    let (address, endpoint) = (&plan.targets[target], &self.endpoints[target]);
                    Ok((socket(target)?, open_stream(address, endpoint)?))
                };
                let timeout_ns = nanoseconds(self.timeout);
                self.threads(each(places, sockets)?, &feed, watch, |(udp, tcp)| SplitConnection {
                    reads: UdpConnection::new(udp, checks(), window, timeout_ns),
                    writes: StreamConnection::new(tcp, checks(), window),
                })
            }
            Protocol::MemcachedUdp => self.threads(each(places, socket)?, &feed, watch, |socket| {
                UdpConnection::new(socket, checks(), window, nanoseconds(self.timeout))
            }),
            Protocol::Native => {
                let links = self.links(places)?;
                self.threads(links, &feed, watch, |link| {
                    ClientConnection::new(NativeLink::new(link), checks(), window)
                })
            }
            Protocol::Local => {
                let link =
                    |target: usize| open_local(&plan.targets[target], &self.endpoints[target], plan.timeout);
                self.threads(each(places, link)?, &feed, watch, |link| {
                    ClientConnection::new(link, checks(), window)
                })
            }
            Protocol::Fabric => {
                // Nothing is lost as datagrams are: no deadline is shorter while filling.
                let link = |_| open_fabric(plan, self.endpoints, plan.timeout);
                self.threads(each(places, link)?, &feed, watch, |link| {
                    ClientConnection::new(link, checks(), window)
                })
            }
        }
    }

    /// A client for every connection of every thread.
    fn links(&self, places: &[Vec<usize>]) -> Result<Vec<Vec<Link>>, String> {
        let plan = self.plan;
        let link = |_| {
            let mut link = open_native(plan, self.endpoints, self.pipeline, self.timeout)?;
            if plan.port.is_none() {
                introduce_native(plan, std::slice::from_mut(&mut link))?;
            }
            Ok(link)
        };
        let mut links = each(places, link)?;
        if plan.port.is_some() {
            // Together: what is for one of them may come to the queue of another one.
            let mut all: Vec<_> = links.drain(..).flatten().collect();
            introduce_native(plan, &mut all)?;
            let mut all = all.into_iter();
            let of_thread = |places: &Vec<usize>| all.by_ref().take(places.len()).collect();
            links = places.iter().map(of_thread).collect();
        }
        Ok(links)
    }

    fn threads<S: Send, C: Connection>(
        &self,
        sockets: Vec<Vec<S>>,
        feed: &(impl Fn(usize) -> Feed + Sync),
        watch: impl FnMut(&Second),
        connection: impl Fn(S) -> C + Sync,
    ) -> Result<Watched, String> {
        let (sender, receiver) = channel();
        let connection = &connection;
        let used = sockets.iter().filter(|sockets| !sockets.is_empty()).count();
        let start = Start { barrier: Barrier::new(used), clock: OnceLock::new(), failure: OnceLock::new() };
        let shares = self.own_shares();
        std::thread::scope(|scope| {
            let threads: Vec<_> = sockets
                .into_iter()
                .enumerate()
                .filter(|(_, sockets)| !sockets.is_empty())
                .enumerate()
                .map(|(number, (thread, sockets))| {
                    let (sender, start, shares) = (sender.clone(), &start, shares.get(thread));
                    scope.spawn(move || {
                        self.pin(thread)?;
                        let connections = sockets.into_iter().map(connection).collect();
                        let visited = self.visit(connections, shares.map_or(&[], Vec::as_slice));
                        // It may draw items in advance, which takes its time.
                        let feed = feed(thread);
                        let (connections, clock) = start.together(visited)?;
                        let task = self.task(clock, sender, number == 0);
                        self.work(task, connections, feed)
                    })
                })
                .collect();
            drop(sender);
            let seconds = self.watch(threads.len(), &receiver, watch);
            let outcomes: Vec<Outcome> = threads
                .into_iter()
                .map(|thread| match thread.join() {
                    Ok(outcome) => outcome,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect::<Result<_, String>>()?;
            let server_cpu_s = outcomes.iter().find_map(|outcome| outcome.server_cpu_s);
            Ok(Watched { outcomes, seconds, server_cpu_s })
        })
    }

    fn claim(&self) -> Claim {
        let plan = self.plan;
        if plan.threads <= plan.cpus.len() {
            Claim::Own
        } else if plan.cpus.is_empty() && plan.threads < cores::allowed().len() {
            Claim::Free
        } else {
            Claim::Shared
        }
    }

    fn task(&self, clock: Clock, intervals: Sender<(u64, Interval)>, is_first: bool) -> Task {
        Task {
            clock,
            window_ns: self.window_ns.clone(),
            deadline_ns: self.deadline_ns,
            claim: self.claim(),
            intervals,
            server_pid: self.plan.server_pid.filter(|_| is_first),
        }
    }

    fn pin(&self, thread: usize) -> Result<(), String> {
        let cpus = &self.plan.cpus;
        if cpus.is_empty() || cores::pin(cpus[thread % cpus.len()]) {
            return Ok(());
        }
        let cpu = cpus[thread % cpus.len()];
        Err(format!("--cpu: CPU {cpu} cannot be used; those that can: {:?}", cores::allowed()))
    }

    /// The items that each connection visits.
    fn own_shares(&self) -> Vec<Vec<Share>> {
        if self.passes.is_empty() {
            return Vec::new();
        }
        let places = places(self.plan, None);
        // These clients themselves find the server of a key.
        let together = self.plan.protocol().shares_keys();
        shares(self.plan.items_to_fill(), &places, |target| if together { 0 } else { target })
    }

    /// Visits all items of these shares, and returns the connections.
    fn visit<C: Connection>(&self, mut connections: Vec<C>, shares: &[Share]) -> Result<Vec<C>, String> {
        for pass in &self.passes {
            let task = Task {
                clock: Clock::starting_in(Duration::ZERO),
                window_ns: 0..u64::MAX,
                deadline_ns: u64::MAX,
                claim: self.claim(),
                // Nobody listens.
                intervals: channel().0,
                server_pid: None,
            };
            let mut recorder = Recorder::new(0..u64::MAX);
            recorder.resend = Some(Vec::new());
            let feed = fill_feed(self.plan, *pass, shares.to_vec());
            let worker = Worker::new(task, connections, feed, recorder).map_err(|error| error.to_string())?;
            let (outcome, left) = worker.run();
            let wrong = outcome.recorder.counts.wrong_values;
            let wrong = (wrong > 0).then(|| format!("{wrong} values were wrong"));
            if let Some(failure) = outcome.failure.or(outcome.recorder.refusal).or(wrong) {
                return Err(format!("{}: {}: {failure}", self.plan.targets[0], pass.failed()));
            }
            connections = left.into_iter().flatten().collect();
        }
        Ok(connections)
    }

    fn work<C: Connection>(&self, task: Task, connections: Vec<C>, feed: Feed) -> Result<Outcome, String> {
        let mut recorder = Recorder::new(self.window_ns.clone());
        recorder.resend = self.resend.then(Vec::new);
        recorder.missed = (self.plan.demand_fill && !self.resend).then(Vec::new);
        let worker = Worker::new(task, connections, feed, recorder);
        Ok(worker.map_err(|error| error.to_string())?.run().0)
    }

    /// Puts the seconds of all threads together until the threads end.
    fn watch(
        &self,
        threads: usize,
        intervals: &Receiver<(u64, Interval)>,
        mut watch: impl FnMut(&Second),
    ) -> Vec<Second> {
        let mut seconds = Seconds::new(threads);
        for (at_s, interval) in intervals {
            let measured = self.window_ns.start < at_s * SECOND_NS && at_s * SECOND_NS <= self.window_ns.end;
            if let Some(second) = seconds.add(at_s, measured, &interval) {
                watch(&second);
            }
        }
        seconds.all
    }
}

impl Start {
    /// Waits until all threads are ready; returns what `ready` was and the clock that starts then.
    fn together<T>(&self, ready: Result<T, String>) -> Result<(T, Clock), String> {
        if let Err(failure) = &ready {
            // The first failure is the one that is told.
            let _ = self.failure.set(failure.clone());
        }
        self.barrier.wait();
        match (ready, self.failure.get()) {
            (Ok(ready), None) => Ok((ready, *self.clock.get_or_init(|| Clock::starting_in(START_DELAY)))),
            (Err(failure), None) => Err(failure),
            (_, Some(failure)) => Err(failure.clone()),
        }
    }
}

/// Opens something for every connection of every thread.
fn each<S>(places: &[Vec<usize>], open: impl Fn(usize) -> Result<S, String>) -> Result<Vec<Vec<S>>, String> {
    places.iter().map(|targets| targets.iter().map(|target| open(*target)).collect()).collect()
}
