//! Whole servers: every one loaded by `micanite load`, one worker on one core, the client on another, in
//! turns. A server-core-second is CPU time of the server's process, user and system.
//!
//! Most cases are figures of the papers: throughput by data set, skew and mix; latency against
//! throughput; published workloads; requests of one datagram; cores; access modes; connections; new keys in
//! full caches; parts of a request's time; prefetching.

mod batches;
mod connections;
mod cores;
mod curves;
mod inserts;
mod load;
mod modes;
mod parts;
mod prefetch;
mod rounds;
mod sides;
mod throughput;
mod workloads;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::harness::cpus;
use crate::harness::peers::{Binaries, Named};
use crate::harness::system;
use crate::results::measurement::Measurement;
use crate::{Common, Result};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub binaries: Binaries,
    /// Redis's binary
    #[arg(long, default_value_os_t = crate::harness::system::target("peers/bin/redis-server"))]
    pub redis: PathBuf,
    /// A server that runs elsewhere, to stand beside: NAME=URL, as `micanite load` takes it. Its items are
    /// stored there; it cannot be asked for its CPU time
    #[arg(long, value_name = "NAME=URL", value_delimiter = ',', env = "MICANITE_PEERS")]
    pub peer: Vec<Named>,
    /// Duration of a turn of each server, in seconds (default 1.5, quick 0.5)
    #[arg(long, value_parser = clap::value_parser!(f64))]
    pub seconds: Option<f64>,
    /// Data sets of the throughput: tiny, small, large, xlarge
    #[arg(long, value_delimiter = ',', default_value = "tiny,small,large")]
    pub datasets: Vec<String>,
    /// Items of 16 bytes; larger ones are fewer (default 4 Mi, quick 512 Ki)
    #[arg(long)]
    pub items: Option<u64>,
}

impl Options {
    /// Duration of a turn of each server.
    fn slice(&self) -> Duration {
        let default = if self.common.quick { 0.5 } else { 1.5 };
        Duration::from_secs_f64(self.seconds.unwrap_or(default).clamp(0.05, 3600.0))
    }

    /// Number of tiny items.
    fn items(&self) -> u64 {
        let default = if self.common.quick { 1 << 19 } else { 1 << 22 };
        self.items.unwrap_or(default)
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Measurement::new("evaluation");
    report.note(system::cpu_model());
    let of_sides = cpus::Sides::of_machine();
    let cpus = of_sides.first();
    if cpus[0] == cpus[1] {
        report.note("one CPU only: server and client share it");
    }
    // Real-time tasks are stopped for 50 ms of each second, which is half of a short turn, and all that a
    // high quantile would show.
    if !options.common.no_real_time {
        system::make_normal();
    }
    throughput::run(options, &cpus, &mut report)?;
    workloads::run(options, &cpus, &mut report)?;
    connections::run(options, &cpus, &mut report)?;
    inserts::run(options, &cpus, &mut report)?;
    parts::run(options, &cpus, &mut report)?;
    cores::run(options, &of_sides, &mut report)?;
    cores::run_shared(options, &of_sides, &mut report)?;
    modes::run(options, &of_sides, &mut report)?;
    curves::run(options, &cpus, &mut report)?;
    batches::run(options, &cpus, &mut report)?;
    prefetch::run(options, &cpus, &mut report)?;
    report.finish()
}
