//! Runs `--balance auto` on loads that are uneven by requests, or by the time of a request: two workers, 16
//! partitions, all at first of the worker of their parity.

use std::time::Duration;

use micanite_engine::{Access, Cache, Route};
use micanite_server::control::balance::{Balancer, Period, costs};
use micanite_server::shared;
use micanite_server::telemetry::costs::Samples;
use micanite_workload::Random;

use super::Options;
use super::feed::{Direct, Fed, Team, WORKERS};
use super::stream::Stream;
use crate::Result;
use crate::harness::{in_process, system};
use crate::results::measurement::Measurement;

/// Start of the cases' names.
const NAME: &str = "balance of partitions";
const PARTITIONS: usize = 16;
const SEED: u64 = 16;
/// Values of a datagram's length, nearly.
const LARGE_BYTES: usize = 1024;
const SMALL_BYTES: usize = 8;
/// Periods in which a load settles: decisions need three, and each change one.
const SETTLING_PERIODS: u32 = 16;
const MEASURED_PERIODS: u32 = 4;

/// A load, as each partition has it.
#[derive(Clone, Copy)]
struct Part {
    /// Share of the requests, relative.
    share: f64,
    get_percent: u64,
    value_bytes: usize,
}

type Parts = [Part; PARTITIONS];

/// The party that decides about routes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Nothing,
    Requests,
    Time,
}

const POLICIES: [(&str, By); 3] =
    [("not balanced", By::Nothing), ("by requests", By::Requests), ("by time", By::Time)];

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    const TINY: Part = Part { share: 1.0, get_percent: 95, value_bytes: SMALL_BYTES };
    let is_first = |partition: usize| partition.is_multiple_of(WORKERS);
    let of_first = |part: Part| std::array::from_fn(|at| if is_first(at) { part } else { TINY });
    let loads: [(&str, Parts, Parts); 4] = [
        // Beside a uniform load; the others beside the same one with its dear partitions dealt evenly.
        ("Zipf 0.99 over the partitions", hot_set(0), [TINY; PARTITIONS]),
        ("values of 1 KiB on one worker", of_first(Part { value_bytes: LARGE_BYTES, ..TINY }), [TINY; 16]),
        ("SETs on one worker", of_first(Part { get_percent: 0, ..TINY }), [TINY; 16]),
        // Balancing has nothing to gain.
        ("a uniform load", [TINY; PARTITIONS], [TINY; 16]),
    ];
    let moving = format!("{NAME}, moving hot set");
    for (number, (load, parts, uniform)) in loads.into_iter().enumerate() {
        let name = format!("{NAME}, {load}");
        let moves = number == 0 && options.common.wants(&moving);
        if !options.common.wants(&name) && !moves {
            continue;
        }
        let [first, second, ..] = *cpus else {
            report.note("one CPU only: balancing was not measured");
            return Ok(());
        };
        // The thread that decides shares a CPU with a worker, and must get a turn.
        system::make_normal();
        let bench = Bench::new(options, [first, second], parts)?;
        if options.common.wants(&name) {
            let reference = (number == 0).then_some(uniform);
            bench.settle(&name, (parts, reference), report)?;
        }
        if moves {
            bench.follow(&moving, uniform, report)?;
        }
    }
    Ok(())
}

/// Zipf 0.99 over the partitions, the hotter ones on one worker: ranks go to its partitions first, beginning
/// with a different one, and with the other worker, in each set.
fn hot_set(number: usize) -> Parts {
    let mut parts = [Part { share: 0.0, get_percent: 95, value_bytes: SMALL_BYTES }; PARTITIONS];
    let per_worker = PARTITIONS / WORKERS;
    for rank in 0..PARTITIONS {
        let worker = (rank / per_worker + number) % WORKERS;
        let place = (rank + 3 * number) % per_worker;
        parts[place * WORKERS + worker].share = 1.0 / ((rank + 1) as f64).powf(0.99);
    }
    parts
}

struct Bench<'a> {
    options: &'a Options,
    team: Team,
    /// Items of each partition.
    items: Vec<Vec<u64>>,
    period: Duration,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options, cpus: [usize; WORKERS], parts: Parts) -> Result<Self> {
        let team = Team::new(in_process::server_of(WORKERS, "2g", "cache", Some(PARTITIONS))?, cpus)?;
        if team.partitions() != PARTITIONS {
            return Err("the cache has another number of partitions".into());
        }
        // Values of 1 KiB: an eighth of the items takes as much memory as tiny ones do.
        let count = options.items() / 8;
        eprintln!("{NAME}: filling {count} items");
        team.fill(count, |partition| parts[partition].value_bytes)?;
        let mut items = vec![Vec::new(); PARTITIONS];
        for item in 0..count {
            items[team.partition_of(item)].push(item);
        }
        let period = Duration::from_millis(if options.common.quick { 60 } else { 150 });
        Ok(Self { options, team, items, period })
    }

    fn stream(&self, parts: &Parts) -> Stream {
        let requests = if self.options.common.quick { 1 << 18 } else { 1 << 20 };
        let all: f64 = parts.iter().map(|part| part.share).sum();
        let mut random = Random::new(SEED);
        let drawn = (0..requests).map(|_| {
            let mut left = random.below(1 << 32) as f64 / (1_u64 << 32) as f64 * all;
            let mut partition = 0;
            while partition + 1 < PARTITIONS && left >= parts[partition].share {
                left -= parts[partition].share;
                partition += 1;
            }
            let items = &self.items[partition];
            let item = items[random.below(items.len() as u64) as usize];
            (item, random.below(100) >= parts[partition].get_percent)
        });
        self.team.stream(drawn, |partition| parts[partition].value_bytes)
    }

    fn share(&self, owner: impl Fn(usize) -> usize) -> Result<()> {
        self.team.share(Access::Erew, owner)
    }

    /// Runs a load for so many periods.
    fn fed(&self, stream: &Stream, periods: u32, controller: &mut Controller) -> Result<Fed> {
        let control = || controller.period(&self.team.state);
        self.team.run((stream, Direct::ByMode), self.period * periods, (self.period, control))
    }

    /// Runs each policy on a load from the same start, beside a reference.
    fn settle(
        &self,
        name: &str,
        (parts, uniform): (Parts, Option<Parts>),
        report: &mut Measurement,
    ) -> Result<()> {
        let stream = self.stream(&parts);
        let (reference, reference_stream) = match &uniform {
            Some(uniform) => ("a uniform load", Some(self.stream(uniform))),
            None => ("dear partitions dealt evenly", None),
        };
        let (mut reference_rates, mut changes) = (Vec::new(), [const { Vec::new() }; POLICIES.len()]);
        let mut rates = [const { Vec::new() }; POLICIES.len()];
        let rounds = self.options.common.rounds().min(5);
        for round in 0..rounds {
            eprint!("\r{name}, round {} of {rounds}   ", round + 1);
            self.share(|partition| match uniform {
                Some(_) => partition % WORKERS,
                None => partition / WORKERS % WORKERS,
            })?;
            let mut nothing = Controller::new(&self.team, By::Nothing);
            let of = reference_stream.as_ref().unwrap_or(&stream);
            reference_rates.push(self.fed(of, MEASURED_PERIODS, &mut nothing)?.per_second);
            for (policy, (_, by)) in POLICIES.iter().enumerate() {
                self.share(|partition| partition % WORKERS)?;
                let mut controller = Controller::new(&self.team, *by);
                if *by != By::Nothing {
                    self.fed(&stream, SETTLING_PERIODS, &mut controller)?;
                }
                rates[policy].push(self.fed(&stream, MEASURED_PERIODS, &mut controller)?.per_second);
                changes[policy].push(f64::from(controller.changes));
            }
        }
        eprintln!();
        report.value(name, &format!("throughput, {reference}"), "requests/s", &reference_rates);
        for (((policy, _), rates), changes) in POLICIES.iter().zip(&rates).zip(&changes) {
            report.value(name, &format!("throughput, {policy}"), "requests/s", rates);
            report.value(name, &format!("changes, {policy}"), "", changes);
            report.beside((name, policy, "requests/s"), rates, reference, &reference_rates);
        }
        Ok(())
    }

    /// A hot set that moves, period by period: balanced by time and not, over the uniform load.
    fn follow(&self, name: &str, uniform: Parts, report: &mut Measurement) -> Result<()> {
        const SETS: usize = 4;
        let streams: Vec<_> = (0..SETS).map(|number| self.stream(&hot_set(number))).collect();
        let uniform = self.stream(&uniform);
        let rounds = self.options.common.rounds().min(3);
        let mut over_time = [const { Vec::<Vec<f64>>::new() }; 2];
        let (mut means, mut settled) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for round in 0..rounds {
            eprint!("\r{name}, round {} of {rounds}   ", round + 1);
            for (way, by) in [By::Nothing, By::Time].into_iter().enumerate() {
                self.share(|partition| partition % WORKERS)?;
                let mut controller = Controller::new(&self.team, By::Nothing);
                let even = self.fed(&uniform, MEASURED_PERIODS, &mut controller)?.per_second;
                let mut controller = Controller::new(&self.team, by);
                let (mut ratios, mut last) = (Vec::new(), Vec::new());
                for stream in &streams {
                    let fed = self.fed(stream, SETTLING_PERIODS, &mut controller)?;
                    let of_set: Vec<_> = fed.over_time.iter().map(|rate| rate / even).collect();
                    last.extend(of_set.iter().rev().take(MEASURED_PERIODS as usize));
                    ratios.extend(of_set);
                }
                means[way].push(mean(&ratios));
                settled[way].push(mean(&last));
                over_time[way].push(ratios);
            }
        }
        eprintln!();
        for (at, way) in ["not balanced", "by time"].into_iter().enumerate() {
            let rounds = &over_time[at];
            let count = rounds.iter().map(Vec::len).min().unwrap_or(0);
            for period in 0..count {
                let ratios: Vec<_> = rounds.iter().map(|ratios| ratios[period]).collect();
                let case = format!("{name}, period {}", period + 1);
                report.value(&case, &format!("over uniform, {way}"), "", &ratios);
            }
            report.value(name, &format!("mean over uniform, {way}"), "", &means[at]);
            report.value(name, &format!("last periods of each set over uniform, {way}"), "", &settled[at]);
        }
        Ok(())
    }
}

/// The server's decisions, with shorter periods than the server has.
struct Controller {
    by: By,
    balancer: Balancer,
    counts: Vec<Vec<u64>>,
    samples: Vec<Samples>,
    changes: u32,
}

impl Controller {
    fn new(team: &Team, by: By) -> Self {
        let shared = &team.state.shared;
        shared.costs.set_wanted(by == By::Time);
        Self {
            by,
            balancer: Balancer::new(PARTITIONS),
            counts: shared.loads.now(&shared.cache),
            samples: shared.costs.now(),
            changes: 0,
        }
    }

    fn period(&mut self, state: &shared::Server) -> Result<()> {
        if self.by == By::Nothing {
            return Ok(());
        }
        let shared = &state.shared;
        let (counts, samples) = (shared.loads.now(&shared.cache), shared.costs.now());
        let pairs = counts.iter().zip(&self.counts);
        let since = |(now, before): (&Vec<u64>, &Vec<u64>)| {
            now.iter().zip(before).map(|(now, before)| now - before).collect()
        };
        let requests: Vec<Vec<u64>> = pairs.map(since).collect();
        let pairs = samples.iter().zip(&self.samples);
        let timed: Vec<_> = pairs.map(|(now, before)| now.since(before)).collect();
        (self.counts, self.samples) = (counts, samples);
        let routes = routes(&shared.cache);
        let loads = match self.by {
            By::Time => {
                // All requests come in datagrams.
                let datagrams: Vec<u64> = requests.iter().map(|of_worker| of_worker.iter().sum()).collect();
                costs(&requests, &datagrams, &routes, &timed)
            }
            _ => requests.clone(),
        };
        let requests = requests.iter().flatten().sum();
        if let Some(change) = self.balancer.period(Period { requests, loads }, &routes) {
            state.set_route(change.partition(), change.apply(routes[change.partition()]))?;
            self.changes += 1;
        }
        Ok(())
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

fn routes(cache: &Cache) -> Vec<Route> {
    (0..PARTITIONS).filter_map(|partition| cache.route(partition)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_sets_lie_on_one_worker_and_move_to_the_other() {
        for number in 0..4 {
            let parts = hot_set(number);
            let of = |worker: usize| {
                let own = parts.iter().skip(worker).step_by(WORKERS);
                own.map(|part| part.share).sum::<f64>()
            };
            let (hot, cold) = (of(number % WORKERS), of(1 - number % WORKERS));
            assert!(hot > 3.0 * cold, "{hot} beside {cold}");
            let hottest = parts.iter().position(|part| part.share == 1.0);
            assert_eq!(hottest, Some(3 * number % 8 * WORKERS + number % WORKERS));
        }
    }
}
