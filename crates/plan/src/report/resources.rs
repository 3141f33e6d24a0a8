//! Use of memory, of bandwidth and of power, part by part.

use micanite_engine::Footprint;
use serde::Serialize;

use super::build::Basis;
use crate::model::capacity::memory_bytes;
use crate::model::fleet::Fleet;
use crate::model::packet;

/// Share of a machine's memory that is for items; the rest is for the system and for buffers.
const MEMORY_SHARE: f64 = 0.85;

/// Use of a resource by the busiest server, beside its limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resource {
    /// Name.
    pub name: &'static str,
    /// Use.
    pub used: f64,
    /// Limit.
    pub limit: f64,
    /// Unit of both.
    pub unit: &'static str,
}

/// Power at a rate of one server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Watts {
    /// Load that it is of.
    pub name: &'static str,
    /// Requests per second.
    pub rate: f64,
    /// Parts and their watts.
    pub parts: Vec<(&'static str, f64)>,
}

/// Returns the bytes of a server that are for items.
pub fn item_memory(basis: &Basis<'_>) -> f64 {
    basis.machine.memory_gib * f64::from(1 << 30) * MEMORY_SHARE
}

/// Returns the bytes of all servers part by part; a trace may have told a smaller cache than one of all
/// items, which holds as many as have room.
pub fn memory(basis: &Basis<'_>) -> Vec<(&'static str, f64)> {
    let load = basis.load;
    let Footprint { item_bytes, index_bytes, .. } = load.footprint();
    let all = load.footprint().memory_bytes(load.items as f64);
    let bytes = basis.recommended_memory.map_or(all, |(bytes, _)| bytes);
    let items = load.items as f64 * bytes / all;
    let payload = load.key_bytes + load.value_bytes;
    let held = item_bytes as f64 + index_bytes;
    vec![
        ("keys and values", items * payload),
        ("headers and padding", items * (item_bytes as f64 - payload)),
        ("index", items * index_bytes),
        ("given up by the log", bytes - items * held),
    ]
}

/// Returns what the busiest server takes of each resource at this rate.
pub fn resources(basis: &Basis<'_>, fleet: &Fleet, busiest: f64) -> Vec<Resource> {
    let Basis { machine, load, .. } = basis;
    let traffic = busiest * memory_bytes(machine, load, &load.law());
    let mut all = vec![
        Resource {
            name: "memory for items",
            used: fleet.largest_memory_bytes / f64::from(1 << 30),
            limit: item_memory(basis) / f64::from(1 << 30),
            unit: "GiB",
        },
        Resource {
            name: "DRAM bandwidth",
            used: traffic / 1e9,
            limit: machine.memory_bytes_s() / 1e9,
            unit: "GB/s",
        },
    ];
    let bits = packet::bits(machine, load);
    if bits.iter().any(|bits| *bits > 0.0) {
        let limit = machine.network_bits() / 1e9;
        all.extend([("network received", bits[0]), ("network sent", bits[1])].map(|(name, bits)| Resource {
            name,
            used: busiest * bits / 1e9,
            limit,
            unit: "Gb/s",
        }));
    }
    all
}

/// Returns the power without requests, of the busiest server, and of one at the rate within the target;
/// nothing of a machine whose power is not known.
pub fn power(basis: &Basis<'_>, busiest: f64, within_target: f64) -> Vec<Watts> {
    let rates = [("idle", 0.0), ("busiest server", busiest), ("within the target", within_target)];
    let at = |power: crate::machine::Power| {
        rates.map(|(name, rate)| Watts { name, rate, parts: power.parts(basis.machine, rate).to_vec() })
    };
    basis.machine.power.map(at).into_iter().flatten().collect()
}
