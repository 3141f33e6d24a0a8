//! Ports around the kernel's network stack, beside a bare echo on the same port, the kernel's UDP
//! and memcached: one server core, one client core, the same client, in turns.

mod document;
mod latency;
mod parts;
mod samples;
pub(crate) mod sections;
mod servers;
mod sides;
mod stage;
mod throughput;

use std::path::PathBuf;

use clap::Args;

use crate::harness::namespace;
use crate::harness::peers::{self, Binaries};
use crate::{Common, Result};
use servers::{Medium, Program, Server};
use stage::Stage;

pub(crate) use stage::{Options as StageOptions, run as run_stage};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub binaries: Binaries,
    /// Items
    #[arg(long, default_value_t = 1 << 24)]
    pub items: u64,
    /// Write the tables of the run into this document, too
    #[arg(long)]
    pub document: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let (mut report, cpus) = options.common.begin_servers("bench-bypass")?;
    let has_network = match namespace::leave_network() {
        Ok(()) => true,
        Err(error) => {
            report.note(format!("skipped: xdp and kernel UDP: {error}"));
            false
        }
    };
    let has_dpdk = cfg!(feature = "dpdk");
    if !has_dpdk {
        report.note("skipped: memif: built without DPDK");
    }
    let mut servers = Servers::start(options, cpus[0], has_network, has_dpdk)?;
    throughput::run(options, &mut servers, &cpus, &mut report);
    let done = latency::run(options, &mut servers, &mut report);
    report.part(done);
    // A port of ours that was closed is not opened again: those that follow come besides.
    if has_dpdk {
        let done = parts::run(options, cpus[0], &mut report);
        report.part(done);
    }
    drop(servers);
    report.finish()?;
    if let Some(path) = &options.document {
        document::write(path, &report)?;
    }
    report.complete()
}

/// All that run, and where each is among them.
struct Servers {
    all: Vec<Server>,
    /// Numbers of our server on the AF_XDP port and of the bare echo on it.
    xdp: Option<[usize; 2]>,
    memif: Option<[usize; 2]>,
    /// Numbers of our server behind the kernel's UDP and of memcached.
    kernel: Option<[usize; 2]>,
}

impl Servers {
    /// Starts and fills those that a wanted case needs.
    fn start(options: &Options, cpu: usize, has_network: bool, has_dpdk: bool) -> Result<Self> {
        let mut servers = Self { all: Vec::new(), xdp: None, memif: None, kernel: None };
        let (ours, echo) =
            (Program::Bypass(&options.binaries.server), Program::Stage { stage: Stage::Echo, items: 0 });
        let mut start = |medium, programs: [Program<'_>; 2], needs_peer: bool| -> Result<_> {
            let mut pair = [0; 2];
            for (place, program) in pair.iter_mut().zip(programs).take(1 + usize::from(needs_peer)) {
                *place = servers.all.len();
                let number = servers.all.len() as u8 + 1;
                let mut server = Server::start(number, medium, program, cpu)?;
                server.fill(options.items)?;
                server.process.pause();
                servers.all.push(server);
            }
            Ok(Some(pair))
        };
        let needs = |port: &str| {
            let is_single = throughput::is_wanted(options, port);
            (
                is_single,
                is_single || throughput::has_batches(options, port) || latency::is_wanted(options, port),
            )
        };
        let is_beside_others = ["xdp", "memif"].map(|port| needs(port).0).contains(&true);
        if has_network && (is_beside_others || needs("kernel-udp").1) {
            let binary = match is_beside_others {
                true => peers::memcacheds(&options.binaries.memcached)?.swap_remove(0),
                false => PathBuf::new(),
            };
            let kernel = [Program::Kernel(&options.binaries.server), Program::Memcached(&binary)];
            servers.kernel = start(Medium::Veth, kernel, is_beside_others)?;
        }
        if let (true, (is_single, true)) = (has_network, needs("xdp")) {
            servers.xdp = start(Medium::Veth, [ours, echo], is_single)?;
        }
        if let (true, (is_single, true)) = (has_dpdk, needs("memif")) {
            servers.memif = start(Medium::Memif, [ours, echo], is_single)?;
        }
        Ok(servers)
    }
}
