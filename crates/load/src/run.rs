//! One run: connections, threads, the measured part, the report.

use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use micanite_workload::{Keys, Requests, Values};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::address::{Endpoint, Protocol};
use crate::arrivals::{Arrivals, Rate};
use crate::clock::{Clock, SECOND_NS, nanoseconds};
use crate::feed::{Feed, Fill, Open, Share, Source};
use crate::machine;
use crate::plan::Plan;
use crate::progress::Seconds;
use crate::recorder::{Interval, Recorder};
use crate::report::{Report, Second, Surroundings, Total};
use crate::target::{
    Connection, Memcached, Redis, Socket, StreamConnection, UdpConnection, open, server_version,
};
use crate::worker::{Outcome, Task, Worker};

/// Threads are given this long to start.
const START_DELAY: Duration = Duration::from_millis(5);

/// While filling, about so many requests are in flight: more datagrams could overflow the server's socket.
const FILL_IN_FLIGHT: usize = 128;
/// Of which on one connection at most.
const FILL_PIPELINE_MAX: usize = 64;
/// While filling, lost datagrams are sent again after this.
const FILL_TIMEOUT: Duration = Duration::from_millis(200);

/// What came of filling.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    /// Items stored, on every target.
    pub items: u64,
    /// How long that took.
    pub seconds: f64,
}

/// Does what the plan says, but does not fill.
///
/// # Errors
/// What is wrong with the plan, or why no server could be reached; a sentence that says what to do.
pub fn run(plan: &Plan) -> Result<Report, String> {
    run_watched(plan, |_| {})
}

/// The same; `watch` is called with every second as it ends.
pub(crate) fn run_watched(plan: &Plan, watch: impl FnMut(&Second)) -> Result<Report, String> {
    plan.check()?;
    check_machine(plan)?;
    let endpoints = resolve(plan)?;
    let versions = plan
        .targets
        .iter()
        .zip(&endpoints)
        .map(|(address, endpoint)| server_version(address, endpoint))
        .collect::<Result<Vec<_>, _>>()?;
    let sockets = open_all(plan, &endpoints, None)?;
    let start_ns = nanoseconds(plan.warmup);
    let end_ns = start_ns + nanoseconds(plan.duration);
    let run = Running {
        plan,
        clock: Clock::starting_in(START_DELAY),
        window_ns: start_ns..end_ns,
        deadline_ns: end_ns + nanoseconds(plan.timeout).saturating_mul(2),
        pipeline: plan.pipeline,
        timeout_ns: nanoseconds(plan.timeout),
    };
    let feed = |thread| load_feed(plan, thread, end_ns);
    let watched = run.execute(sockets, feed, false, watch)?;
    let around = Surroundings {
        servers: versions,
        server_cpu_s: watched.server_cpu_s,
        seconds: watched.seconds,
        warnings: crowded(plan),
    };
    Ok(Report::new(plan, Total::of(watched.outcomes), around))
}

/// Stores every item once on every target. Lost datagrams are sent again.
///
/// # Errors
/// When an item could not be stored.
pub fn fill(plan: &Plan) -> Result<Filled, String> {
    plan.check()?;
    check_machine(plan)?;
    let endpoints = resolve(plan)?;
    let clock = Clock::starting_in(Duration::ZERO);
    for target in 0..plan.targets.len() {
        let address = &plan.targets[target];
        server_version(address, &endpoints[target])?;
        let sockets = open_all(plan, &endpoints, Some(target))?;
        let connections = sockets.iter().map(Vec::len).sum::<usize>() as u64;
        let run = Running {
            plan,
            clock: Clock::starting_in(START_DELAY),
            window_ns: 0..u64::MAX,
            deadline_ns: u64::MAX,
            pipeline: (FILL_IN_FLIGHT / connections as usize).clamp(1, FILL_PIPELINE_MAX),
            timeout_ns: nanoseconds(plan.timeout.min(FILL_TIMEOUT)),
        };
        let shares = shares(plan.items, &sockets, connections);
        let feed = |thread: usize| Feed::Fill(Fill::new(shares[thread].clone(), plan.seed));
        let total = Total::of(run.execute(sockets, feed, true, |_| {})?.outcomes);
        if let Some(failure) = total.failure {
            return Err(format!("{address}: filling failed: {failure}"));
        }
        if let Some(line) = total.refusal {
            let refused = total.counts.refused;
            return Err(format!(
                "{address}: {refused} of {} items could not be stored: {line}",
                plan.items
            ));
        }
    }
    Ok(Filled {
        items: plan.items,
        seconds: clock.now_ns() as f64 / 1e9,
    })
}

/// The items that every connection of every thread has to store.
fn shares(items: u64, sockets: &[Vec<Socket>], step: u64) -> Vec<Vec<Share>> {
    let mut numbers = 0..step;
    let share = |next| Share { next, step, items };
    sockets
        .iter()
        .map(|of_thread| numbers.by_ref().take(of_thread.len()).map(share).collect())
        .collect()
}

/// What thread `thread` sends.
fn load_feed(plan: &Plan, thread: usize, end_ns: u64) -> Feed {
    let part = (thread, plan.threads);
    let mix = plan.mix();
    let requests = Requests::new(plan.popularity, plan.items, mix, plan.seed, part);
    let source = Source::new(requests, plan.multiget, plan.batch, end_ns);
    let Some(rate_ops) = plan.rate_ops else {
        return Feed::Closed(source);
    };
    let rate = Rate {
        requests_per_s: rate_ops / mix.operations_per_request(),
        even: plan.even_arrivals,
        profile: plan.rate_profile.clone(),
        run_s: end_ns as f64 / 1e9,
    };
    let arrivals = Arrivals::new(&rate, plan.seed, part);
    Feed::Open(Box::new(Open::new(source, arrivals)))
}

fn resolve(plan: &Plan) -> Result<Vec<Endpoint>, String> {
    plan.targets.iter().map(|target| target.resolve()).collect()
}

fn check_machine(plan: &Plan) -> Result<(), String> {
    let allowed = machine::allowed_cpus();
    if let Some(cpu) = plan.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(format!(
            "--cpu: CPU {cpu} cannot be used here; these can: {allowed:?}"
        ));
    }
    if let Some(pid) = plan.server_pid {
        machine::cpu_s(pid)?;
    }
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Many connections; where it is refused, opening says so.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    Ok(())
}

/// A warning when threads that spin outnumber what they may use.
fn crowded(plan: &Plan) -> Vec<String> {
    let cpus = match plan.cpus.len() {
        0 => machine::allowed_cpus().len(),
        cpus => cpus,
    };
    if plan.threads > cpus {
        let threads = plan.threads;
        vec![format!(
            "{threads} threads share {cpus} CPUs: latencies include their waiting for each other"
        )]
    } else {
        Vec::new()
    }
}

/// The connections of each thread: they go to the targets in turn, or all to one.
fn open_all(
    plan: &Plan,
    endpoints: &[Endpoint],
    only: Option<usize>,
) -> Result<Vec<Vec<Socket>>, String> {
    let mut threads: Vec<Vec<Socket>> = (0..plan.threads).map(|_| Vec::new()).collect();
    for number in 0..plan.connections {
        let target = number % plan.targets.len();
        if only.is_none_or(|only| only == target) {
            let socket = open(&plan.targets[target], &endpoints[target])?;
            threads[number * plan.threads / plan.connections].push(socket);
        }
    }
    Ok(threads)
}

/// A run that is under way.
struct Running<'a> {
    plan: &'a Plan,
    clock: Clock,
    window_ns: Range<u64>,
    deadline_ns: u64,
    pipeline: usize,
    /// After this a datagram is lost.
    timeout_ns: u64,
}

/// What came of it.
struct Watched {
    outcomes: Vec<Outcome>,
    seconds: Vec<Second>,
    server_cpu_s: Option<f64>,
}

impl Running<'_> {
    /// Starts the threads for the protocol, and watches them to the end.
    fn execute(
        &self,
        sockets: Vec<Vec<Socket>>,
        feed: impl Fn(usize) -> Feed + Sync,
        resend: bool,
        watch: impl FnMut(&Second),
    ) -> Result<Watched, String> {
        let plan = self.plan;
        let checks = crate::target::Checks {
            keys: Keys::new(plan.dataset.key_bytes),
            values: Values::new(plan.dataset.value_bytes),
            expiry_s: plan.expiry_s,
        };
        let checks = || checks.clone();
        let (pipeline, multiget) = (self.pipeline, plan.multiget);
        match plan.protocol() {
            Protocol::Memcached => self.threads(sockets, &feed, resend, watch, |socket| {
                StreamConnection::<Memcached>::new(socket, checks(), pipeline, multiget)
            }),
            Protocol::Redis => self.threads(sockets, &feed, resend, watch, |socket| {
                StreamConnection::<Redis>::new(socket, checks(), pipeline, multiget)
            }),
            Protocol::MemcachedUdp => self.threads(sockets, &feed, resend, watch, |socket| {
                UdpConnection::new(socket, checks(), (pipeline, multiget), self.timeout_ns)
            }),
        }
    }

    fn threads<C: Connection>(
        &self,
        sockets: Vec<Vec<Socket>>,
        feed: &(impl Fn(usize) -> Feed + Sync),
        resend: bool,
        watch: impl FnMut(&Second),
        connection: impl Fn(Socket) -> C + Sync,
    ) -> Result<Watched, String> {
        let (sender, receiver) = channel();
        let connection = &connection;
        std::thread::scope(|scope| {
            let threads: Vec<_> = sockets
                .into_iter()
                .enumerate()
                .filter(|(_, sockets)| !sockets.is_empty())
                .map(|(thread, sockets)| {
                    let task = self.task(sender.clone());
                    scope.spawn(move || {
                        let connections = sockets.into_iter().map(connection).collect();
                        self.work(thread, task, connections, feed(thread), resend)
                    })
                })
                .collect();
            drop(sender);
            let (seconds, server_cpu_s) = self.watch(threads.len(), &receiver, watch);
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

    fn task(&self, intervals: Sender<(u64, Interval)>) -> Task {
        let plan = self.plan;
        let pinned = plan.threads <= plan.cpus.len();
        Task {
            clock: self.clock,
            window_ns: self.window_ns.clone(),
            deadline_ns: self.deadline_ns,
            may_spin: pinned || plan.threads < machine::allowed_cpus().len(),
            intervals,
        }
    }

    fn work<C: Connection>(
        &self,
        thread: usize,
        task: Task,
        connections: Vec<C>,
        feed: Feed,
        resend: bool,
    ) -> Result<Outcome, String> {
        if !self.plan.cpus.is_empty() {
            machine::pin(self.plan.cpus[thread % self.plan.cpus.len()])?;
        }
        let mut recorder = Recorder::new(self.window_ns.clone());
        recorder.resend = resend.then(Vec::new);
        let worker = Worker::new(task, connections, feed, recorder);
        Ok(worker.map_err(|error| error.to_string())?.run())
    }

    /// Puts the seconds of all threads together and samples the server's CPU time until the threads end.
    fn watch(
        &self,
        threads: usize,
        intervals: &Receiver<(u64, Interval)>,
        mut watch: impl FnMut(&Second),
    ) -> (Vec<Second>, Option<f64>) {
        let mut seconds = Seconds::new(threads);
        let mut samples = Vec::new();
        let mut times_ns = vec![self.window_ns.end, self.window_ns.start];
        loop {
            let wait_ns = match times_ns.last() {
                Some(time_ns) => time_ns.saturating_sub(self.clock.now_ns()),
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
