//! NUMA: the memory of partitions on the nodes of their owners (`--numa`).
//!
//! ```text
//!  start      sysfs -> Found -> the engine makes and binds partitions
//!  set_route  another owner -> Places: wanted policy, queue
//!  numa       one partition at a time: bind, then move its pages, slice by slice, with pauses
//! ```
//!
//! | file | |
//! |---|---|
//! | `found` | looks at the machine |
//! | `places` | wanted and actual places, and the queue |
//! | `migrate` | one move |
//! | `thread` | the thread that moves |
//! | `text` | the answer of `ctl numa` |
//!
//! On a machine of one node there is neither a thread nor a system call.

mod found;
mod migrate;
mod places;
#[cfg(test)]
mod tests;
mod text;
mod thread;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use micanite_engine::{Cache, Route, WorkerNodes};
use micanite_memory::numa::Policy;
use nix::errno::Errno;

use crate::telemetry::table::group::Row;

pub use found::Found;
pub use places::{Place, State};
pub(crate) use text::sampled;
pub(crate) use thread::NumaThread;

use migrate::End;
use places::{Job, Places};

/// Advice where the kernel refuses the system calls, as container engines have it.
const ADVICE: &str = "allow get_mempolicy, set_mempolicy, mbind and move_pages (Docker: --cap-add SYS_NICE, \
     or a seccomp profile that allows them), or say --numa off";

/// State of the placement.
#[derive(Debug)]
pub struct NumaState {
    nodes: usize,
    /// The nodes of the workers, if partitions are bound.
    workers: Result<Arc<WorkerNodes>, String>,
    /// Something to tell at the start.
    warning: Option<String>,
    places: Mutex<Places>,
    changed: Condvar,
    counts: Counts,
}

/// Counts of moves and pages.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    begun: AtomicU64,
    done: AtomicU64,
    given_up: AtomicU64,
    cancelled: AtomicU64,
    pages_moved: AtomicU64,
    pages_failed: AtomicU64,
}

/// The numbers of `stats numa`, behind `numa_`.
pub(crate) const COUNTS: [Row<Counts>; 6] = [
    ("moves_begun", "Moves of a partition's memory that have begun.", |of| of.begun.load(Ordering::Relaxed)),
    ("moves_done", "Moves that are done.", |of| of.done.load(Ordering::Relaxed)),
    ("moves_given_up", "Moves that were given up, in part or at all.", |of| {
        of.given_up.load(Ordering::Relaxed)
    }),
    ("moves_cancelled", "Moves that a newer one has replaced.", |of| of.cancelled.load(Ordering::Relaxed)),
    ("pages_moved", "Pages of 4 KiB that have moved.", |of| of.pages_moved.load(Ordering::Relaxed)),
    ("pages_failed", "Pages of 4 KiB that have failed to move.", |of| {
        of.pages_failed.load(Ordering::Relaxed)
    }),
];

/// What a change of a route means for a partition's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follow {
    /// It is where it should be, or there is one node.
    Nothing,
    /// It moves in the background.
    Moves(Policy),
    /// It stays where it is.
    Stays(String),
}

impl NumaState {
    /// After the start of a cache by what was found.
    pub fn new(found: &Found, cache: &Cache) -> Self {
        let partitions = cache.layout().partitions;
        let (workers, warning) = judge(found, cache);
        let mut places = Places::default();
        if let Ok(workers) = &workers {
            let policy = |number| workers.policy(cache.route(number)?);
            places = Places::new((0..partitions).map(policy));
            for (partition, error) in &cache.bound().failed {
                places.fail(*partition, not_bound(*error));
            }
            if cache.image_state().is_kept() {
                // The process before may have had other nodes.
                (0..partitions).for_each(|partition| places.enqueue(partition));
            }
        }
        Self {
            nodes: found.nodes(),
            workers,
            warning,
            places: Mutex::new(places),
            changed: Condvar::new(),
            counts: Counts::default(),
        }
    }

    /// Returns whether partitions are bound.
    pub fn is_active(&self) -> bool {
        self.workers.is_ok()
    }

    /// Returns the number of nodes of the machine.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the reason why partitions are not bound.
    pub fn reason(&self) -> Option<&str> {
        self.workers.as_ref().err().map(String::as_str)
    }

    /// Returns what a person should know at the start.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Returns the place of each partition's memory.
    pub fn places(&self) -> Vec<Place> {
        self.lock().all().to_vec()
    }

    /// Calls `each` with the name and the value of each count.
    pub fn each_count(&self, mut each: impl FnMut(&'static str, u64)) {
        COUNTS.iter().for_each(|(name, _, count)| each(name, count(&self.counts)));
    }

    /// Notes the new route of a partition. To be called by one thread at a time for a partition.
    pub(crate) fn follow(&self, partition: usize, before: Route, route: Route) -> Follow {
        let workers = match &self.workers {
            Ok(workers) => workers,
            Err(reason) if self.nodes > 1 && before.owner != route.owner => {
                return Follow::Stays(reason.clone());
            }
            Err(_) => return Follow::Nothing,
        };
        let policy = workers.policy(route);
        if !self.lock().want(partition, policy) {
            return Follow::Nothing;
        }
        self.changed.notify_all();
        match policy {
            Some(policy) => Follow::Moves(policy),
            None => {
                let worker = route.owner;
                Follow::Stays(format!("the node of worker {worker} gives this process no memory"))
            }
        }
    }

    /// Waits for the next task; none at the end.
    fn next(&self) -> Option<Job> {
        let mut places = self.lock();
        loop {
            if places.is_ending {
                return None;
            }
            if let Some(job) = places.next() {
                self.counts.begun.fetch_add(1, Ordering::Relaxed);
                return Some(job);
            }
            places = self.changed.wait(places).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes the progress of a task and waits. Returns whether it is still wanted, as soon as it is not.
    fn go_on(&self, job: &Job, percent: u64, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut places = self.lock();
        places.set(job, State::Moving(percent));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !places.is_wanted(job) {
                return places.is_wanted(job);
            }
            let waited = self.changed.wait_timeout(places, left);
            places = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes the end of a task.
    fn note(&self, job: &Job, end: &End) {
        let add = |count: &AtomicU64, number| count.fetch_add(number, Ordering::Relaxed);
        match end {
            End::Cancelled(moved) => {
                add(&self.counts.pages_moved, *moved);
                add(&self.counts.cancelled, 1);
            }
            End::Done(state, moved) => {
                add(&self.counts.pages_moved, *moved);
                match state {
                    State::Moved => add(&self.counts.done, 1),
                    State::Partly(failed, _) => {
                        add(&self.counts.pages_failed, *failed);
                        add(&self.counts.given_up, 1)
                    }
                    _ => add(&self.counts.given_up, 1),
                };
                self.lock().set(job, state.clone());
            }
        }
    }

    /// Ends the thread.
    fn end(&self) {
        self.lock().is_ending = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides whether partitions are bound, and what to warn of.
fn judge(found: &Found, cache: &Cache) -> (Result<Arc<WorkerNodes>, String>, Option<String>) {
    let workers = match found {
        Found::One => return (Err("this machine has one NUMA node".into()), None),
        Found::Unbound { reason, is_refused, .. } => {
            let warning = is_refused.then(|| unbound(reason));
            return (Err(reason.clone()), warning);
        }
        Found::Bound { workers, .. } => Arc::clone(workers),
    };
    if !cache.maps().is_empty() {
        let reason = "the kernel has made the maps of --kernel-get, and lets nobody bind or move them";
        return (Err(reason.into()), None);
    }
    let bound = cache.bound();
    let Some((_, error)) = bound.failed.first() else {
        return (Ok(workers), None);
    };
    let reason = not_bound(*error);
    if bound.partitions == 0 {
        let warning = unbound(&reason);
        return (Err(reason), Some(warning));
    }
    let (failed, all) = (bound.failed.len(), bound.failed.len() + bound.partitions);
    (Ok(workers), Some(format!("{failed} of {all} partitions are not bound to their NUMA node: {reason}")))
}

fn not_bound(error: i32) -> String {
    refused("mbind", &io::Error::from_raw_os_error(error))
}

fn unbound(reason: &str) -> String {
    format!("partitions are not bound to NUMA nodes, their memory is where it is touched first: {reason}")
}

/// Describes an error of a system call, with the remedy where a filter refuses it.
fn refused(call: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) if [Errno::EPERM, Errno::ENOSYS].contains(&Errno::from_raw(number)) => {
            format!("the kernel refuses {call} ({error}): {ADVICE}")
        }
        Some(_) => format!("{call}: {error}"),
        // It names the call.
        None => error.to_string(),
    }
}
