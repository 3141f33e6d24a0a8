//! From a machine and a load to a plan.

use std::collections::BTreeMap;

use super::resources::{self, item_memory};
use super::{Figure, ModePlan, Origin, Plan, advice, machine_figures};
use crate::load::Load;
use crate::machine::Machine;
use crate::model::batching::{BATCHES, delay_us};
use crate::model::capacity::{Capacity, Mode, memory_bytes};
use crate::model::fleet::{Fleet, Need};
use crate::model::hottest::expected_over_mean;
use crate::model::latency::Question;
use crate::model::packet;

/// Parts of the throughput at which latency is simulated.
const PARTS: [f64; 10] = [0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.99];

/// Origins of what is no single figure.
const ORIGINS: [(&str, &str); 9] = [
    ("batching", "computed: equation 1"),
    ("fleet", "computed: ketama with the points that clients use"),
    ("memory", "computed: the engine's sizes of items and index, and what a log gives up per lap"),
    ("misses", "computed: the engine, simulated with the trace"),
    ("modes.core_loads", "computed: expected loads of the partitions under random hashes"),
    ("modes.latency", "computed: simulation of the cores, plus the round trips of the machine"),
    ("modes.throughput", "computed: the least of cores, hottest partition, memory bandwidth and network"),
    ("power", "computed: processors, ports and the rest, plus an energy per request"),
    (
        "resources",
        "computed: bytes per request at the rate of the busiest server, beside the machine's limits",
    ),
];

/// Inputs of a plan.
#[derive(Debug)]
pub struct Basis<'a> {
    /// Machine.
    pub machine: &'a Machine,
    /// Port that its costs are of.
    pub port: &'a str,
    /// Load.
    pub load: &'a Load,
    /// Origins of the load's figures by their names, with the sources; those of others are options.
    pub load_origins: BTreeMap<&'static str, (Origin, String)>,
    /// Servers that a client sends to; nothing for as many as the plan finds.
    pub fan_out: Option<f64>,
    /// Requests that are simulated for each rate.
    pub requests: u64,
    /// Memory and the share of reads that miss, of a trace.
    pub misses: Vec<(f64, f64)>,
    /// Memory for all items and its miss ratio, if a trace told a better one than all.
    pub recommended_memory: Option<(f64, f64)>,
    /// Remarks.
    pub remarks: Vec<String>,
}

/// Computes a plan; `progress` is told what is under way.
///
/// # Errors
/// When machine or load make no sense, or nothing can carry the load: a sentence that says what binds.
pub fn build(basis: Basis<'_>, progress: &mut dyn FnMut(&str, u64)) -> Result<Plan, String> {
    let Basis { machine, load, .. } = &basis;
    machine.check()?;
    load.check()?;
    let mut modes = Vec::new();
    let mut capacities = Vec::new();
    for mode in Mode::ALL {
        let Some(capacity) = Capacity::of(machine, load, mode) else {
            continue;
        };
        let question = Question { machine, load, capacity: &capacity, requests: basis.requests };
        let mut told = |done: u64| progress(mode.name(), done);
        let rates = PARTS.iter().map(|part| capacity.throughput * part);
        let latency = rates.filter_map(|rate| question.at(rate, &mut told)).collect();
        let within_target = question.within(load.p95_us, &mut told);
        let hottest = capacity.cores.iter().map(busy).fold(0.0, f64::max);
        let mut core_loads: Vec<f64> = capacity.cores.iter().map(|core| busy(core) / hottest).collect();
        core_loads.sort_by(f64::total_cmp);
        modes.push(ModePlan {
            mode,
            throughput: capacity.throughput,
            bottleneck: capacity.bottleneck,
            limits: capacity.limits,
            within_target,
            latency,
            core_loads,
        });
        capacities.push(capacity);
    }
    let at = best(&modes).ok_or_else(|| {
        let least = machine.latency.round_trip_us.iter().copied().fold(f64::INFINITY, f64::min);
        format!(
            "latency binds: no rate keeps the 95th percentile within {} us, and a round trip without load \
             takes {least:.1} us at least",
            load.p95_us
        )
    })?;
    let memory = basis.recommended_memory;
    let fleet = need(&basis, &modes[at], &capacities[at], memory).fleet()?;
    let fan_out = basis.fan_out.unwrap_or(fleet.servers as f64);
    // In modes in which every core reads, a server is one partition for a client that reads.
    let partitions = match modes[at].mode {
        Mode::Erew | Mode::ErewTurbo => f64::from(machine.cores_in_all()),
        Mode::Crew | Mode::CrewTurbo => 1.0,
    };
    let delay = |batch: u32| (batch, delay_us(load.client_rate, fan_out, partitions, batch));
    let mut figures = load_figures(&basis);
    figures.extend(machine_figures(machine));
    figures.extend(results(&basis, &modes[at], &fleet, delay(load.batch).1));
    let rate = modes[at].within_target.map_or(0.0, |point| point.rate);
    let busiest = fleet.busiest_rate.min(rate);
    let mut remarks = basis.remarks.clone();
    if modes[at].mode.is_turbo() {
        remarks.push("the system has to set the clocks of the -T modes: the server does not".to_owned());
    }
    let mut plan = Plan {
        machine: machine.name.clone(),
        port: basis.port.to_owned(),
        remarks,
        load: basis.load.clone(),
        recommended_mode: modes[at].mode,
        server_rate: rate,
        memory: resources::memory(&basis),
        resources: resources::resources(&basis, &fleet, busiest),
        power: resources::power(&basis, busiest, rate),
        modes,
        fleet,
        batching: BATCHES.map(delay).to_vec(),
        misses: basis.misses,
        figures,
        origins: ORIGINS.into(),
        recommendation: Vec::new(),
        commands: Vec::new(),
    };
    (plan.recommendation, plan.commands) = advice::advice(&plan, basis.machine);
    Ok(plan)
}

/// Returns the time that a core works for a request of the server.
fn busy(core: &crate::model::capacity::CoreLoad) -> f64 {
    core.share * core.request_s
}

/// Returns the mode with the highest rate within the target; the simpler one of equals.
fn best(modes: &[ModePlan]) -> Option<usize> {
    let rate = |at: usize| modes[at].within_target.map(|point| point.rate);
    let mut best: Option<usize> = None;
    for at in (0..modes.len()).filter(|at| rate(*at).is_some()) {
        if best.and_then(rate) < rate(at).map(|rate| rate * 0.95) {
            best = Some(at);
        }
    }
    best
}

fn need(basis: &Basis<'_>, mode: &ModePlan, capacity: &Capacity, memory: Option<(f64, f64)>) -> Need {
    let Basis { machine, load, .. } = basis;
    let part = mode.within_target.map_or(0.0, |point| point.rate / capacity.throughput);
    let limits = capacity.limits;
    let is_crew = matches!(mode.mode, Mode::Crew | Mode::CrewTurbo);
    let all = load.footprint().memory_bytes(load.items as f64);
    Need {
        rate: load.rate,
        server_rate: part * limits.cores.min(limits.memory).min(limits.network),
        core_rate: part / capacity.cores[0].request_s,
        top: if load.zipf > 0.0 { load.law().share(1) } else { 0.0 },
        owned: if is_crew { 1.0 - load.get } else { 1.0 },
        partitions: f64::from(machine.cores_in_all()),
        memory_bytes: memory.map_or(all, |(bytes, _)| bytes),
        server_memory_bytes: item_memory(basis),
        hit_ratio: memory.map_or(1.0, |(_, misses)| 1.0 - misses),
    }
}

fn load_figures(basis: &Basis<'_>) -> Vec<Figure> {
    let load = basis.load;
    let rows = [
        ("items", load.items as f64, "items"),
        ("key", load.key_bytes, "bytes"),
        ("value", load.value_bytes, "bytes"),
        ("get", load.get * 100.0, "%"),
        ("zipf", load.zipf, "exponent"),
        ("batch", f64::from(load.batch), "requests per datagram"),
        ("rate", load.rate, "requests/s"),
        ("p95_target", load.p95_us, "us"),
        ("client_rate", load.client_rate, "requests/s"),
    ];
    let figure = |(name, value, unit)| {
        let given = || (Origin::Given, "options".to_owned());
        let (origin, source) = basis.load_origins.get(name).cloned().unwrap_or_else(given);
        Figure { name, value, unit, origin, source }
    };
    rows.into_iter().map(figure).collect()
}

/// Returns the results that are single figures.
fn results(basis: &Basis<'_>, mode: &ModePlan, fleet: &Fleet, delay_us: f64) -> Vec<Figure> {
    let Basis { machine, load, .. } = basis;
    let law = load.law();
    let rate = mode.within_target.map_or(0.0, |point| point.rate);
    let busiest = fleet.busiest_rate.min(rate);
    let footprint = load.footprint();
    let [received, sent] = packet::bits(machine, load);
    let partitions = u64::from(machine.cores_in_all());
    let per_core = rate / f64::from(machine.cores_in_all());
    let mut rows = vec![
        ("server_rate", rate, "requests/s", "simulation: highest rate within the target"),
        ("hottest_over_mean", expected_over_mean(partitions, law.share(1)), "", "P p1 + 1 - p1"),
        ("item_bytes", footprint.item_bytes as f64, "bytes", "the engine's size of an item"),
        ("index_bytes", footprint.index_bytes, "bytes", "the engine's index at the load at which it grows"),
        (
            "memory_bytes",
            basis.recommended_memory.map_or(footprint.memory_bytes(load.items as f64), |(bytes, _)| bytes),
            "bytes, all servers",
            match basis.recommended_memory {
                Some(_) => "the engine, simulated with the trace",
                None => "items x (item + index) x what a log gives up",
            },
        ),
        (
            "memory_bandwidth",
            busiest * memory_bytes(machine, load, &law) / 1e9,
            "GB/s",
            "lines x 64 bytes x prefetching x misses of the last-level cache",
        ),
        ("batching_delay", delay_us, "us", "equation 1"),
    ];
    let most_bits = received.max(sent);
    if most_bits > 0.0 {
        let cores = 10e9 / most_bits / per_core;
        rows.extend([
            ("received", busiest * received / 1e9, "Gb/s", "bytes of requests and framing"),
            ("sent", busiest * sent / 1e9, "Gb/s", "bytes of replies and framing"),
            ("cores_per_10gbe", cores, "cores", "requests of 10 Gb/s over those of a core"),
        ]);
    }
    if let Some(power) = machine.power {
        let watts = power.watts(machine, busiest);
        rows.push(("power", watts, "W", "processors + ports + rest + energy of requests"));
        rows.push(("efficiency", busiest / watts, "requests/s/W", "rate over power"));
    }
    let figure = |(name, value, unit, source): (&'static str, f64, &'static str, &str)| Figure {
        name,
        value,
        unit,
        origin: Origin::Computed,
        source: source.to_owned(),
    };
    rows.into_iter().map(figure).collect()
}
