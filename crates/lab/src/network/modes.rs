//! Access modes from datagram to reply (MICA, figure 16), as a cache and as a store; and the steps by which a
//! read that is not the owner's gets dearer.

use std::time::Duration;

use micanite_engine::Access;
use micanite_workload::{Popularity, Random, Sampler};

use super::Options;
use super::feed::{Direct, Fed, Stream, Team, WORKERS};
use crate::Result;
use crate::generator::packets::VALUE_BYTES;
use crate::harness::in_process;
use crate::results::measurement::Measurement;

/// Start of the cases' names.
const NAME: &str = "modes from datagram to reply";
const MODES: [(&str, Access); 3] = [("EREW", Access::Erew), ("CREW", Access::Crew), ("CRCW", Access::Crcw)];
const LAWS: [(&str, Popularity); 2] =
    [("uniform", Popularity::Uniform), ("zipf 0.99", Popularity::Zipf(0.99))];
const SEED: u64 = 15;

/// Steps from a read of the owner to one beside a writer: mode, direction, percentage of GETs.
const STEPS: [(&str, Access, Direct, u64); 7] = [
    ("owner reads, alone", Access::Erew, Direct::ToOwnerAlone, 100),
    ("owner reads", Access::Erew, Direct::ToOwner, 100),
    ("other reads, alone", Access::Crew, Direct::ReadsToOtherAlone, 100),
    ("other reads", Access::Crew, Direct::ReadsToOther, 100),
    ("other reads, owner sets 5 %", Access::Crew, Direct::ReadsToOther, 95),
    ("owner reads and sets 5 %", Access::Erew, Direct::ToOwner, 95),
    ("owner reads and sets 5 %, CREW", Access::Crew, Direct::ToOwner, 95),
];

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let name = |semantics: &str, law: &str| format!("{NAME}, {semantics}, {law}");
    let steps = |law: &str| format!("{NAME}, steps, {law}");
    for semantics in ["cache", "store"] {
        let mut wanted = LAWS.iter().flat_map(|(law, _)| [name(semantics, law), steps(law)]);
        if !wanted.any(|name| options.common.wants(&name) || wants_mix(options, &name)) {
            continue;
        }
        let [first, second, ..] = *cpus else {
            report.note("one CPU only: access modes were not measured");
            return Ok(());
        };
        let bench = Bench::new(options, semantics, [first, second])?;
        for (law, popularity) in LAWS {
            for get_percent in [50, 95] {
                let name = format!("{}, {get_percent} % GET", name(semantics, law));
                if options.common.wants(&name) {
                    bench.modes(&name, (popularity, get_percent), report)?;
                }
            }
            if semantics == "cache" && options.common.wants(&steps(law)) {
                bench.steps(&steps(law), popularity, report)?;
            }
        }
    }
    Ok(())
}

fn wants_mix(options: &Options, name: &str) -> bool {
    [50, 95].iter().any(|get_percent| options.common.wants(&format!("{name}, {get_percent} % GET")))
}

struct Bench<'a> {
    options: &'a Options,
    team: Team,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options, semantics: &str, cpus: [usize; WORKERS]) -> Result<Self> {
        eprintln!("{NAME}: filling {} items of a {semantics}", options.items());
        let team = Team::new(in_process::server_of(WORKERS, "2g", semantics, Some(16))?, cpus)?;
        team.fill(options.items(), |_| VALUE_BYTES)?;
        Ok(Self { options, team })
    }

    fn stream(&self, popularity: Popularity, get_percent: u64) -> Stream {
        let requests = if self.options.common.quick { 1 << 19 } else { 1 << 21 };
        let (sampler, mut random) = (Sampler::new(popularity, self.options.items()), Random::new(SEED));
        let drawn = (0..requests).map(|_| {
            let is_set = random.below(100) >= get_percent;
            (sampler.item(&mut random), is_set)
        });
        self.team.stream(drawn, |_| VALUE_BYTES)
    }

    fn fed(&self, stream: &Stream, access: Access, direct: Direct) -> Result<Fed> {
        let duration = Duration::from_millis(if self.options.common.quick { 150 } else { 400 });
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

    /// What makes a read beside a writer dearer, step by step.
    fn steps(&self, name: &str, popularity: Popularity, report: &mut Measurement) -> Result<()> {
        let streams = [100, 95].map(|get_percent| (get_percent, self.stream(popularity, get_percent)));
        let mut times = [const { (Vec::new(), Vec::new()) }; STEPS.len()];
        for round in 0..self.options.common.rounds() {
            eprint!("\r{name}, round {}   ", round + 1);
            for ((_, access, direct, get_percent), (times, again)) in STEPS.iter().zip(&mut times) {
                let stream = streams.iter().find(|(of, _)| of == get_percent);
                let (_, stream) = stream.ok_or("no stream of this mix")?;
                let before = self.team.cache().stats().read_retries;
                let fed = self.fed(stream, *access, *direct)?;
                let retries = self.team.cache().stats().read_retries - before;
                times.push(fed.request_ns[0]);
                again.push(retries as f64 / (fed.per_second * fed.elapsed_s) * 1e6);
            }
        }
        eprintln!();
        for ((step, ..), (times, again)) in STEPS.iter().zip(&times) {
            report.value(name, &format!("time of a request, {step}"), "ns", times);
            report.value(name, &format!("reads again, {step}"), "per million requests", again);
        }
        Ok(())
    }
}
