//! The engine alone on one core, beside other hash tables and caches.
//!
//! Inside every loop, the same for all: an item number from a list drawn beforehand, its key
//! bytes, the hash, the operation, the value copied out and its first word compared.

mod contenders;
mod overhead;
mod throughput;
mod write_path;

use clap::Args;

use crate::report::Report;
use crate::{Common, Result, system};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Items, a power of two
    #[arg(long, default_value_t = 16 << 20)]
    pub items: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.items.is_power_of_two() || options.items > 1 << 28 {
        return Err("--items must be a power of two, at most 2^28".into());
    }
    let mut report = Report::new("engine");
    report.note(system::cpu_model());
    let cpus = system::allowed_cpus();
    options.common.take_priority(&mut report);
    system::pin(*cpus.last().unwrap_or(&0))?;
    throughput::run(options, &mut report)?;
    overhead::run(options, &mut report)?;
    write_path::run(options, &cpus, &mut report)?;
    report.finish()
}
