//! GETs answered in the kernel, beside memcached over UDP, our kernel UDP port, our AF_XDP port and a
//! program that only reflects: one server core, one client core, the same client, in turns.

mod account;
mod document;
mod hippos;
mod injector;
mod latency;
pub(crate) mod load;
mod mixes;
pub(crate) mod napi;
mod pools;
mod reflector;
mod servers;
mod sides;
mod tiny;
mod usage;

use std::path::PathBuf;

use clap::Args;

use crate::harness::energy::Meters;
use crate::harness::namespace;
use crate::harness::peers::{self, Binaries};
use crate::harness::system;
use crate::results::measurement::Measurement;
use crate::{Common, Result, engine};
use servers::{Kind, Programs, Server};
use sides::Side;

pub(crate) use hippos::{SinkOptions, run_sink};
pub(crate) use reflector::{Options as ReflectOptions, run as run_reflect};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub binaries: Binaries,
    /// Items of kernel/tiny-16m (default 16 Mi, quick 4 Mi)
    #[arg(long)]
    pub items: Option<u64>,
    /// Resident items of Facebook's pools (default 2^20, quick 2^18)
    #[arg(long)]
    pub keys: Option<u64>,
    /// Write the tables of the run into this document, too
    #[arg(long)]
    pub document: Option<PathBuf>,
}

impl Options {
    fn keys(&self) -> u64 {
        let default = if self.common.quick { 1 << 18 } else { 1 << 20 };
        self.keys.unwrap_or(default)
    }
}

/// Items of the comparison of the memory's pages.
const BACKING_ITEMS: u64 = 4 << 20;

pub(crate) fn run(options: &Options) -> Result<()> {
    if !reflector::IS_BUILT {
        return Err("built without clang (apt-get install clang, then build again)".into());
    }
    let (mut report, cpus) = options.common.begin_servers("bench-kernel")?;
    if !Meters::of_machine().exist() {
        report.note("no energy: this machine shows no RAPL (/sys/class/powercap)");
    }
    namespace::leave_network()?;
    let mut bench = Bench {
        binaries: Programs {
            micanite: options.binaries.server.clone(),
            memcached: peers::memcacheds(&options.binaries.memcached)?.swap_remove(0),
            memory_mib: 0,
        },
        cpus,
        real_time: !options.common.no_real_time,
        started: 0,
    };
    tiny::run(options, &mut bench, &mut report);
    pools::run(options, &mut bench, &mut report);
    let done = mixes::run(options, &mut bench, &mut report);
    report.part(done);
    let account = account::run(options, &mut bench, &mut report);
    report.part(account);
    hippos::run(options, &mut bench, &mut report);
    let items = if options.common.quick { BACKING_ITEMS / 4 } else { BACKING_ITEMS };
    let backing = engine::backing(&options.common, items, &mut report);
    report.part(backing);
    report.finish()?;
    if let Some(path) = &options.document {
        document::write(path, &report)?;
    }
    report.complete()
}

/// Starts servers.
struct Bench {
    binaries: Programs,
    cpus: [usize; 2],
    /// Polling threads of the kernel get the real-time priority, as this process does.
    real_time: bool,
    /// Servers so far: each has a cable of its own.
    started: u8,
}

impl Bench {
    /// Starts those of some kinds that can be measured here, and notes which cannot.
    fn start(&mut self, kinds: &[Kind], memory_mib: u64, report: &mut Measurement) -> Result<Vec<Server>> {
        self.binaries.memory_mib = memory_mib;
        if self.real_time {
            system::make_real_time();
        }
        let mut servers = Vec::new();
        for kind in kinds {
            if let Some(why) = servers::missing(*kind, &self.binaries.micanite)? {
                let note = format!("not measured: {}: {why}", kind.name());
                if !report.notes().contains(&note) {
                    report.note(note);
                }
                continue;
            }
            self.started = self.started % 250 + 1;
            let server = Server::start(self.started, *kind, &self.binaries, self.cpus)?;
            for thread in &server.polling {
                // Without the permission no other thread has the priority either; the report notes that.
                match self.real_time {
                    true => system::make_other_real_time(*thread),
                    false => system::make_other_first(*thread),
                };
            }
            servers.push(server);
        }
        Ok(servers)
    }
}

/// Enters the sides of a case: ours beside each of the others, and each by itself.
fn record(
    case: &str,
    (metric, unit): (&str, &str),
    servers: &[Server],
    sides: &[Side],
    report: &mut Measurement,
) {
    let ours = |side: &&Side| servers[side.server].kind == Kind::KernelGet;
    if let Some(ours) = sides.iter().find(ours) {
        for side in sides.iter().filter(|side| side.server != ours.server) {
            let peer = match servers[side.server].kind {
                Kind::Memcached => "memcached",
                other => other.name(),
            };
            let (values, theirs) = (ours.per_core_second(), side.per_core_second());
            report.beside((case, metric, unit), &values, peer, &theirs);
        }
    }
    for side in sides {
        side.report(case, report);
        // Those that the stack serves keep the core busy by their threads alone.
        let others = side.other_work();
        if matches!(servers[side.server].kind, Kind::Memcached | Kind::Udp) && others > 0.1 {
            report.note(format!(
                "{case}/{}: the machine was not quiet: {:.0} % of the core's busy time was not of the \
                 server's threads",
                side.name,
                others * 100.0
            ));
        }
    }
}

/// The share of the hits that the kernel has answered, and what it has counted besides.
fn kernel_share(case: &str, servers: &[Server], report: &mut Measurement) -> Result<()> {
    const PREFIX: &str = "kernel_get_";
    for server in servers {
        if !matches!(server.kind, Kind::KernelGet | Kind::KernelNative) {
            continue;
        }
        server.process.resume();
        let counts = server.stats(PREFIX);
        server.process.pause();
        let counts = counts?;
        let is_hits = |(name, _): &&(String, u64)| name.strip_prefix(PREFIX) == Some("hits");
        let hits = counts.iter().find(is_hits);
        let (_, hits) = hits.ok_or("stats have no kernel_get_hits")?;
        let share = *hits as f64 / server.client.hits.max(1) as f64 * 100.0;
        if server.kind == Kind::KernelGet {
            report.value(case, "hits_in_kernel", "% of hits", &[share]);
        }
        let counted = counts.iter().filter(|(_, count)| *count > 0);
        let words: Vec<_> =
            counted.map(|(name, count)| format!("{} {count}", name.trim_start_matches(PREFIX))).collect();
        let (name, words) = (server.kind.name(), words.join(", "));
        report.note(format!("{case}/{name}, counted in the kernel: {words}"));
    }
    Ok(())
}
