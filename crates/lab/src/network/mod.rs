//! The native protocol beside memcached and beside a bare echo: one server core, one client core,
//! the same client, in turns.

mod cookies;
pub(crate) mod direction;
pub(crate) mod echo;
mod overload;
mod skew;
mod throughput;

use clap::Args;

use crate::harness::peers::{self, Binaries};
use crate::harness::servers::{Program, Server, Transport};
use crate::harness::system;
use crate::{Common, Result};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub binaries: Binaries,
    /// Items
    #[arg(long)]
    pub items: Option<u64>,
}

impl Options {
    fn items(&self) -> u64 {
        let default = if self.common.quick { 1 << 20 } else { 1 << 22 };
        self.items.unwrap_or(default)
    }
}

/// Tells whether all wanted cases have names that begin so.
fn only(common: &Common, name: &str) -> bool {
    !common.case.is_empty() && common.case.iter().all(|text| text.starts_with(name))
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let cpus = system::allowed_cpus();
    let (mut report, [server_cpu, _]) = options.common.begin_servers("net")?;
    // Neither client nor servers take part.
    if only(&options.common, direction::NAME) {
        direction::run(options, &cpus, &mut report)?;
        return report.finish();
    }
    let memory = ["-m", "2048"];
    let without = [&memory[..], &["--native-gro", "off"]].concat();
    let plain = Server::native(&options.binaries.server, &without, server_cpu)?;
    let offloaded = Server::native(&options.binaries.server, &memory, server_cpu)?;
    for server in [&plain, &offloaded] {
        server.fill(options.items())?;
    }
    let skewed = [(&plain, false), (&offloaded, true)];
    if only(&options.common, skew::NAME) {
        skew::run(options, skewed, &mut report)?;
        return report.finish();
    }
    let binary = &peers::memcacheds(&options.binaries.memcached)?[0];
    let program = Program::Memcached(binary);
    let memcached = Server::start(program, Transport::Udp, &memory, server_cpu)?;
    memcached.fill(options.items())?;
    let servers = throughput::Servers { plain: &plain, offloaded: &offloaded, memcached: &memcached };
    throughput::run(options, &servers, server_cpu, &mut report)?;
    cookies::run(options, &mut report);
    direction::run(options, &cpus, &mut report)?;
    let small_queue = [&memory[..], &["--native-queue", "208k"]].concat();
    let queueing = Server::native(&options.binaries.server, &small_queue, server_cpu)?;
    queueing.fill(options.items())?;
    overload::run(options, &queueing, &mut report)?;
    skew::run(options, skewed, &mut report)?;
    report.finish()
}
