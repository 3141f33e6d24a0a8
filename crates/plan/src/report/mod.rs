//! The plan: every figure with its origin.
//!
//! | file | subject |
//! |---|---|
//! | `build.rs` | computes it |
//! | `resources.rs` | memory, bandwidth and power, part by part |
//! | `text.rs`, `csv.rs`, `svg.rs` | shows it; JSON comes from the structure itself |
//! | `advice.rs` | the recommendation |

mod advice;
mod build;
mod csv;
mod resources;
mod svg;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::load::Load;
use crate::machine::Machine;
use crate::model::capacity::{Bottleneck, Limits, Mode};
use crate::model::fleet::Fleet;
use crate::model::latency::Point;

pub use build::{Basis, build};
pub use resources::{Resource, Watts};
pub use text::table;

/// A figure with its origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name.
    pub name: &'static str,
    /// Value.
    pub value: f64,
    /// Unit.
    pub unit: &'static str,
    /// `measured`, `computed` or `assumed`.
    pub origin: Origin,
    /// Source: a section, a file, an option, a formula.
    pub source: String,
}

/// Origin of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Somebody measured it.
    Measured,
    /// It follows from others.
    Computed,
    /// Somebody assumed it.
    Assumed,
    /// The user said it.
    Given,
}

impl Origin {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Computed => "computed",
            Self::Assumed => "assumed",
            Self::Given => "given",
        }
    }

    /// Splits the text of a machine's file: the origin, a colon, the source.
    pub fn of(text: &str) -> (Self, String) {
        let (word, source) = text.split_once(':').unwrap_or((text, ""));
        let origin = match word {
            "measured" => Self::Measured,
            "computed" => Self::Computed,
            "given" => Self::Given,
            _ => Self::Assumed,
        };
        (origin, source.trim().to_owned())
    }
}

/// A mode: throughput, what binds it, loads of cores, latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModePlan {
    /// Mode.
    pub mode: Mode,
    /// Requests per second at most.
    pub throughput: f64,
    /// Part that binds it.
    pub bottleneck: Bottleneck,
    /// Requests per second that each part could serve.
    pub limits: Limits,
    /// Highest rate whose 95th percentile is within the target; nothing if there is none.
    pub within_target: Option<Point>,
    /// Latency against the rate.
    pub latency: Vec<Point>,
    /// Load of each core over that of the hottest, from the coldest on: a CDF.
    pub core_loads: Vec<f64>,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Machine.
    pub machine: String,
    /// Port that requests come by.
    pub port: String,
    /// Remarks: age of a calibration, what was left out.
    pub remarks: Vec<String>,
    /// Load.
    pub load: Load,
    /// Modes, in the order of [`Mode::ALL`].
    pub modes: Vec<ModePlan>,
    /// Mode of the recommendation.
    pub recommended_mode: Mode,
    /// Rate of one server in that mode within the target.
    pub server_rate: f64,
    /// Servers.
    pub fleet: Fleet,
    /// Bytes of all servers, part by part.
    pub memory: Vec<(&'static str, f64)>,
    /// Use of each resource by the busiest server, beside its limit.
    pub resources: Vec<Resource>,
    /// Power of a server at some rates; empty where it is not known.
    pub power: Vec<Watts>,
    /// Requests per datagram and the mean delay that this costs a client in microseconds.
    pub batching: Vec<(u32, f64)>,
    /// Memory and the share of reads that miss, of a trace.
    pub misses: Vec<(f64, f64)>,
    /// All single figures: inputs, then results.
    pub figures: Vec<Figure>,
    /// Origins of the other parts: `measured`, `computed` or `assumed`, a colon, the source.
    pub origins: BTreeMap<&'static str, &'static str>,
    /// Three sentences.
    pub recommendation: Vec<String>,
    /// Command lines that start it, and that load it.
    pub commands: Vec<String>,
}

impl Plan {
    /// Returns the plan as text.
    pub fn text(&self) -> String {
        text::text(self)
    }

    /// Returns the plan as CSV files: names and contents.
    pub fn csv(&self) -> Vec<(&'static str, String)> {
        csv::all(self)
    }

    /// Returns the plan as figures: names and SVG.
    pub fn svg(&self) -> Vec<(&'static str, String)> {
        svg::all(self)
    }

    /// Returns the mode of the recommendation.
    pub fn recommended(&self) -> Option<&ModePlan> {
        self.modes.iter().find(|mode| mode.mode == self.recommended_mode)
    }

    /// Returns a figure by its name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

/// Returns figures of a machine with their origins.
fn machine_figures(machine: &Machine) -> Vec<Figure> {
    let cost = &machine.cost;
    let round_trip = &machine.latency.round_trip_us;
    let mut rows = vec![
        ("sockets", f64::from(machine.sockets), ""),
        ("cores", f64::from(machine.cores), "per socket"),
        ("threads", f64::from(machine.threads), "per core"),
        ("clock_ghz", machine.clock_ghz, "GHz"),
        ("llc_kib_per_core", machine.llc_kib_per_core, "KiB"),
        ("memory_gib", machine.memory_gib, "GiB"),
        ("memory_gb_s", machine.memory_gb_s, "GB/s per socket"),
        ("ports", f64::from(machine.ports), "per socket"),
        ("port_gb_s", machine.port_gb_s, "Gb/s"),
        ("request_cycles", cost.request_cycles, "cycles"),
        ("datagram_cycles", cost.datagram_cycles, "cycles"),
        ("stall_cycles", cost.stall_cycles, "cycles"),
        ("shared_read_cycles", cost.shared_read_cycles, "cycles"),
        ("write_cycles", cost.write_cycles, "cycles"),
        ("in_flight", cost.in_flight, "requests"),
        ("lines", cost.lines, "cache lines"),
        ("prefetch_factor", cost.prefetch_factor, ""),
        ("round_trip_us", round_trip.iter().sum::<f64>() / round_trip.len() as f64, "us, mean"),
        ("receive_max", machine.latency.receive_max as f64, "datagrams"),
        ("pause_us", machine.latency.pause_us, "us"),
        ("pause_every_s", machine.latency.pause_every_s, "s"),
        ("datagram_bytes", machine.packet.datagram_bytes, "bytes"),
        ("request_bytes", machine.packet.request_bytes, "bytes"),
        ("reply_bytes", machine.packet.reply_bytes, "bytes"),
        ("framing_bytes", machine.packet.framing_bytes, "bytes"),
    ];
    rows.extend(machine.sustained_gb_s.map(|gb_s| ("sustained_gb_s", gb_s, "Gb/s, all ports")));
    if cost.holds_for.is_some() {
        rows.extend([
            ("reorder_buffer", machine.reorder_buffer, "entries"),
            ("issue_width", machine.issue_width, "instructions"),
        ]);
    }
    if let Some(turbo) = machine.turbo {
        rows.extend([
            ("turbo_high_ghz", turbo.high_ghz, "GHz"),
            ("turbo_high_cores", f64::from(turbo.high_cores), "cores"),
            ("turbo_low_ghz", turbo.low_ghz, "GHz"),
            ("turbo_low_cores", f64::from(turbo.low_cores), "cores"),
        ]);
    }
    if let Some(power) = machine.power {
        rows.extend([
            ("power_processors_w", power.processors_w, "W"),
            ("power_port_w", power.port_w, "W per port"),
            ("power_other_w", power.other_w, "W"),
            ("power_request_nj", power.request_nj, "nJ per request"),
        ]);
    }
    let figure = |(name, value, unit): (&'static str, f64, &'static str)| {
        // Fields of a part have its origin.
        let part = ["turbo", "power"].into_iter().find(|part| name.starts_with(part));
        let (origin, source) = Origin::of(machine.origin(part.unwrap_or(name)));
        Figure { name, value, unit, origin, source }
    };
    rows.into_iter().map(figure).collect()
}
