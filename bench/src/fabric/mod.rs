//! One-sided reads over libfabric: InnerCache's nine workloads by three ways of reading, one client and one
//! server with a cable between their networks, beside a bare ping-pong of the provider and our other
//! protocols.
//!
//! Each figure is that of a run with a server of its own: it is started, filled by the measured client or by
//! another one, and loaded. Runs of the ways alternate.

mod bounds;
mod cells;
mod document;
mod load;
mod pong;
mod processor;
pub(crate) mod section;
mod server;

use std::path::PathBuf;

use clap::Args;

use crate::harness::{namespace, peers::Binaries, system};
use crate::results::measurement::Measurement;
use crate::{Common, Result};

pub(crate) use pong::{Options as PongOptions, run as run_pong};

/// Bytes of all items together, as in the paper.
const DATA_BYTES: u64 = 500_000_000;
/// Bytes of the cache area, as in the paper.
const AREA_BYTES: u64 = 255 << 20;

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub binaries: Binaries,
    /// Providers of libfabric
    #[arg(long, value_delimiter = ',', default_value = "tcp;ofi_rxm,net;ofi_rxm")]
    pub provider: Vec<String>,
    /// Operations of a run (default 10000, quick 1000)
    #[arg(long)]
    pub operations: Option<u64>,
    /// Divisor of the paper's 500 MB of data and of its cache area (default 1, quick 10)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub scale: Option<u64>,
    /// Write the tables of the run into this document, too
    #[arg(long)]
    pub document: Option<PathBuf>,
}

impl Options {
    fn operations(&self) -> u64 {
        self.operations.unwrap_or(if self.common.quick { 1_000 } else { 10_000 })
    }

    fn scale(&self) -> u64 {
        self.scale.unwrap_or(if self.common.quick { 10 } else { 1 })
    }

    fn data_bytes(&self) -> u64 {
        DATA_BYTES / self.scale()
    }

    fn area_bytes(&self) -> u64 {
        AREA_BYTES / self.scale()
    }

    /// Every run is as long as a server's start and its filling.
    fn rounds(&self) -> usize {
        let default = if self.common.quick { 1 } else { 3 };
        self.common.rounds.map_or(default, usize::from)
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if !cfg!(feature = "libfabric") {
        return Err("built without libfabric: make bench-fabric builds with it".into());
    }
    let mut report = Measurement::new("fabric");
    report.note(system::cpu_model());
    report.note(format!(
        "{} operations after filling with {} MB, cache area of {} MB; rounds: {}",
        options.operations(),
        options.data_bytes() / 1_000_000,
        options.area_bytes() >> 20,
        options.rounds()
    ));
    if !options.common.no_real_time {
        system::make_normal();
    }
    namespace::leave_network()?;
    let bounds = bounds::run(options, &mut report);
    report.part(bounds);
    let done = cells::run(options, &mut report);
    report.part(done);
    let done = processor::run(options, &mut report);
    report.part(done);
    report.finish()?;
    if let Some(path) = &options.document {
        document::write(path, &report)?;
    }
    report.complete()
}
