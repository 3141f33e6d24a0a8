//! The server beside memcached: one worker pinned to one core, the client on the other, the same
//! load in turns. A server-core-second is CPU time of the server's process, user and system.

mod cases;
mod overhead;
pub(crate) mod peers;
mod prefetch;
mod recording;
mod rounds;
mod side_by_side;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::client::{Client, KEY_BYTES_MAX, Mix, Workload};
use crate::measurement::Measurement;
use crate::{Common, Result, system};
use peers::Peer;

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Micanite's binary
    #[arg(long, default_value_os_t = crate::system::target("release/micanite"))]
    pub server: PathBuf,
    /// memcached's binary: may be given several times (default: what `make bench-server`
    /// unpacked, else the one of the search path)
    #[arg(long)]
    pub memcached: Vec<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Measurement::new("server");
    report.note(system::cpu_model());
    let cpus = system::allowed_cpus();
    let (server_cpu, client_cpu) = (cpus[0], cpus[cpus.len() - 1]);
    if server_cpu == client_cpu {
        report.note("one CPU only: server and client share it");
    }
    options.common.take_priority(&mut report);
    system::pin(client_cpu)?;
    side_by_side::run(options, server_cpu, &mut report)?;
    overhead::run(options, server_cpu, &mut report)?;
    prefetch::run(options, server_cpu, &mut report)?;
    recording::run(options, server_cpu, &mut report)?;
    report.finish()
}

/// Stores the items 0 to `items - 1`, which is a multiple of 64.
fn fill(peer: &Peer, items: u64, key_bytes: usize, value_bytes: usize) -> Result<()> {
    const STEP: u64 = 1 << 18;
    let workload = Workload {
        mix: Mix::Single { set_percent: 100 },
        pipeline: 64,
        key_bytes,
        value_bytes,
        items: Arc::new((0..items as u32).collect()),
    };
    let mut client = Client::connect(peer.address, 1, &workload)?;
    for stored in (0..items).step_by(STEP as usize) {
        eprint!("\rfilling {}: {} %   ", peer.name, stored * 100 / items);
        client.run_operations(STEP.min(items - stored))?;
    }
    eprintln!();
    Ok(())
}

/// Stores the items 0 to `items - 1` under keys of 16 bytes.
fn fill_long_keys(peer: &Peer, items: u64, value_bytes: usize) -> Result<()> {
    fill(peer, items, KEY_BYTES_MAX, value_bytes)
}
