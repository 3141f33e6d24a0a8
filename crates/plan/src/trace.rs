//! A load as a trace tells it, by the same code as `micanite trace stats` and `trace simulate`.

use std::path::Path;

use micanite_engine::Eviction;
use micanite_workload::trace::simulate::{
    Bounds, Case, Compact, Policy, Rules, Simulation, recommend, room_for_all, share_that_fits,
};
use micanite_workload::trace::{Failure, Summary, open, summary};
use serde::Serialize;

/// Memory that the simulation of caches may take.
const SIMULATION_BYTES: usize = 256 << 20;
/// Parts of the memory for everything at which misses are simulated.
const PARTS: [f64; 7] = [0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0];

/// Summary of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// Operations, sizes, skew, rate.
    #[serde(skip)]
    pub summary: Summary,
    /// Memory and the share of reads that miss with it.
    pub misses: Vec<(f64, f64)>,
    /// Memory that `trace simulate` recommends, and its misses.
    pub recommended: Option<(f64, f64)>,
}

/// Reads a trace, twice: for its statistics, and for its misses.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> Result<Told, Failure> {
    let summary = summary(&mut *open(path, None)?.reader)
        .map_err(|failure| Failure::new(format!("{}: {}", path.display(), failure.reason)))?;
    let bounds = Bounds { bytes_max: SIMULATION_BYTES, ..Bounds::default() };
    let mut trace = Compact::read(&mut *open(path, None)?.reader, bounds, |_| ())?;
    if trace.reads == 0 {
        return Ok(Told { summary, misses: Vec::new(), recommended: None });
    }
    let rules = Rules { memory_bytes_max: SIMULATION_BYTES as u64, ..Rules::default() };
    let room_bytes = room_for_all(&trace);
    let share = share_that_fits(&trace, rules, room_bytes);
    if share < 1.0 {
        trace.thin(share);
    }
    let policy = Policy::Engine(Eviction::S3Fifo);
    let simulation = Simulation::new(&trace, rules, &[policy]);
    let cases: Vec<Case> =
        PARTS.iter().map(|part| Case { policy, bytes: ((room_bytes as f64 * part) as u64).max(1) }).collect();
    let ratios = simulation.run(&cases, |_| ())?;
    let misses = ratios.iter().map(|ratio| (ratio.case.bytes as f64, ratio.objects)).collect();
    let recommended = recommend(&simulation, policy, room_bytes)?
        .memory
        .map(|[memory, ..]| (memory.case.bytes as f64, memory.objects));
    Ok(Told { summary, misses, recommended })
}
