//! Throughput by access mode, and what binds it.

use serde::Serialize;

use super::factors;
use super::hottest::{expected_over_mean, ordered_loads};
use super::packet;
use crate::law::Law;
use crate::load::Load;
use crate::machine::Machine;

/// Hashes that the loads of cores are the mean of.
const HASHES: u64 = 40;
/// A core is hot from this load over the mean on: a queue that is never empty, and its keys in the cache.
const HOT: f64 = 1.5;

/// Keys per partition up to which the loads are those of random hashes: the deviation of a partition's number
/// of keys is a hundredth there, and falls with more of them.
const FEW_KEYS: u64 = 10_000;
/// Least share of the requests that reaches memory: datagrams and evictions do so if all items are cached.
const MISSED_MIN: f64 = 0.05;

/// Access modes; with turbo, hot cores have a higher clock and cold ones a lower clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Mode {
    /// The owner alone reads and writes.
    #[serde(rename = "EREW")]
    Erew,
    /// Every core reads, the owner writes.
    #[serde(rename = "CREW")]
    Crew,
    /// EREW with turbo.
    #[serde(rename = "EREW-T")]
    ErewTurbo,
    /// CREW with turbo.
    #[serde(rename = "CREW-T")]
    CrewTurbo,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Erew, Self::Crew, Self::ErewTurbo, Self::CrewTurbo];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Erew => "EREW",
            Self::Crew => "CREW",
            Self::ErewTurbo => "EREW-T",
            Self::CrewTurbo => "CREW-T",
        }
    }

    const fn is_crew(self) -> bool {
        matches!(self, Self::Crew | Self::CrewTurbo)
    }

    /// Returns whether clocks differ.
    pub const fn is_turbo(self) -> bool {
        matches!(self, Self::ErewTurbo | Self::CrewTurbo)
    }
}

/// Part that binds the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bottleneck {
    /// All cores alike.
    #[serde(rename = "cores")]
    Cores,
    /// Core of the hottest partition.
    #[serde(rename = "hottest partition")]
    HottestPartition,
    /// Bandwidth of memory.
    #[serde(rename = "memory bandwidth")]
    Memory,
    /// Network.
    #[serde(rename = "network")]
    Network,
}

impl Bottleneck {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::HottestPartition => "hottest partition",
            Self::Memory => "memory bandwidth",
            Self::Network => "network",
        }
    }
}

/// A core under the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CoreLoad {
    /// Share of all requests.
    pub share: f64,
    /// Seconds of a request, its part of the datagram included.
    pub request_s: f64,
}

/// Throughput of a machine in a mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Mode.
    pub mode: Mode,
    /// Requests per second.
    pub throughput: f64,
    /// Part that binds it.
    pub bottleneck: Bottleneck,
    /// Requests per second that each of the parts could serve alone.
    pub limits: Limits,
    /// Cores from the hottest to the coldest.
    #[serde(skip)]
    pub cores: Vec<CoreLoad>,
}

/// Requests per second that a part could serve alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// All cores, if the load were spread evenly.
    pub cores: f64,
    /// Until the first core is busy all the time.
    pub hottest_partition: f64,
    /// Bandwidth of memory.
    pub memory: f64,
    /// Network; infinite, and null in JSON, where nothing goes over one.
    pub network: f64,
}

impl Capacity {
    /// Computes the throughput; nothing for a turbo mode of a machine that has none.
    pub fn of(machine: &Machine, load: &Load, mode: Mode) -> Option<Self> {
        if mode.is_turbo() && machine.turbo.is_none() {
            return None;
        }
        let law = load.law();
        let cores = core_loads(machine, load, &law, mode);
        let most = |core: &CoreLoad| 1.0 / (core.share * core.request_s);
        let (at, busiest) =
            cores.iter().map(most).enumerate().min_by(|one, other| one.1.total_cmp(&other.1))?;
        let even = cores.iter().map(|core| 1.0 / core.request_s).sum::<f64>();
        let limits = Limits {
            cores: even,
            hottest_partition: busiest,
            memory: machine.memory_bytes_s() / memory_bytes(machine, load, &law),
            network: machine.network_bits() / packet::bits(machine, load).into_iter().fold(0.0, f64::max),
        };
        // A core with a low clock may bind before that of the hottest partition, which is the first.
        let is_hottest = at == 0 && busiest < even * 0.98;
        let by_cores = if is_hottest { Bottleneck::HottestPartition } else { Bottleneck::Cores };
        let all =
            [(busiest, by_cores), (limits.memory, Bottleneck::Memory), (limits.network, Bottleneck::Network)];
        let (throughput, bottleneck) = all.into_iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(Self { mode, throughput, bottleneck, limits, cores })
    }
}

/// Returns the bytes of memory traffic of a request.
pub fn memory_bytes(machine: &Machine, load: &Load, law: &Law) -> f64 {
    let more = (load.item_bytes() / 64.0 - 1.0).max(0.0);
    let missed = 1.0 - cached_share(machine, load, law);
    (machine.cost.lines + more) * 64.0 * machine.cost.prefetch_factor * missed.max(MISSED_MIN)
}

/// Returns the share of the requests whose items are in the last-level caches: hot items take lines of their
/// own, until the caches hold all that there is.
fn cached_share(machine: &Machine, load: &Load, law: &Law) -> f64 {
    let cache_bytes = machine.cache_bytes();
    let keys = (cache_bytes / (load.item_bytes() + 64.0)) as u64;
    let of_all = cache_bytes / load.footprint().memory_bytes(law.items as f64);
    law.top(keys.min(law.items)).max(of_all.min(1.0))
}

/// Returns the load of each core, the hottest first.
///
/// The hottest partition has its expected load, so that the result does not depend on one hash; the others
/// share the rest as random hashes do on average. Few keys leave some partitions without any.
fn core_loads(machine: &Machine, load: &Load, law: &Law, mode: Mode) -> Vec<CoreLoad> {
    let count = machine.cores_in_all();
    let partitions = u64::from(count);
    let relative = relative_loads(load, law, partitions);
    let shares = relative.iter().map(|relative| {
        let own = relative / f64::from(count);
        match mode.is_crew() {
            true => load.get / f64::from(count) + (1.0 - load.get) * own,
            false => own,
        }
    });
    let shares: Vec<f64> = shares.collect();
    let is_hot = |at: usize| relative[at] >= HOT;
    (0..shares.len())
        .map(|at| {
            let hit = match is_hot(at) {
                true => hot_share(machine, load, law, relative[at]),
                // Lines that another core writes move between the caches.
                false if mode.is_crew() && count > 1 && law.exponent > 0.0 => 0.0,
                false => cached_share(machine, load, law),
            };
            let request_s = request_s(machine, load, mode, hit) / clock_factor(machine, mode, at, count);
            CoreLoad { share: shares[at], request_s }
        })
        .collect()
}

/// Returns the load of each partition over the mean, the hottest first.
fn relative_loads(load: &Load, law: &Law, partitions: u64) -> Vec<f64> {
    if law.items / partitions >= FEW_KEYS && (law.exponent == 0.0 || partitions == 1) {
        return vec![1.0; partitions as usize];
    }
    let mut relative = ordered_loads(partitions, law, load.seed, HASHES);
    if law.items / partitions >= FEW_KEYS {
        let count = partitions as f64;
        let top = expected_over_mean(partitions, law.share(1));
        let factor = (count - top) / (count - relative[0]);
        relative[0] = top;
        relative[1..].iter_mut().for_each(|load| *load = (*load * factor).min(top));
    }
    relative
}

/// Returns the share of a hot partition's requests whose items are in its core's cache: the top key, and of
/// the others as many as everywhere.
fn hot_share(machine: &Machine, load: &Load, law: &Law, relative: f64) -> f64 {
    let partitions = f64::from(machine.cores_in_all());
    let top = (law.share(1) * partitions / relative).min(1.0);
    top + (1.0 - top) * cached_share(machine, load, law)
}

/// Returns the seconds of a request at the normal clock.
pub fn request_s(machine: &Machine, load: &Load, mode: Mode, hit: f64) -> f64 {
    let cost = &machine.cost;
    let batch = f64::from(load.batch);
    let beyond = (1.0 - cost.in_flight / batch).max(0.0);
    let shared = if mode.is_crew() { load.get * cost.shared_read_cycles } else { 0.0 };
    let cycles = cost.request_cycles + cost.datagram_cycles / batch - cost.stall_cycles * hit
        + cost.stall_cycles * beyond * (1.0 - hit)
        + shared
        + (1.0 - load.get) * cost.write_cycles;
    cycles / (machine.clock_ghz * 1e9) / factors::of(machine)
}

/// Returns how much faster a core is in a turbo mode: the first ones are the hottest.
fn clock_factor(machine: &Machine, mode: Mode, at: usize, count: u32) -> f64 {
    let Some(turbo) = machine.turbo.filter(|_| mode.is_turbo()) else {
        return 1.0;
    };
    let ghz = match at as u32 {
        at if at < turbo.high_cores => turbo.high_ghz,
        at if at >= count.saturating_sub(turbo.low_cores) => turbo.low_ghz,
        _ => machine.clock_ghz,
    };
    1.0 / (turbo.clock_share * machine.clock_ghz / ghz + 1.0 - turbo.clock_share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fewer keys than cores leave cores without requests: their shares are 0, and no figure is NaN.
    #[test]
    fn few_keys_leave_idle_cores() {
        let machine = Machine::preset("paper-lab").unwrap();
        for (items, zipf) in [(1, 0.99), (1, 0.0), (3, 0.0), (10, 3.0), (100, 0.99)] {
            let load = Load { items, zipf, ..Load::standard() };
            let capacity = Capacity::of(&machine, &load, Mode::Erew).unwrap();
            let shares: Vec<f64> = capacity.cores.iter().map(|core| core.share).collect();
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{items} {zipf}: {shares:?}");
            assert!(items > 24 || shares[23] == 0.0, "{items} {zipf}: {shares:?}");
            assert!(capacity.throughput.is_finite() && capacity.throughput > 0.0, "{capacity:?}");
        }
        let one = Load { items: 1, ..Load::standard() };
        let capacity = Capacity::of(&machine, &one, Mode::Erew).unwrap();
        assert_eq!(capacity.bottleneck, Bottleneck::HottestPartition);
    }
}
