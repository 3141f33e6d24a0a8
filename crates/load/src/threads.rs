//! The threads of a run, and what they are watched for.

use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use micanite_client::Link;
use micanite_workload::{Keys, Values};

use crate::address::{Endpoint, Protocol};
use crate::clock::{Clock, SECOND_NS, nanoseconds};
use crate::feed::Feed;
use crate::machine;
use crate::plan::Plan;
use crate::progress::Seconds;
use crate::recorder::{Interval, Recorder};
use crate::report::Second;
use crate::target::{
    Checks, Connection, Memcached, NativeConnection, Redis, StreamConnection, UdpConnection,
    introduce, open, open_native,
};
use crate::wait::Claim;
use crate::worker::{Outcome, Task, Worker};

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
    /// Whether lost writes are written again.
    pub resend: bool,
}

/// What came of it.
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
        let checks = || Checks {
            keys: Keys::new(plan.dataset.key_bytes),
            values: Values::new(plan.dataset.value_bytes),
            expiry_s: plan.expiry_s,
        };
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
            Protocol::MemcachedUdp => self.threads(each(places, socket)?, &feed, watch, |socket| {
                UdpConnection::new(socket, checks(), window, nanoseconds(self.timeout))
            }),
            Protocol::Native => {
                let links = self.links(places)?;
                self.threads(links, &feed, watch, |link| {
                    NativeConnection::new(link, checks(), window)
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
                introduce(plan, std::slice::from_mut(&mut link))?;
            }
            Ok(link)
        };
        let mut links = each(places, link)?;
        if plan.port.is_some() {
            // Together: what is for one of them may come to the queue of another one.
            let mut all: Vec<_> = links.drain(..).flatten().collect();
            introduce(plan, &mut all)?;
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
                .map(|(thread, sockets)| {
                    let task = self.task(clock, sender.clone());
                    scope.spawn(move || {
                        let connections = sockets.into_iter().map(connection).collect();
                        self.work(thread, task, connections, feed(thread))
                    })
                })
                .collect();
            drop(sender);
            let (seconds, server_cpu_s) = self.watch(threads.len(), clock, &receiver, watch);
            let outcomes = threads
                .into_iter()
                .map(|thread| match thread.join() {
                    Ok(outcome) => outcome,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect::<Result<_, String>>()?;
            Ok(Watched {
                outcomes,
                seconds,
                server_cpu_s,
            })
        })
    }

    fn task(&self, clock: Clock, intervals: Sender<(u64, Interval)>) -> Task {
        let plan = self.plan;
        let claim = if plan.threads <= plan.cpus.len() {
            Claim::Own
        } else if plan.cpus.is_empty() && plan.threads < machine::allowed_cpus().len() {
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
            machine::pin(self.plan.cpus[thread % self.plan.cpus.len()])?;
        }
        let mut recorder = Recorder::new(self.window_ns.clone());
        recorder.resend = self.resend.then(Vec::new);
        let worker = Worker::new(task, connections, feed, recorder);
        Ok(worker.map_err(|error| error.to_string())?.run())
    }

    /// Puts the seconds of all threads together and samples the server's CPU time until the threads
    /// end.
    fn watch(
        &self,
        threads: usize,
        clock: Clock,
        intervals: &Receiver<(u64, Interval)>,
        mut watch: impl FnMut(&Second),
    ) -> (Vec<Second>, Option<f64>) {
        let mut seconds = Seconds::new(threads);
        let mut samples = Vec::new();
        let mut times_ns = vec![self.window_ns.end, self.window_ns.start];
        loop {
            let wait_ns = match times_ns.last() {
                Some(time_ns) => time_ns.saturating_sub(clock.now_ns()),
                None => 3600 * SECOND_NS,
            };
            match intervals.recv_timeout(Duration::from_nanos(wait_ns)) {
                Ok((at_s, interval)) => {
                    let measured = self.window_ns.start < at_s * SECOND_NS
                        && at_s * SECOND_NS <= self.window_ns.end;
                    if let Some(second) = seconds.add(at_s, measured, &interval) {
                        watch(&second);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if times_ns.pop().is_some() {
                        samples.extend(self.plan.server_pid.map(machine::cpu_s));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Threads without anything left in flight may end before this thread has woken.
        if samples.len() == 1 {
            samples.extend(self.plan.server_pid.map(machine::cpu_s));
        }
        let server_cpu_s = match samples[..] {
            [Ok(before), Ok(after)] => Some(after - before),
            _ => None,
        };
        (seconds.all, server_cpu_s)
    }
}

/// Opens something for every connection of every thread.
fn each<S>(
    places: &[Vec<usize>],
    open: impl Fn(usize) -> Result<S, String>,
) -> Result<Vec<Vec<S>>, String> {
    places
        .iter()
        .map(|targets| targets.iter().map(|target| open(*target)).collect())
        .collect()
}
