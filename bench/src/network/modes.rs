//! Access modes from datagram to reply (MICA, figure 16), as a cache and as a store; and the steps by
//! which a read that is not the owner's gets dearer.

use std::time::Duration;

use micanite_engine::Access;
use micanite_workload::{Popularity, Random, Sampler};

use super::Options;
use super::feed::{Direct, Fed, Team, WORKERS};
use super::stream::Stream;
use crate::Result;
use crate::generator::packets::VALUE_BYTES;
use crate::harness::in_process;
use crate::results::measurement::Measurement;

/// Start of the cases' names.
const NAME: &str = "modes from datagram to reply";
const MODES: [(&str, Access); 3] = [("EREW", Access::Erew), ("CREW", Access::Crew), ("CRCW", Access::Crcw)];
const LAWS: [(&str, Popularity); 2] =
    [("uniform", Popularity::Uniform), ("zipf 0.99", Popularity::Zipf(0.99))];
const MIXES: [u64; 2] = [50, 95];
const SEED: u64 = 15;

/// Steps from requests of the owner alone to those of all workers: what the code of a mode costs shows
/// where no other worker uses the same items, and what their moving between the cores costs where one
/// does.
const STEPS: [(&str, Access, Direct); 7] = [
    ("EREW, one worker", Access::Erew, Direct::ToOwnerAlone),
    ("EREW", Access::Erew, Direct::ToOwner),
    ("CREW, all by the owner", Access::Crew, Direct::ToOwner),
    ("CREW, reads by the other, one worker", Access::Crew, Direct::ReadsToOtherAlone),
    ("CREW, reads by the other", Access::Crew, Direct::ReadsToOther),
    ("CRCW, all by the owner", Access::Crcw, Direct::ToOwner),
    ("CRCW, in turn", Access::Crcw, Direct::ByMode),
];
/// Items of one partition on one core, as multiples of the usual number of all: how much a hot partition
/// gains from the caches depends on how much of it these hold.
const HOT_ITEMS: [u64; 3] = [1, 4, 16];

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let name = |semantics: &str, law: &str| format!("{NAME}, {semantics}, {law}");
    let steps = |law: &str| format!("{NAME}, steps, {law}");
    hot_partitions(options, cpus, report)?;
    for semantics in ["cache", "store"] {
        let mut wanted = LAWS.iter().flat_map(|(law, _)| [name(semantics, law), steps(law)]);
        if !wanted.any(|name| mixes(&name).iter().any(|name| options.common.wants(name))) {
            continue;
        }
        let [first, second, ..] = *cpus else {
            report.note("one CPU only: access modes were not measured");
            return Ok(());
        };
        let bench = Bench::new(options, (semantics, options.items()), [first, second])?;
        for (law, popularity) in LAWS {
            for (get_percent, name) in MIXES.into_iter().zip(mixes(&name(semantics, law))) {
                if options.common.wants(&name) {
                    bench.modes(&name, (popularity, get_percent), report)?;
                }
            }
            for (get_percent, name) in MIXES.into_iter().zip(mixes(&steps(law))) {
                if semantics == "cache" && options.common.wants(&name) {
                    bench.steps(&name, (popularity, get_percent), report)?;
                }
            }
        }
    }
    Ok(())
}

/// Names of a case with each mix.
fn mixes(name: &str) -> [String; 2] {
    MIXES.map(|get_percent| format!("{name}, {get_percent} % GET"))
}

/// Time of a request of the hottest of 16 partitions, under Zipf and under a uniform load, on one core.
fn hot_partitions(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let items = HOT_ITEMS.map(|times| times * options.items() / 4);
    let name = |items: u64| format!("hot partition from datagram to reply, {} Ki items", items >> 10);
    for items in items.into_iter().filter(|items| options.common.wants(&name(*items))) {
        let [first, second, ..] = *cpus else {
            report.note_once("one CPU only: access modes were not measured");
            return Ok(());
        };
        let bench = Bench::new(options, ("cache", items), [first, second])?;
        bench.hot_partition(&name(items), report)?;
    }
    Ok(())
}

struct Bench<'a> {
    options: &'a Options,
    items: u64,
    team: Team,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options, (semantics, items): (&str, u64), cpus: [usize; WORKERS]) -> Result<Self> {
        eprintln!("{NAME}: filling {items} items of a {semantics}");
        let team = Team::new(in_process::server_of(WORKERS, "2g", semantics, Some(16))?, cpus)?;
        team.fill(items, |_| VALUE_BYTES)?;
        Ok(Self { options, items, team })
    }

    fn stream(&self, popularity: Popularity, get_percent: u64) -> Stream {
        let requests = if self.options.common.quick { 1 << 19 } else { 1 << 21 };
        let (sampler, mut random) = (Sampler::new(popularity, self.items), Random::new(SEED));
        let drawn = (0..requests).map(|_| {
            let is_set = random.below(100) >= get_percent;
            (sampler.item(&mut random), is_set)
        });
        self.team.stream(drawn, |_| VALUE_BYTES)
    }

    fn duration(&self) -> Duration {
        Duration::from_millis(if self.options.common.quick { 100 } else { 300 })
    }

    fn fed(&self, stream: &Stream, access: Access, direct: Direct) -> Result<Fed> {
        let duration = self.duration();
        self.team.share(access, |partition| partition % WORKERS)?;
        self.team.run((stream, direct), duration, (duration, || Ok(())))
    }

    /// The modes beside each other.
    fn modes(&self, name: &str, load: (Popularity, u64), report: &mut Measurement) -> Result<()> {
        let stream = self.stream(load.0, load.1);
        let (mut rates, mut times) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
        for round in 0..self.options.common.rounds() {
            eprint!("\r{name}, round {}   ", round + 1);
            for (mode, (_, access)) in MODES.iter().enumerate() {
                let fed = self.fed(&stream, *access, Direct::ByMode)?;
                rates[mode].push(fed.per_second);
                times[mode].push(fed.request_ns.iter().sum::<f64>() / WORKERS as f64);
            }
        }
        eprintln!();
        for (((mode, _), rates), times) in MODES.iter().zip(&rates).zip(&times) {
            report.value(name, &format!("throughput, {mode}"), "requests/s", rates);
            report.value(name, &format!("time of a request, {mode}"), "ns", times);
        }
        for ((mode, _), theirs) in MODES.iter().zip(&rates).skip(1) {
            report.beside((name, "throughput", "requests/s"), &rates[0], mode, theirs);
        }
        Ok(())
    }

    /// Time of a request, step by step.
    fn steps(&self, name: &str, load: (Popularity, u64), report: &mut Measurement) -> Result<()> {
        let stream = self.stream(load.0, load.1);
        let mut times = [const { (Vec::new(), Vec::new()) }; STEPS.len()];
        for round in 0..self.options.common.rounds() {
            eprint!("\r{name}, round {}   ", round + 1);
            for ((_, access, direct), (times, again)) in STEPS.iter().zip(&mut times) {
                let before = self.team.cache().stats().read_retries;
                let fed = self.fed(&stream, *access, *direct)?;
                let retries = self.team.cache().stats().read_retries - before;
                times.push(fed.request_ns[0]);
                again.push(retries as f64 / (fed.per_second * fed.elapsed_s) * 1e6);
            }
        }
        eprintln!();
        for ((step, ..), (times, again)) in STEPS.iter().zip(&times) {
            report.value(name, &format!("time of a request, {step}"), "ns", times);
            if again.iter().any(|again| *again > 0.0) {
                report.value(name, &format!("reads again, {step}"), "per million requests", again);
            }
        }
        Ok(())
    }

    /// The partition with most of a skewed load, under that load and under a uniform one.
    fn hot_partition(&self, name: &str, report: &mut Measurement) -> Result<()> {
        let draws = if self.options.common.quick { 1 << 20 } else { 1 << 22 };
        let zipf = Popularity::Zipf(0.99);
        let drawn = |popularity| {
            let (sampler, mut random) = (Sampler::new(popularity, self.items), Random::new(SEED));
            (0..draws).map(move |_| (sampler.item(&mut random), random.below(100) >= 95))
        };
        let mut counts = vec![0_u64; self.team.partitions()];
        drawn(zipf).for_each(|(item, _)| counts[self.team.partition_of(item)] += 1);
        let hottest = (0..counts.len()).max_by_key(|partition| counts[*partition]).unwrap_or(0);
        let of_hottest = |popularity| {
            let drawn = drawn(popularity).filter(|(item, _)| self.team.partition_of(*item) == hottest);
            self.team.stream(drawn, |_| VALUE_BYTES)
        };
        let streams = [of_hottest(Popularity::Uniform), of_hottest(zipf)];
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..self.options.common.rounds() {
            eprint!("\r{name}, round {}   ", round + 1);
            for (stream, rates) in streams.iter().zip(&mut rates) {
                self.team.share(Access::Erew, |_| 0)?;
                let duration = self.duration();
                let fed = self.team.run((stream, Direct::ToOwnerAlone), duration, (duration, || Ok(())))?;
                rates.push(1e9 / fed.request_ns[0]);
            }
        }
        eprintln!();
        let [uniform, skewed] = rates;
        report.beside((name, "rate under Zipf 0.99", "requests/s"), &skewed, "a uniform load", &uniform);
        Ok(())
    }
}
