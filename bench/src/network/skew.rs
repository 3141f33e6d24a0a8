//! Skewed loads on a server with an exclusive core per partition: 16 partitions are run one at a
//! time on one core, each with its share of the load (MICA 5.3; billion-rps 5.2).

use std::time::Duration;

use micanite_workload::Popularity;

use super::Options;
use crate::Result;
use crate::generator::load::{Generator, Load, Schedule};
use crate::generator::packets::{KEY_BYTES, Packets, Protocol, Shape, Terms};
use crate::generator::sockets::Datagrams;
use crate::harness::servers::Server;
use crate::harness::system;
use crate::results::measurement::Measurement;

const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
const PARTITION_BITS: u32 = 4;
const PARTITIONS: usize = 1 << PARTITION_BITS;
const SEED: u64 = 13;
const WINDOW: usize = 256;

pub(super) fn run(options: &Options, cpu: usize, report: &mut Measurement) -> Result<()> {
    for (way, gro, offload) in [("plain", "off", false), ("GRO", "on", true)] {
        let name = format!("skew over 16 partitions, 95 % GET, 1 per datagram, {way}");
        if options.common.wants(&name) {
            let flags = ["-m", "2048", "--native-gro", gro];
            let server = Server::native(&options.binaries.server, &flags, cpu)?;
            server.fill(options.items())?;
            run_one(options, &name, (&server, offload), report)?;
        }
    }
    Ok(())
}

fn run_one(
    options: &Options,
    name: &str,
    (server, offload): (&Server, bool),
    report: &mut Measurement,
) -> Result<()> {
    let zipf = Popularity::Zipf(0.99);
    let shares = shares(options, server, zipf)?;
    let by_share = |one: &usize, other: &usize| shares[*one].total_cmp(&shares[*other]);
    let hottest = (0..PARTITIONS).max_by(by_share).unwrap_or(0);
    let coldest = (0..PARTITIONS).min_by(by_share).unwrap_or(0);
    let mut bench = Bench::new(options, server, offload)?;
    let (mut summed, mut bottleneck, mut hot_over_uniform) = (Vec::new(), Vec::new(), Vec::new());
    let mut bursts = [Vec::new(), Vec::new()];
    let (mut peak_bursts, mut kernel) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut cores = vec![Core::default(); PARTITIONS];
    let rounds = options.common.rounds().min(3);
    for round in 0..rounds {
        let name = format!("{name}, round {} of {rounds}", round + 1);
        let peaks = bench.peaks(&name)?;
        let sum = |of: fn(&[f64; 2]) -> f64| peaks.iter().map(of).sum::<f64>();
        let (uniform_sum, skewed_sum) = (sum(|[uniform, _]| *uniform), sum(|[_, skewed]| *skewed));
        let totals = peaks.iter().zip(&shares);
        let skewed_total = totals.map(|([_, skewed], share)| skewed / share).fold(f64::INFINITY, f64::min);
        for ((core, [uniform, skewed]), share) in cores.iter_mut().zip(&peaks).zip(&shares) {
            core.uniform.push(*uniform);
            core.skewed.push(*skewed);
            core.served.push(skewed_total * share);
        }
        summed.push(skewed_sum / uniform_sum);
        bottleneck.push(skewed_total / uniform_sum);
        let [uniform_hot, skewed_hot] = peaks[hottest];
        hot_over_uniform.push(skewed_hot / uniform_hot);
        for (of, popularity) in [Popularity::Uniform, zipf].into_iter().enumerate() {
            let busy = bench.busy(popularity, hottest)?;
            peak_bursts[of].push(busy.burst);
            kernel[of].push(busy.kernel_percent);
        }
        // Every partition at its share of what the hottest can take.
        for (partition, bursts) in [hottest, coldest].into_iter().zip(&mut bursts) {
            let rate = skewed_total * shares[partition] * 0.95;
            bursts.push(bench.burst(zipf, partition, rate)?);
        }
    }
    eprintln!();
    for (partition, (core, share)) in cores.iter().zip(&shares).enumerate() {
        core.report(&format!("{name}, core {partition}"), *share, report);
    }
    let mut value = |metric: &str, unit: &str, rounds: &[f64]| {
        report.value(name, metric, unit, rounds);
    };
    let over_mean = shares[hottest] * PARTITIONS as f64;
    value("load of the hottest partition over the mean", "", &[over_mean]);
    let hot = "hottest partition's rate over its uniform rate";
    value(hot, "", &hot_over_uniform);
    value("sum of all partitions over uniform", "", &summed);
    value("total that the hottest allows over uniform", "", &bottleneck);
    value("burst of the hottest partition", "datagrams", &bursts[0]);
    value("burst of the coldest partition", "datagrams", &bursts[1]);
    for (law, of) in [("uniform", 0), ("skewed", 1)] {
        let at_peak = |what: &str| format!("{what} of the hottest partition at its peak, {law}");
        value(&at_peak("burst"), "datagrams", &peak_bursts[of]);
        value(&at_peak("the kernel's part of the time"), "%", &kernel[of]);
    }
    Ok(())
}

/// The server's core at its peak.
struct Busy {
    /// Datagrams that one call receives.
    burst: f64,
    kernel_percent: f64,
}

/// Rates of a partition's core, round by round, in requests per second.
#[derive(Clone, Debug, Default)]
struct Core {
    /// Peak under a uniform load.
    uniform: Vec<f64>,
    /// Peak under the skewed load.
    skewed: Vec<f64>,
    /// Under the skewed one when the core that is loaded most does what it can.
    served: Vec<f64>,
}

impl Core {
    fn report(&self, case: &str, share: f64, report: &mut Measurement) {
        let mut value = |metric: &str, rounds: &[f64]| {
            report.value(case, metric, "requests/s", rounds);
        };
        value("peak, uniform", &self.uniform);
        value("peak, skewed", &self.skewed);
        value("its share of the skewed load", &self.served);
        let busy = self.served.iter().zip(&self.skewed);
        let busy: Vec<_> = busy.map(|(served, peak)| served / peak * 100.0).collect();
        report.value(case, "busy", "%", &busy);
        report.value(case, "share", "% of the requests", &[share * 100.0]);
    }
}

/// The share of the requests that each partition gets, by drawing them.
fn shares(options: &Options, server: &Server, popularity: Popularity) -> Result<Vec<f64>> {
    use micanite_wire::hash::KeyHash;
    use micanite_workload::{Keys, Random, Sampler};
    const DRAWS: usize = 4_000_000;
    let mut probe = Generator::new(Datagrams::new(server.udp(), false)?);
    let terms = probe.terms(ANSWER_TIME_MAX)?;
    let sampler = Sampler::new(popularity, options.items());
    let (keys, mut random) = (Keys::new(KEY_BYTES), Random::new(SEED));
    let mut counts = vec![0.0; PARTITIONS];
    let mut key = [0; KEY_BYTES];
    for _ in 0..DRAWS {
        keys.write(sampler.item(&mut random), &mut key);
        let hash = KeyHash::of(&key, terms.hash_seed);
        counts[hash.partition(PARTITION_BITS)] += 1.0 / DRAWS as f64;
    }
    Ok(counts)
}

struct Bench<'a> {
    options: &'a Options,
    server: &'a Server,
    client: Generator<Datagrams>,
    terms: Terms,
    duration: Duration,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options, server: &'a Server, offload: bool) -> Result<Self> {
        let mut client = Generator::new(Datagrams::new(server.udp(), offload)?);
        let terms = client.terms(ANSWER_TIME_MAX)?;
        let duration = Duration::from_millis(if options.common.quick { 100 } else { 300 });
        Ok(Self { options, server, client, terms, duration })
    }

    fn packets(&self, popularity: Popularity, partition: usize) -> Packets {
        let shape = Shape {
            protocol: Protocol::Native,
            batch: 1,
            get_percent: 95,
            popularity,
            partition: Some((partition, PARTITION_BITS)),
        };
        Packets::new(&shape, self.options.items(), self.terms, 1 << 17, SEED)
    }

    /// Rates of each partition at most, under the uniform and the skewed load.
    fn peaks(&mut self, name: &str) -> Result<Vec<[f64; 2]>> {
        let mut one = |partition| {
            eprint!("\r{name}, partition {partition}   ");
            let uniform = self.peak(Popularity::Uniform, partition)?;
            Ok([uniform, self.peak(Popularity::Zipf(0.99), partition)?])
        };
        (0..PARTITIONS).map(&mut one).collect()
    }

    fn peak(&mut self, popularity: Popularity, partition: usize) -> Result<f64> {
        let mut packets = self.packets(popularity, partition);
        let mut run = |duration| self.client.closed(&mut packets, false, WINDOW, duration);
        run(self.duration / 4)?;
        let tally = run(self.duration)?;
        tally.check(&self.server.name, 1)?;
        Ok(tally.per_second())
    }

    /// A partition at its peak, for a while in which ticks of the clock suffice to tell the kernel's part.
    fn busy(&mut self, popularity: Popularity, partition: usize) -> Result<Busy> {
        let mut packets = self.packets(popularity, partition);
        let pid = self.server.pid();
        let before = (self.server.bursts()?, system::cpu_ticks(pid)?);
        self.client.closed(&mut packets, false, WINDOW, 2 * self.duration)?;
        let after = (self.server.bursts()?, system::cpu_ticks(pid)?);
        let (user, kernel) = (after.1.0 - before.1.0, after.1.1 - before.1.1);
        Ok(Busy {
            burst: (after.0.0 - before.0.0) as f64 / (after.0.1 - before.0.1).max(1) as f64,
            kernel_percent: kernel as f64 * 100.0 / (user + kernel).max(1) as f64,
        })
    }

    fn burst(&mut self, popularity: Popularity, partition: usize, rate: f64) -> Result<f64> {
        let mut packets = self.packets(popularity, partition);
        let before = self.server.bursts()?;
        let mut latency_ns = Vec::new();
        let schedule = Schedule { datagrams_per_second: rate, window: WINDOW, duration: self.duration };
        self.client.open(&mut packets, false, &schedule, &mut latency_ns)?;
        let after = self.server.bursts()?;
        Ok((after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64)
    }
}
