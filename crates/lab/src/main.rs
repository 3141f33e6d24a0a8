//! Benchmarks of Micanite, each beside a named peer or limit, interleaved in one run.
//!
//! `micanite-lab engine` measures the engine alone, `micanite-lab server` the server beside
//! memcached. Each prints a table and writes `target/bench/<target>.json` and `.svg`; what is
//! inside the loops and what the fields mean is in `docs/benchmarks/README.md`.

mod allocator;
mod bed;
mod bypass;
mod client;
mod document;
mod engine;
mod evaluation;
mod figures;
mod frames;
mod huge_pages;
mod kernel;
mod launch;
mod limits;
mod measurement;
mod network;
mod packets;
mod parts;
mod popularity;
mod report;
mod server;
mod statistics;
mod streams;
mod system;
mod tables;
mod traces;

use clap::{Args, Parser, Subcommand};

/// What a benchmark can fail with: a sentence for the person who runs it.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(
    name = "micanite-lab",
    version,
    about = "Benchmarks of Micanite beside its peers"
)]
struct CommandLine {
    #[command(subcommand)]
    target: Target,
}

#[derive(Subcommand)]
enum Target {
    /// The engine alone, beside hashbrown and quick_cache, on one core
    Engine(engine::Options),
    /// The engine against the number of tiny items, beside hashbrown
    Items(engine::items::Options),
    /// The server beside memcached: one worker on one core, the client on the other
    Server(server::Options),
    /// What the memory allows one core, and prototypes of the lookup beside that
    Limits(limits::Options),
    /// The native protocol beside memcached and a bare echo of the same packets
    Net(network::Options),
    /// Ports around the kernel beside a bare echo, the kernel's UDP and memcached
    Bypass(bypass::Options),
    /// GETs answered in the kernel beside memcached, our other ports and a bare reflector
    Kernel(kernel::Options),
    /// Our port over our engine, beside the same port over other tables
    Tables(tables::Options),
    /// Misses of real requests: simulated, and of live servers beside memcached
    Traces(traces::Options),
    /// Streams, by epoll and by io_uring, beside memcached and Redis
    Streams(streams::Options),
    /// What the report needs of servers: throughput, latency, batches, cores, connections, parts
    Evaluation(evaluation::Options),
    /// Runs the evaluation and writes one page with figures and the raw data
    Report(report::Options),
    /// Sends every datagram back
    #[command(hide = true)]
    Echo(network::echo::Options),
    /// Serves a port only so far: the bare echo and others
    #[command(hide = true)]
    Stage(bypass::StageOptions),
    /// Sends every datagram of an interface back by an XDP program
    #[command(hide = true)]
    Reflect(kernel::ReflectOptions),
    /// Serves GETs and SETs of the native protocol from a table
    #[command(hide = true)]
    Table(tables::ServerOptions),
    /// Starts a server in a network of its own
    #[command(hide = true)]
    Inside(bed::InsideOptions),
    /// Starts a server pinned and bound to the life of the benchmark
    #[command(hide = true)]
    Launch(launch::Options),
}

/// What every target understands.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Fewer cases, fewer and shorter rounds: under three minutes
    #[arg(long)]
    pub quick: bool,
    /// Only cases whose name contains this, or one of these
    #[arg(long, value_name = "TEXT")]
    pub case: Vec<String>,
    /// Interleaved rounds (default 7, quick 3)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: Option<u16>,
    /// Do not ask for a real-time priority: for a machine that is in use
    #[arg(long)]
    pub no_real_time: bool,
}

impl Common {
    pub fn rounds(&self) -> usize {
        usize::from(self.rounds.unwrap_or(if self.quick { 3 } else { 7 }))
    }

    pub fn wants(&self, case: &str) -> bool {
        self.case.is_empty() || self.case.iter().any(|text| case.contains(text.as_str()))
    }

    /// Gives this process a real-time priority, which servers started later inherit, or notes
    /// why not.
    pub fn take_priority(&self, report: &mut measurement::Measurement) {
        if self.no_real_time {
            report.note("no real-time priority: not asked for; figures vary more");
        } else if !system::make_real_time() {
            report.note("no real-time priority: not permitted; figures vary more");
        }
    }
}

fn main() {
    let result = match CommandLine::parse().target {
        Target::Engine(options) => engine::run(&options),
        Target::Items(options) => engine::items::run(&options),
        Target::Server(options) => server::run(&options),
        Target::Limits(options) => limits::run(&options),
        Target::Net(options) => network::run(&options),
        Target::Kernel(options) => kernel::run(&options),
        Target::Reflect(options) => kernel::run_reflect(&options),
        Target::Streams(options) => streams::run(&options),
        Target::Traces(options) => traces::run(&options),
        Target::Tables(options) => tables::run(&options),
        Target::Table(options) => tables::run_server(&options),
        Target::Evaluation(options) => evaluation::run(&options),
        Target::Report(options) => report::run(&options),
        Target::Echo(options) => network::echo::run(&options),
        Target::Bypass(options) => bypass::run(&options),
        Target::Stage(options) => bypass::run_stage(&options),
        Target::Inside(options) => bed::run_inside(&options),
        Target::Launch(options) => launch::run(&options),
    };
    if let Err(error) = result {
        eprintln!("micanite-lab: {error}");
        std::process::exit(1);
    }
}
