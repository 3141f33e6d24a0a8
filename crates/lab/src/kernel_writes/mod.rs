//! SETs over TCP: what those could gain that are answered in the kernel, measured by a program that
//! answers and does not store, beside a bare echo, our server and memcached. One server core with
//! threaded NAPI, one client core, the same client, in turns.

mod cases;
mod core_time;
mod document;
mod latency;
mod load;
mod program;
mod responder;
mod servers;
mod throughput;

use std::path::PathBuf;

use clap::Args;
use micanite_net::Uring;

use crate::report::Report;
use crate::server::peers;
use crate::{Common, Result, bed, system};
use responder::Answer;
use servers::{Kind, Server};

pub(crate) use responder::{Options as ResponderOptions, run as run_responder};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Micanite's binary: the server, and the client of all servers
    #[arg(long, default_value_os_t = crate::system::target("release/micanite"))]
    pub server: PathBuf,
    /// memcached's binary (default: what `make bench-kernel` unpacked, else the search path's)
    #[arg(long)]
    pub memcached: Vec<PathBuf>,
    /// Write the tables of the run into this document, too
    #[arg(long)]
    pub document: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Report::new("bench-kernel-writes");
    report.note(system::cpu_model());
    let cpus = system::allowed_cpus();
    let cpus = [cpus[0], cpus[cpus.len() - 1]];
    if cpus[0] == cpus[1] {
        report.note("one CPU only: server and client share it");
    }
    system::favour_session(true);
    bed::leave_network()?;
    let kinds = kinds(options, &mut report)?;
    let mut servers = Vec::new();
    for (number, kind) in (1..).zip(&kinds) {
        servers.push(Server::start(number, kind, &options.server, cpus)?);
    }
    throughput::run(options, &servers, cpus, &mut report)?;
    latency::run(options, &servers, cpus, &mut report)?;
    drop(servers);
    report.finish()?;
    if let Some(path) = &options.document {
        document::write(path, &report)?;
    }
    Ok(())
}

/// What is measured; the others stand beside the first.
fn kinds(options: &Options, report: &mut Report) -> Result<Vec<Kind>> {
    let mut kinds = Vec::new();
    if program::IS_BUILT {
        kinds.extend([Answer::KernelAlone, Answer::Kernel].map(Kind::Responder));
    } else {
        report.note("skipped: in the kernel: built without clang");
    }
    kinds.extend([Kind::Responder(Answer::Epoll), Kind::Micanite("epoll")]);
    match Uring::probe() {
        Ok(()) => kinds.push(Kind::Micanite("io_uring")),
        Err(error) => report.note(format!("not by io_uring: {error}")),
    }
    let memcacheds = peers::memcacheds(&options.memcached)?;
    kinds.extend(memcacheds.into_iter().take(1).map(Kind::Memcached));
    Ok(kinds)
}
