//! One run: connections, threads, the measured part, the report.

pub(crate) mod clock;
mod cpu_time;
pub(crate) mod latencies;
pub(crate) mod machine;
pub(crate) mod progress;
pub(crate) mod recorder;
mod threads;
mod wait;
pub(crate) mod worker;

use std::ops::Range;
use std::time::Duration;

use micanite_control::cores;
use micanite_workload::Workload;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::address::Endpoint;
use crate::plan::Plan;
use crate::report::{Report, Second, Surroundings, Total};
use crate::requests::Stream;
use crate::requests::arrivals::{Arrivals, Rate};
use crate::requests::feed::{Feed, Fill, Limits, Open, Pass, Share, Source};
use crate::run::clock::{Clock, nanoseconds};
use crate::run::threads::{Running, places};
use crate::target::server_version;

/// While filling, about so many requests are in flight: more datagrams could overflow the server's
/// socket.
const FILL_IN_FLIGHT: usize = 128;
/// Requests in flight on one connection at most, while filling.
const FILL_PIPELINE_MAX: usize = 64;
/// While filling, lost datagrams are sent again after this.
const FILL_TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug)]
pub struct Filled {
    /// Items stored, on every target.
    pub items: u64,
    /// Time that it took.
    pub seconds: f64,
}

/// Does what the plan says, but does not fill.
///
/// # Errors
/// Says what is wrong with the plan, or why no server could be reached, and what to do.
pub fn run(plan: &Plan) -> Result<Report, String> {
    run_watched(plan, |_| {})
}

/// Does what the plan says; calls `watch` with every second as it ends.
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
    let start_ns = nanoseconds(plan.warmup);
    let end_ns = start_ns.saturating_add(nanoseconds(plan.duration));
    let passes = passes(plan);
    let run = Running {
        plan,
        endpoints: &endpoints,
        window_ns: start_ns..end_ns,
        deadline_ns: end_ns.saturating_add(nanoseconds(plan.timeout).saturating_mul(2)),
        pipeline: plan.pipeline.max(if passes.is_empty() { 0 } else { FILL_PIPELINE_MAX }),
        timeout: plan.timeout,
        resend: false,
        passes,
    };
    let feed = |thread| load_feed(plan, thread, start_ns..end_ns);
    let watched = run.execute(&places(plan, None), feed, watch)?;
    let around = Surroundings {
        servers: versions,
        server_cpu_s: watched.server_cpu_s,
        seconds: watched.seconds,
        warnings: crowded(plan),
    };
    Ok(Report::new(plan, Total::of(watched.outcomes), around))
}

/// Visits of all items by the measured connections before the measured part.
fn passes(plan: &Plan) -> Vec<Pass> {
    let writes = plan.own_fill.then_some(Pass::Write);
    writes.into_iter().chain(plan.read_all.then_some(Pass::Read)).collect()
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
    let all: Vec<_> = (0..plan.targets.len()).map(Some).collect();
    let rounds = if plan.protocol().shares_keys() { vec![None] } else { all };
    for only in rounds {
        fill_target(plan, &endpoints, only)?;
    }
    Ok(Filled { items: plan.items_to_fill(), seconds: clock.now_ns() as f64 / 1e9 })
}

/// Stores every item on one target, or on all of them together.
fn fill_target(plan: &Plan, endpoints: &[Endpoint], only: Option<usize>) -> Result<(), String> {
    let address = &plan.targets[only.unwrap_or(0)];
    server_version(address, &endpoints[only.unwrap_or(0)])?;
    let places = places(plan, only);
    let connections = places.iter().map(Vec::len).sum::<usize>();
    let run = Running {
        plan,
        endpoints,
        window_ns: 0..u64::MAX,
        deadline_ns: u64::MAX,
        pipeline: (FILL_IN_FLIGHT / connections).clamp(1, FILL_PIPELINE_MAX),
        timeout: plan.timeout.min(FILL_TIMEOUT),
        resend: true,
        passes: Vec::new(),
    };
    let shares = shares(plan.items_to_fill(), &places, |_| 0);
    let feed = |thread: usize| fill_feed(plan, Pass::Write, shares[thread].clone());
    let total = Total::of(run.execute(&places, feed, |_| {})?.outcomes);
    if let Some(failure) = total.failure {
        return Err(format!("{address}: filling failed: {failure}"));
    }
    if let Some(line) = total.refusal {
        let (refused, items) = (total.counts.refused, plan.items_to_fill());
        return Err(format!("{address}: {refused} of {items} items could not be stored: {line}"));
    }
    Ok(())
}

/// The items that every connection of every thread has to visit: all connections whose target has the same
/// number share them out.
pub(crate) fn shares(items: u64, places: &[Vec<usize>], number: impl Fn(usize) -> usize) -> Vec<Vec<Share>> {
    let all = || places.iter().flatten();
    let step = |target| all().filter(|other| number(**other) == target).count() as u64;
    let mut next = vec![0; all().max().map_or(0, |last| last + 1)];
    let mut share = |target: &usize| {
        let target = number(*target);
        next[target] += 1;
        Share { next: next[target] - 1, step: step(target), items }
    };
    places.iter().map(|of_thread| of_thread.iter().map(&mut share).collect()).collect()
}

/// Requests of a thread that visits all items.
pub(crate) fn fill_feed(plan: &Plan, pass: Pass, shares: Vec<Share>) -> Feed {
    let pool = plan.workload.and_then(Workload::pool);
    let pool = pool.map(|pool| (pool, plan.items));
    Feed::Fill(Fill::new(pass, shares, pool, plan.seed))
}

fn load_feed(plan: &Plan, thread: usize, window_ns: Range<u64>) -> Feed {
    let part = (thread, plan.threads);
    let mix = plan.mix();
    let end_ns = window_ns.end;
    let of_thread = |operations| share_of(operations, part);
    let limits = Limits {
        window_ns,
        operations_left: plan.operations_max.map_or(u64::MAX, of_thread),
        // Connections that visited all items may have room for more.
        in_flight_max: if passes(plan).is_empty() { usize::MAX } else { plan.pipeline },
    };
    let source = Source::new(Stream::new(plan, part), plan.multiget, plan.batch, limits);
    let Some(rate_ops) = plan.rate_ops else {
        return Feed::Closed(source);
    };
    let rate = Rate {
        requests_per_s: rate_ops / mix.operations_per_request(),
        spacing: plan.arrivals,
        batch: plan.batch,
        profile: plan.rate_profile.clone(),
        run_s: end_ns as f64 / 1e9,
    };
    let arrivals = Arrivals::new(&rate, plan.seed, part);
    Feed::Open(Box::new(Open::new(source, arrivals)))
}

/// A thread's part of the operations.
const fn share_of(operations: u64, (thread, threads): (usize, usize)) -> u64 {
    let (thread, threads) = (thread as u64, threads as u64);
    operations / threads + (thread < operations % threads) as u64
}

fn resolve(plan: &Plan) -> Result<Vec<Endpoint>, String> {
    plan.targets.iter().map(|target| target.resolve()).collect()
}

fn check_machine(plan: &Plan) -> Result<(), String> {
    let allowed = cores::allowed();
    if let Some(cpu) = plan.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(format!("--cpu: CPU {cpu} cannot be used here; these can: {allowed:?}"));
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
        0 => cores::allowed().len(),
        cpus => cpus,
    };
    if plan.threads > cpus {
        let threads = plan.threads;
        vec![format!("{threads} threads share {cpus} CPUs: latencies include their waiting for each other")]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The connections of a target visit each item once, in whichever threads they are.
    #[test]
    fn shares_cover_all_items_of_each_target() {
        let places = [vec![0, 1, 0], vec![1, 0]];
        let shares = shares(10, &places, |target| target);
        for target in 0..2 {
            let mut seen = Vec::new();
            for (of_thread, shares) in places.iter().zip(&shares) {
                let own = of_thread.iter().zip(shares).filter(|(place, _)| **place == target);
                let items = |share: &Share| (share.next..share.items).step_by(share.step as usize);
                seen.extend(own.flat_map(|(_, share)| items(share)));
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..10).collect::<Vec<_>>(), "{target}");
        }
        assert!(shares.iter().map(Vec::len).eq([3, 2]));
    }

    #[test]
    fn threads_share_the_operations() {
        let shares: Vec<_> = (0..4).map(|thread| share_of(10, (thread, 4))).collect();
        assert_eq!(shares, [3, 3, 2, 2]);
    }
}
