//! Benchmarks of Micanite, each beside a named peer or limit, interleaved in one run.
//!
//! `micanite-lab engine` measures the engine alone, `micanite-lab evaluation` whole servers, `micanite-lab
//! report` makes one page of most. Each prints a table and writes `target/bench/<target>.json` and `.svg`;
//! what is inside the loops and what the fields mean is in `docs/benchmarks/README.md`.

mod bypass;
mod engine;
mod evaluation;
mod fabric;
mod generator;
mod harness;
mod kernel;
mod limits;
mod local;
mod network;
mod report;
mod results;
mod tables;
mod traces;

use clap::{Args, Parser, Subcommand};

use harness::cpus::Sides;
use harness::system;
use results::measurement::Measurement;

/// The error is a sentence for the person who runs the benchmark.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(name = "micanite-lab", version, about = "Benchmarks of Micanite beside its peers")]
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
    /// Limits of the memory for one core, and prototypes of the lookup beside that
    Limits(limits::Options),
    /// The native protocol: request direction and skew
    Net(network::Options),
    /// Ports around the kernel beside a bare echo, the kernel's UDP and memcached
    Bypass(bypass::Options),
    /// GETs answered in the kernel beside memcached, our other ports and a bare reflector
    Kernel(kernel::Options),
    /// One-sided reads over libfabric: InnerCache's workloads by three ways of reading
    Fabric(fabric::Options),
    /// Readers on the same host beside the engine's own GETs and memcached over its Unix socket
    Local(local::Options),
    /// This machine by `micanite plan` beside `micanite load`, and the paper's figures beside the model's
    Plan(report::plan::Options),
    /// Our port over our engine, beside the same port over other tables
    Tables(tables::Options),
    /// Misses of real requests: simulated, and of live servers beside memcached
    Traces(traces::Options),
    /// Whole servers beside memcached and Redis, loaded by `micanite load`
    Evaluation(evaluation::Options),
    /// Runs the evaluation and writes one page with figures and the raw data
    Report(report::Options),
    /// Serves a port only so far: the bare echo and others
    #[command(hide = true)]
    Stage(bypass::StageOptions),
    /// Sends every message of a fabric back
    #[command(hide = true)]
    Pong(fabric::PongOptions),
    /// Sends every datagram of an interface back by an XDP program
    #[command(hide = true)]
    Reflect(kernel::ReflectOptions),
    /// Counts and drops datagrams at a place in the stack
    #[command(hide = true)]
    Sink(kernel::SinkOptions),
    /// Serves GETs and SETs of the native protocol from a table
    #[command(hide = true)]
    Table(tables::ServerOptions),
    /// Starts a server in a network of its own
    #[command(hide = true)]
    Inside(harness::namespace::InsideOptions),
    /// Starts a server pinned and bound to the life of the benchmark
    #[command(hide = true)]
    Launch(harness::launch::Options),
}

/// Options of every target.
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

    /// Begins the measurement of a target, with the CPUs of its server and of its client: this thread is
    /// pinned to the client's, at a real-time priority if that is permitted. Servers that are started later
    /// inherit the priority.
    pub fn begin(&self, target: &'static str) -> Result<(Measurement, [usize; 2])> {
        let mut report = Measurement::new(target);
        report.note(system::cpu_model());
        if self.no_real_time {
            report.note("no real-time priority: not asked for; figures vary more");
        } else if !system::make_real_time() {
            report.note("no real-time priority: not permitted; figures vary more");
        }
        let [server_cpu, client_cpu] = Sides::of_machine().first();
        system::pin(client_cpu)?;
        Ok((report, [server_cpu, client_cpu]))
    }

    /// Begins the measurement of a target with servers.
    pub fn begin_servers(&self, target: &'static str) -> Result<(Measurement, [usize; 2])> {
        let (mut report, [server_cpu, client_cpu]) = self.begin(target)?;
        if server_cpu == client_cpu {
            report.note("one CPU only: server and client share it");
        }
        Ok((report, [server_cpu, client_cpu]))
    }
}

/// The command line is wrong: as `micanite` ends then.
const EXIT_USAGE: i32 = 64;

fn main() {
    let line = CommandLine::try_parse().unwrap_or_else(|error| {
        let _ = error.print();
        std::process::exit(if error.use_stderr() { EXIT_USAGE } else { 0 })
    });
    let result = match line.target {
        Target::Engine(options) => engine::run(&options),
        Target::Items(options) => engine::items::run(&options),
        Target::Limits(options) => limits::run(&options),
        Target::Net(options) => network::run(&options),
        Target::Kernel(options) => kernel::run(&options),
        Target::Fabric(options) => fabric::run(&options),
        Target::Local(options) => local::run(&options),
        Target::Pong(options) => fabric::run_pong(&options),
        Target::Reflect(options) => kernel::run_reflect(&options),
        Target::Sink(options) => kernel::run_sink(&options),
        Target::Traces(options) => traces::run(&options),
        Target::Plan(options) => report::plan::run(&options),
        Target::Tables(options) => tables::run(&options),
        Target::Table(options) => tables::run_server(&options),
        Target::Evaluation(options) => evaluation::run(&options),
        Target::Report(options) => report::run(&options),
        Target::Bypass(options) => bypass::run(&options),
        Target::Stage(options) => bypass::run_stage(&options),
        Target::Inside(options) => harness::namespace::run_inside(&options),
        Target::Launch(options) => harness::launch::run(&options),
    };
    if let Err(error) = result {
        eprintln!("micanite-lab: {error}");
        std::process::exit(1);
    }
}
