//! The threads of a run, and what they are watched for.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use micanite_client::Link;
use micanite_control::cores;

use crate::address::{Endpoint, Protocol};
use crate::plan::Plan;
use crate::report::Second;
use crate::requests::feed::Feed;
use crate::run::clock::{Clock, SECOND_NS, nanoseconds};
use crate::run::progress::Seconds;
use crate::run::recorder::{Interval, Recorder};
use crate::run::wait::Claim;
use crate::run::worker::{Outcome, Task, Worker};
use crate::target::{
    Checks, Connection, Memcached, NativeConnection, Redis, SplitConnection, StreamConnection, UdpConnection,
    introduce_native, open, open_native, open_stream,
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
                self.threads(links, &feed, watch, |link| NativeConnection::new(link, checks(), window))
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
        let clock = Clock::starting_in(START_DELAY);
        std::thread::scope(|scope| {
            let threads: Vec<_> = sockets
                .into_iter()
                .enumerate()
                .filter(|(_, sockets)| !sockets.is_empty())
                .enumerate()
                .map(|(number, (thread, sockets))| {
                    let task = self.task(clock, sender.clone(), number == 0);
                    scope.spawn(move || {
                        let connections = sockets.into_iter().map(connection).collect();
                        self.work(thread, task, connections, feed(thread))
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

    fn task(&self, clock: Clock, intervals: Sender<(u64, Interval)>, is_first: bool) -> Task {
        let plan = self.plan;
        let claim = if plan.threads <= plan.cpus.len() {
            Claim::Own
        } else if plan.cpus.is_empty() && plan.threads < cores::allowed().len() {
            Claim::Free
        } else {
            Claim::Shared
        };
        Task {
            clock,
            window_ns: self.window_ns.clone(),
            deadline_ns: self.deadline_ns,
            claim,
            intervals,
            server_pid: plan.server_pid.filter(|_| is_first),
        }
    }

    fn work<C: Connection>(
        &self,
        thread: usize,
        task: Task,
        connections: Vec<C>,
        feed: Feed,
    ) -> Result<Outcome, String> {
        if !self.plan.cpus.is_empty() {
            let cpu = self.plan.cpus[thread % self.plan.cpus.len()];
            if !cores::pin(cpu) {
                return Err(format!(
                    "--cpu: CPU {cpu} cannot be used; those that can: {:?}",
                    cores::allowed()
                ));
            }
        }
        let mut recorder = Recorder::new(self.window_ns.clone());
        recorder.resend = self.resend.then(Vec::new);
        recorder.missed = (self.plan.demand_fill && !self.resend).then(Vec::new);
        let worker = Worker::new(task, connections, feed, recorder);
        Ok(worker.map_err(|error| error.to_string())?.run())
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

/// Opens something for every connection of every thread.
fn each<S>(places: &[Vec<usize>], open: impl Fn(usize) -> Result<S, String>) -> Result<Vec<Vec<S>>, String> {
    places.iter().map(|targets| targets.iter().map(|target| open(*target)).collect()).collect()
}
