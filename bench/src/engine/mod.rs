//! The engine alone: on one core beside other hash tables, caches and the memory's limit, and on
//! two cores in its access modes; its memory, and its images.
//!
//! Inside every loop, the same for all: an item number from a list drawn beforehand, its key
//! bytes, the hash, the operation, the value copied out and its first word compared.

mod backing;
mod calls;
pub(crate) mod contenders;
pub(crate) mod cores;
mod full_store;
pub(crate) mod items;
mod overhead;
mod parts;
pub(crate) mod peers;
pub(crate) mod plain;
mod restart;
mod scratch;
mod snapshot;
pub(crate) mod throughput;

use clap::Args;
use micanite_engine::Eviction;

use crate::results::measurement::Measurement;
use crate::{Common, Result};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Items, a power of two; the full run also measures four times as many
    #[arg(long, default_value_t = 16 << 20)]
    pub items: u64,
    /// The eviction policy of throughput, of single requests and of overhead (default: the engine's)
    #[arg(long)]
    pub eviction: Option<Eviction>,
}

/// Measures what the memory of `--kernel-get` costs, with so many items.
pub(crate) fn backing(common: &Common, items: u64, report: &mut Measurement) -> Result<()> {
    let options = Options { common: common.clone(), items, eviction: None };
    backing::run(&options, report)
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.items.is_power_of_two() || options.items > 1 << 28 {
        return Err("--items must be a power of two, at most 2^28".into());
    }
    // This thread is pinned from then on.
    let cpus = micanite_control::cores::allowed();
    let (mut report, [first, last]) = options.common.begin("engine")?;
    throughput::run(options, &mut report)?;
    calls::run(options, &mut report)?;
    parts::run(options, &mut report)?;
    overhead::run(options, &mut report)?;
    full_store::run(options, &mut report)?;
    backing::run(options, &mut report)?;
    cores::scaling::run(options, &cpus, &mut report)?;
    if first != last {
        cores::mode_grid::run(options, &cpus, &mut report)?;
        let cpus = [first, last];
        calls::two_threads(options, cpus, &mut report)?;
        cores::write_path::run(options, &cpus, &mut report)?;
        cores::modes::run(options, cpus, &mut report)?;
        cores::large_writer::run(options, cpus, &mut report)?;
        cores::switches::run(options, cpus, &mut report)?;
        snapshot::run(options, cpus, &mut report)?;
    } else {
        report.note("what needs two threads was not measured: there is one CPU");
    }
    restart::run(options, &mut report)?;
    report.finish()
}
