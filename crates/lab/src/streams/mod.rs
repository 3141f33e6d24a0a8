//! Streams: the server by epoll and by io_uring beside memcached and Redis, over TCP and over Unix
//! sockets. One worker pinned to one core; the client, `micanite load` for all of them, on the other.
//! A server-core-second is CPU time of the server's process, user and system.

mod cases;
mod idle;
mod latency;
mod load;
pub(crate) mod servers;
mod throughput;

use std::path::PathBuf;

use clap::Args;
use micanite_net::Uring;

use crate::measurement::Measurement;
use crate::{Common, Result, system};
use servers::{Kind, Server, Transport};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Micanite's binary: the server, and the client of all servers
    #[arg(long, default_value_os_t = crate::system::target("release/micanite"))]
    pub server: PathBuf,
    /// memcached's binary: may be given several times (default: what `make bench-streams`
    /// unpacked, else the one of the search path)
    #[arg(long)]
    pub memcached: Vec<PathBuf>,
    /// Redis's binary
    #[arg(long, default_value_os_t = crate::system::target("peers/bin/redis-server"))]
    pub redis: PathBuf,
    /// Connections that do nothing
    #[arg(long, default_value_t = 10_000)]
    pub idle: usize,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Measurement::new("bench-streams");
    report.note(system::cpu_model());
    let cpus = system::allowed_cpus();
    let (server_cpu, client_cpu) = (cpus[0], cpus[cpus.len() - 1]);
    if server_cpu == client_cpu {
        report.note("one CPU only: server and client share it");
    }
    let kinds = kinds(options, &mut report)?;
    options.common.take_priority(&mut report);
    for transport in Transport::ALL {
        let servers = start(options, &kinds, transport, server_cpu)?;
        throughput::run(options, &servers, client_cpu, &mut report)?;
    }
    // Real-time tasks are stopped for 50 ms of each second, which latencies would show.
    system::make_normal();
    for transport in Transport::ALL {
        let servers = start(options, &kinds, transport, server_cpu)?;
        latency::run(options, &servers, client_cpu, &mut report)?;
    }
    idle::run(options, &kinds, server_cpu, &mut report)?;
    report.finish()
}

/// What is measured, ours by epoll first: the others stand beside it.
fn kinds(options: &Options, report: &mut Measurement) -> Result<Vec<Kind>> {
    let mut kinds = vec![Kind::Micanite("epoll")];
    match Uring::probe() {
        Ok(()) => kinds.push(Kind::Micanite("io_uring")),
        Err(error) => report.note(format!("not by io_uring: {error}")),
    }
    let memcacheds = crate::server::peers::memcacheds(&options.memcached)?;
    kinds.extend(memcacheds.into_iter().map(Kind::Memcached));
    if options.redis.exists() {
        kinds.push(Kind::Redis(options.redis.clone()));
    } else {
        report.note("not beside Redis: `make bench-streams` unpacks it");
    }
    Ok(kinds)
}

fn start(
    options: &Options,
    kinds: &[Kind],
    transport: Transport,
    cpu: usize,
) -> Result<Vec<Server>> {
    let flags = servers::Flags {
        connections_max: 1024,
        memory_mib: 1024,
    };
    kinds
        .iter()
        .map(|kind| Server::start(kind, &options.server, transport, &flags, cpu))
        .collect()
}
