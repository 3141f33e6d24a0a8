//! The server beside memcached: one worker pinned to one core, the client on the other, the same
//! load in turns. A server-core-second is CPU time of the server's process, user and system.

mod cases;
mod peers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::client::{Client, Mix, Workload};
use crate::popularity::Popularity;
use crate::report::Report;
use crate::{Common, Result, system};
use cases::Case;
use peers::{Peer, Priority};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Micanite's binary
    #[arg(long, default_value = "target/release/micanite")]
    pub server: PathBuf,
    /// memcached's binary: may be given several times
    #[arg(long, default_values = ["target/peers/bin/memcached", "target/peers/bin/memcached-current"])]
    pub memcached: Vec<PathBuf>,
}

/// Items of the side-by-side cases; all fit.
const ITEMS: u64 = 1 << 20;
/// Items of the prefetch case: far more than the caches of the CPU hold.
const MANY_ITEMS: u64 = 16 << 20;

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Report::new("server");
    report.note(system::cpu_model());
    let cpus = system::allowed_cpus();
    let (server_cpu, client_cpu) = (cpus[0], cpus[cpus.len() - 1]);
    if server_cpu == client_cpu {
        report.note("one CPU only: server and client share it");
    }
    let real_time = system::may_be_real_time();
    if !real_time {
        report.note("no real-time priority: not permitted; figures vary more");
    }
    system::pin(client_cpu)?;
    let priority = Priority {
        cpu: server_cpu,
        real_time,
    };
    let cases = cases::all(&options.common);
    if !cases.is_empty() {
        side_by_side(options, &cases, priority, &mut report)?;
    }
    let case = "multi-get of 100 over 16 Mi items, prefetch";
    if options.common.wants(case) {
        prefetch(options, case, priority, &mut report)?;
    }
    report.finish()
}

fn side_by_side(
    options: &Options,
    cases: &[Case],
    priority: Priority,
    report: &mut Report,
) -> Result<()> {
    for binary in &options.memcached {
        if !binary.exists() {
            report.note(format!(
                "not beside {}: there is no such file",
                binary.display()
            ));
            continue;
        }
        for flags in [vec![], vec!["-R", "64"]] {
            let cases: Vec<_> = cases
                .iter()
                .filter(|case| case.wants_peer(&flags))
                .collect();
            if !cases.is_empty() {
                beside_peer(options, (binary, &flags), &cases, priority, report)?;
            }
        }
    }
    Ok(())
}

fn beside_peer(
    options: &Options,
    (binary, flags): (&Path, &[&str]),
    cases: &[&Case],
    priority: Priority,
    report: &mut Report,
) -> Result<()> {
    let ours = Peer::micanite(
        &options.server,
        &["-m", "2048", "--item-size", "48"],
        priority,
    )?;
    let theirs = Peer::memcached(binary, flags, priority)?;
    let name = [&[theirs.version.as_str()], flags].concat().join(" ");
    let mut filled_bytes = 0;
    for case in cases {
        if case.value_bytes != filled_bytes {
            for peer in [&ours, &theirs] {
                fill(peer, ITEMS, case.value_bytes)?;
            }
            filled_bytes = case.value_bytes;
        }
        beside(case, [&ours, &theirs], &name, options, report)?;
    }
    Ok(())
}

/// Stores every item.
fn fill(peer: &Peer, items: u64, value_bytes: usize) -> Result<()> {
    let items = std::sync::Arc::new((0..items as u32).collect::<Vec<_>>());
    let count = items.len() as u64;
    let mix = Mix::Single { set_percent: 100 };
    let workload = Workload {
        mix,
        pipeline: 64,
        value_bytes,
        items,
    };
    let mut client = Client::connect(peer.address, 1, &workload)?;
    let mut stored = 0;
    while stored < count {
        eprint!("\rfilling {}: {} %   ", peer.name, stored * 100 / count);
        stored += client.run(Duration::from_millis(200))?.operations;
    }
    eprintln!();
    Ok(())
}

/// Rates of the rounds of one server.
#[derive(Default)]
struct Rounds {
    per_second: Vec<f64>,
    per_core_second: Vec<f64>,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    misses: u64,
    operations: u64,
}

impl Rounds {
    /// One slice of load.
    fn add(&mut self, peer: &Peer, client: &mut Client, duration: Duration) -> Result<()> {
        let before_ns = system::cpu_time_ns(peer.pid())?;
        let mut tally = client.run(duration)?;
        let cpu_s = (system::cpu_time_ns(peer.pid())? - before_ns) as f64 / 1e9;
        let operations = tally.operations as f64;
        self.per_second
            .push(operations / tally.elapsed.as_secs_f64());
        self.per_core_second.push(operations / cpu_s);
        self.p50_us.push(tally.latency_us(0.5));
        self.p99_us.push(tally.latency_us(0.99));
        self.misses += tally.misses;
        self.operations += tally.operations;
        Ok(())
    }
}

fn beside(
    case: &Case,
    peers: [&Peer; 2],
    peer_name: &str,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let items = std::sync::Arc::new(case.popularity.draw(ITEMS, 1 << 20, 3));
    let Case {
        mix,
        pipeline,
        value_bytes,
        ..
    } = *case;
    let workload = Workload {
        mix,
        pipeline,
        value_bytes,
        items,
    };
    let connect = |peer: &Peer| Client::connect(peer.address, case.connections, &workload);
    let mut clients = [connect(peers[0])?, connect(peers[1])?];
    let duration = slice_duration(&options.common);
    let mut rounds = [Rounds::default(), Rounds::default()];
    for round in 0..options.common.rounds() {
        for ((peer, client), rounds) in peers.iter().zip(&mut clients).zip(&mut rounds) {
            if round == 0 {
                client.run(duration / 4)?;
            }
            rounds.add(peer, client, duration)?;
        }
        eprint!(
            "\r{} beside {peer_name}, round {} of {}   ",
            case.name,
            round + 1,
            options.common.rounds()
        );
    }
    eprintln!();
    let [ours, theirs] = rounds;
    for (peer, rounds) in peers.iter().zip([&ours, &theirs]) {
        if rounds.misses * 10 > rounds.operations {
            return Err(format!(
                "{}: {} of {} missing",
                peer.name, rounds.misses, rounds.operations
            )
            .into());
        }
    }
    let name = case.name;
    report.beside(
        (name, "per server-core-second", "ops"),
        &ours.per_core_second,
        peer_name,
        &theirs.per_core_second,
    );
    report.beside(
        (name, "throughput", "ops/s"),
        &ours.per_second,
        peer_name,
        &theirs.per_second,
    );
    report.beside(
        (name, "latency p50", "us"),
        &ours.p50_us,
        peer_name,
        &theirs.p50_us,
    );
    report.beside(
        (name, "latency p99", "us"),
        &ours.p99_us,
        peer_name,
        &theirs.p99_us,
    );
    Ok(())
}

fn slice_duration(common: &Common) -> Duration {
    Duration::from_millis(if common.quick { 500 } else { 1500 })
}

/// Two of our servers, one with its prefetching off.
fn prefetch(options: &Options, case: &str, priority: Priority, report: &mut Report) -> Result<()> {
    let flags = ["-m", "2048", "--item-size", "24"];
    let on = Peer::micanite(&options.server, &flags, priority)?;
    let off_flags: Vec<_> = flags.iter().copied().chain(["--no-prefetch"]).collect();
    let off = Peer::micanite(&options.server, &off_flags, priority)?;
    for peer in [&on, &off] {
        fill(peer, MANY_ITEMS, 8)?;
    }
    let items = std::sync::Arc::new(Popularity::Uniform.draw(MANY_ITEMS, 4 << 20, 3));
    let workload = Workload {
        mix: Mix::MultiGet,
        pipeline: 100,
        value_bytes: 8,
        items,
    };
    let mut with = Client::connect(on.address, 4, &workload)?;
    let mut without = Client::connect(off.address, 4, &workload)?;
    let duration = slice_duration(&options.common);
    let (mut ours, mut theirs) = (Rounds::default(), Rounds::default());
    with.run(duration / 4)?;
    without.run(duration / 4)?;
    for round in 0..options.common.rounds() {
        ours.add(&on, &mut with, duration)?;
        theirs.add(&off, &mut without, duration)?;
        eprint!("\r{case}, round {}   ", round + 1);
    }
    eprintln!();
    let (ours, theirs) = (&ours.per_core_second, &theirs.per_core_second);
    report.beside(
        (case, "keys per server-core-second", "ops"),
        ours,
        "prefetch off",
        theirs,
    );
    Ok(())
}
