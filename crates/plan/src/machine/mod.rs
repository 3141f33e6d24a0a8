//! Machines as data: what they consist of, and what a request costs them.

pub mod file;
mod latency;
pub mod this;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use latency::{Latency, LoadedTrips};

/// Names of the machines that are built in, with their files.
const PRESETS: [(&str, &str); 4] = [
    ("paper-lab", include_str!("presets/paper-lab.toml")),
    ("paper-1", include_str!("presets/paper.toml")),
    ("paper-2", include_str!("presets/paper.toml")),
    ("paper-4", include_str!("presets/paper.toml")),
];

/// Bounds on a machine, for sentences instead of absurd figures.
const CORES_MAX: u32 = 4096;
const PORTS_MAX: u32 = 1024;

/// A machine. All numbers are of one socket where nothing else is said.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Name for people.
    pub name: String,
    /// Sockets.
    pub sockets: u32,
    /// Cores.
    pub cores: u32,
    /// Clock in GHz.
    pub clock_ghz: f64,
    /// Last-level cache per core in KiB.
    pub llc_kib_per_core: f64,
    /// Memory in GiB, of the whole machine.
    pub memory_gib: f64,
    /// Channels of memory.
    #[serde(default)]
    pub memory_channels: u32,
    /// Bandwidth of memory in GB/s.
    pub memory_gb_s: f64,
    /// Network ports.
    pub ports: u32,
    /// Gb/s of a port, in each direction.
    pub port_gb_s: f64,
    /// Gb/s that all ports together sustain, if that is less.
    #[serde(default)]
    pub sustained_gb_s: Option<f64>,
    /// Threads of a core that serve: 1, or 2 (SMT).
    #[serde(default = "one")]
    pub threads: u32,
    /// Entries of the reorder buffer of a core.
    #[serde(default = "entries")]
    pub reorder_buffer: f64,
    /// Instructions that a core issues in a cycle.
    #[serde(default = "width")]
    pub issue_width: f64,
    /// Clocks of the -T modes.
    #[serde(default)]
    pub turbo: Option<Turbo>,
    /// Costs of a request.
    pub cost: Cost,
    /// Latency beside the queue.
    pub latency: Latency,
    /// Bytes of datagrams.
    pub packet: Packet,
    /// Watts, if they are known.
    #[serde(default)]
    pub power: Option<Power>,
    /// Costs of other ports than the native one: `stream`, `engine`.
    #[serde(default)]
    pub other_ports: BTreeMap<String, PortCost>,
    /// Nanoseconds of stages, and other times that a calibration measures: for people.
    #[serde(default)]
    pub stages_ns: BTreeMap<String, f64>,
    /// Origins of fields: `measured`, `computed` or `assumed`, a colon, and the source. Fields that are
    /// not named have the origin of `default`.
    #[serde(default)]
    pub origin: BTreeMap<String, String>,
}

/// Clocks of hot and cold cores (section 6.2).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Turbo {
    /// Clock of the hot cores in GHz.
    pub high_ghz: f64,
    /// Hot cores, of the whole machine.
    pub high_cores: u32,
    /// Clock of the cold cores in GHz.
    pub low_ghz: f64,
    /// Cold cores, of the whole machine.
    pub low_cores: u32,
    /// Share of a hot core's time that scales with the clock.
    pub clock_share: f64,
}

/// Costs in cycles of the machine's clock.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Cycles of a request: parse, index, item, reply; with misses of the caches.
    pub request_cycles: f64,
    /// Cycles of a datagram, or of a turn of a stream: receive and send.
    pub datagram_cycles: f64,
    /// Part of `request_cycles` that a request saves whose item is in the cache.
    pub stall_cycles: f64,
    /// More for a GET that another core than the owner answers (CREW).
    pub shared_read_cycles: f64,
    /// More for a request that writes.
    #[serde(default)]
    pub write_cycles: f64,
    /// Requests whose memory accesses a core keeps in flight: of a longer burst, those beyond stall again.
    pub in_flight: f64,
    /// Cache lines of memory that a request takes.
    pub lines: f64,
    /// Factor for lines that prefetching brings in vain.
    pub prefetch_factor: f64,
    /// Core and cache that the cycles hold for: others get the paper's factors.
    #[serde(default)]
    pub holds_for: Option<HoldsFor>,
}

/// A core and its cache.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HoldsFor {
    /// Last-level cache per core in KiB.
    pub llc_kib_per_core: f64,
    /// Entries of the reorder buffer.
    pub reorder_buffer: f64,
    /// Instructions issued in a cycle.
    pub issue_width: f64,
}

/// Costs of a port.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PortCost {
    /// Cycles of a request, as [`Cost::request_cycles`].
    pub request_cycles: f64,
    /// Cycles of a turn, as [`Cost::datagram_cycles`].
    pub datagram_cycles: f64,
    /// Equally likely round trips, as [`Latency::round_trip_us`].
    pub round_trip_us: Vec<f64>,
    /// Round trips under load, as [`Latency::loaded`].
    #[serde(default)]
    pub loaded: Vec<LoadedTrips>,
    /// Bytes of its packets; those of the native port where nothing is said.
    #[serde(default)]
    pub packet: Option<Packet>,
}

/// Bytes of datagrams.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Packet {
    /// Bytes of a datagram beside its requests, headers of all layers included.
    pub datagram_bytes: f64,
    /// Bytes of a request beside key and value.
    pub request_bytes: f64,
    /// Bytes of a reply beside the value.
    pub reply_bytes: f64,
    /// Bytes on the wire beside a frame: preamble, checksum, gap.
    pub framing_bytes: f64,
}

impl Packet {
    /// No network: the engine alone.
    pub const NONE: Self =
        Self { datagram_bytes: 0.0, request_bytes: 0.0, reply_bytes: 0.0, framing_bytes: 0.0 };
}

/// An explicit model: parts that are always on, and energy per request.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Power of all processors while their cores poll without requests.
    pub processors_w: f64,
    /// Power of a network port.
    pub port_w: f64,
    /// Power of everything else.
    pub other_w: f64,
    /// Energy of a request in nanojoules.
    pub request_nj: f64,
}

impl Power {
    /// Returns the watts of each part at a rate.
    pub fn parts(&self, machine: &Machine, rate: f64) -> [(&'static str, f64); 4] {
        let ports = f64::from(machine.sockets * machine.ports);
        [
            ("processors", self.processors_w),
            ("ports", ports * self.port_w),
            ("rest", self.other_w),
            ("requests", rate * self.request_nj * 1e-9),
        ]
    }

    /// Returns the watts at a rate.
    pub fn watts(&self, machine: &Machine, rate: f64) -> f64 {
        self.parts(machine, rate).iter().map(|(_, watts)| watts).sum()
    }
}

const fn entries() -> f64 {
    64.0
}

const fn width() -> f64 {
    3.0
}

const fn one() -> u32 {
    1
}

impl Machine {
    /// Returns a machine that is built in.
    pub fn preset(name: &str) -> Option<Self> {
        let (_, text) = PRESETS.iter().find(|(known, _)| *known == name)?;
        let mut machine: Self = toml::from_str(text).ok()?;
        name.clone_into(&mut machine.name);
        if let Some(sockets) = name.strip_prefix("paper-").and_then(|sockets| sockets.parse().ok()) {
            machine.sockets = sockets;
            machine.memory_gib *= f64::from(sockets);
        }
        Some(machine)
    }

    /// Returns the names of the machines that are built in.
    pub fn presets() -> Vec<&'static str> {
        PRESETS.iter().map(|(name, _)| *name).collect()
    }

    /// Takes the costs of another port than the native one.
    ///
    /// # Errors
    /// When the machine has none for it: a sentence.
    pub fn with_port(mut self, port: &str) -> Result<Self, String> {
        if port == "native" {
            return Ok(self);
        }
        let Some(cost) = self.other_ports.get(port).cloned() else {
            let name = &self.name;
            return Err(format!(
                "the machine {name} has no costs for the port '{port}': native, or calibrate"
            ));
        };
        self.cost.request_cycles = cost.request_cycles;
        self.cost.datagram_cycles = cost.datagram_cycles;
        self.latency.round_trip_us = cost.round_trip_us;
        self.latency.loaded = cost.loaded;
        self.packet = cost.packet.unwrap_or(self.packet);
        Ok(self)
    }

    /// Returns the cores that serve.
    pub const fn cores_in_all(&self) -> u32 {
        self.sockets * self.cores
    }

    /// Returns the network's bandwidth in bits per second, in each direction.
    pub fn network_bits(&self) -> f64 {
        let ports = f64::from(self.sockets * self.ports) * self.port_gb_s;
        self.sustained_gb_s.map_or(ports, |sustained| sustained.min(ports)) * 1e9
    }

    /// Returns the bytes of all last-level caches.
    pub fn cache_bytes(&self) -> f64 {
        self.llc_kib_per_core * 1024.0 * f64::from(self.cores_in_all())
    }

    /// Returns the bandwidth of all memory in bytes per second.
    pub fn memory_bytes_s(&self) -> f64 {
        f64::from(self.sockets) * self.memory_gb_s * 1e9
    }

    /// Returns the origin of a field.
    pub fn origin(&self, field: &str) -> &str {
        let origin = self.origin.get(field).or_else(|| self.origin.get("default"));
        origin.map_or("assumed: the machine's file says nothing", String::as_str)
    }

    /// Refuses what is no machine, with a sentence.
    ///
    /// # Errors
    /// A number that is zero, negative, or beyond any machine.
    pub fn check(&self) -> Result<(), String> {
        let cores = u64::from(self.sockets) * u64::from(self.cores);
        if cores == 0 {
            return Err("the machine has no core: sockets and cores must be at least 1".to_owned());
        }
        if cores > u64::from(CORES_MAX) {
            return Err(format!("{cores} cores are more than any machine has: at most {CORES_MAX}"));
        }
        let positive = [
            ("clock_ghz", self.clock_ghz),
            ("llc_kib_per_core", self.llc_kib_per_core),
            ("reorder_buffer", self.reorder_buffer),
            ("issue_width", self.issue_width),
            ("memory_gib", self.memory_gib),
            ("memory_gb_s", self.memory_gb_s),
            ("port_gb_s", self.port_gb_s),
            ("cost.request_cycles", self.cost.request_cycles),
            ("cost.in_flight", self.cost.in_flight),
            ("cost.lines", self.cost.lines),
            ("cost.prefetch_factor", self.cost.prefetch_factor),
            ("latency.pause_every_s", self.latency.pause_every_s),
        ];
        for (name, value) in positive {
            if !(value.is_finite() && value > 0.0 && value < 1e12) {
                return Err(format!("{name} of the machine is {value}: it must be above 0"));
            }
        }
        self.check_parts()
    }

    fn check_parts(&self) -> Result<(), String> {
        let cost = &self.cost;
        let not_negative = [
            ("cost.datagram_cycles", cost.datagram_cycles),
            ("cost.stall_cycles", cost.stall_cycles),
            ("cost.shared_read_cycles", cost.shared_read_cycles),
            ("cost.write_cycles", cost.write_cycles),
            ("latency.pause_us", self.latency.pause_us),
            ("packet.datagram_bytes", self.packet.datagram_bytes),
            ("packet.request_bytes", self.packet.request_bytes),
            ("packet.reply_bytes", self.packet.reply_bytes),
            ("packet.framing_bytes", self.packet.framing_bytes),
        ];
        for (name, value) in not_negative {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!("{name} of the machine is {value}: it must be 0 or more"));
            }
        }
        if cost.stall_cycles >= cost.request_cycles {
            return Err("cost.stall_cycles must be a part of cost.request_cycles".to_owned());
        }
        if self.ports == 0 {
            return Err("the machine has no network port: ports must be at least 1".to_owned());
        }
        if self.ports > PORTS_MAX {
            return Err(format!("{} network ports of a socket are more than {PORTS_MAX}", self.ports));
        }
        if self.threads == 0 || self.threads > 2 {
            return Err(format!("threads of a core are {}: 1 or 2 (SMT)", self.threads));
        }
        if self.latency.receive_max == 0 {
            return Err("latency.receive_max must be at least 1".to_owned());
        }
        self.latency.check()?;
        let pause_s = self.latency.pause_us * 1e-6;
        if pause_s >= self.latency.pause_every_s / 2.0 {
            return Err("housekeeping takes half of the time or more: shorten latency.pause_us".to_owned());
        }
        self.check_options()
    }

    /// Checks the parts that not every machine has.
    fn check_options(&self) -> Result<(), String> {
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        if let Some(turbo) = self.turbo {
            let is_share = (0.0..=1.0).contains(&turbo.clock_share);
            if ![turbo.high_ghz, turbo.low_ghz].into_iter().all(is_positive) || !is_share {
                return Err("turbo needs clocks above 0 and a clock_share from 0 to 1".to_owned());
            }
        }
        if let Some(gb_s) = self.sustained_gb_s.filter(|gb_s| !is_positive(*gb_s)) {
            return Err(format!("sustained_gb_s of the machine is {gb_s}: it must be above 0"));
        }
        if let Some(holds) = self.cost.holds_for
            && ![holds.llc_kib_per_core, holds.reorder_buffer, holds.issue_width].into_iter().all(is_positive)
        {
            return Err("cost.holds_for needs numbers above 0".to_owned());
        }
        if let Some(power) = self.power {
            let watts = [power.processors_w, power.port_w, power.other_w, power.request_nj];
            if !watts.iter().all(|watts| watts.is_finite() && *watts >= 0.0) || watts[0] == 0.0 {
                return Err("power needs processors_w above 0 and no negative number".to_owned());
            }
        }
        Ok(())
    }
}
