//! The command line of `micanite plan`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::parse;

/// Options of `micanite plan`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PlanOptions {
    /// A part of the plan that stands alone.
    #[command(subcommand)]
    pub part: Option<Part>,

    /// Requests per second of all clients.
    #[arg(long, value_name = "OPS", value_parser = parse::number, help_heading = "Load")]
    pub rate: Option<f64>,
    /// 95th percentile of the latency that is wanted: 100us, 2ms.
    #[arg(
        long, value_name = "TIME", value_parser = parse::microseconds, default_value = "1ms",
        help_heading = "Load"
    )]
    pub p95: f64,
    /// Take sizes, skew, mix, rate and misses from a trace, in any format of micanite trace.
    #[arg(long, value_name = "TRACE", conflicts_with = "from_server", help_heading = "Load")]
    pub from: Option<PathBuf>,
    /// Take items, sizes, mix and rate from a running server's statistics: HOST:PORT.
    #[arg(long, value_name = "ADDRESS", help_heading = "Load")]
    pub from_server: Option<String>,
    /// Items [default: 1m].
    #[arg(long, value_name = "N", value_parser = parse::count, help_heading = "Load")]
    pub items: Option<u64>,
    /// Bytes of a key, on average [default: 8].
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes, help_heading = "Load")]
    pub key: Option<f64>,
    /// Bytes of a value, on average [default: 8].
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes, help_heading = "Load")]
    pub value: Option<f64>,
    /// Percentage of the requests that read [default: 95].
    #[arg(long, value_name = "PERCENT", value_parser = parse::percent, help_heading = "Load")]
    pub get: Option<f64>,
    /// Exponent of Zipf's law; 0 is uniform [default: 0].
    #[arg(long, value_name = "EXPONENT", value_parser = parse::number, help_heading = "Load")]
    pub zipf: Option<f64>,
    /// Requests per datagram, or of a pipeline.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub batch: u32,
    /// Datagrams that come at once; 1: independently of each other.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub burst: u32,
    /// Requests per second of one client, for the delay of its batches.
    #[arg(
        long, value_name = "OPS", value_parser = parse::number, default_value = "1m", help_heading = "Load"
    )]
    pub client_rate: f64,
    /// Servers that a client sends to [default: those of the plan].
    #[arg(long, value_name = "N", value_parser = parse::number, help_heading = "Load")]
    pub fan_out: Option<f64>,

    /// Machine: this, paper-lab, paper-1, paper-2, paper-4 or FILE.toml.
    #[arg(long, value_name = "NAME", default_value = "this", help_heading = "Machine")]
    pub machine: String,
    /// Port that requests come by: native (datagrams), stream (memcached's protocol over TCP), engine (none:
    /// the engine alone).
    #[arg(long, value_name = "PORT", default_value = "native", help_heading = "Machine")]
    pub port: String,
    /// Sockets instead of the machine's.
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub sockets: Option<u32>,
    /// Cores per socket instead of the machine's.
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub cores: Option<u32>,
    /// Threads of a core that serve, 1 or 2 (SMT), instead of the machine's.
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub smt: Option<u32>,
    /// Measure this machine's costs first, for three quarters of a minute, and keep them in a file.
    #[arg(long, help_heading = "Machine")]
    pub calibrate: bool,
    /// File of the calibration [default: micanite/machine.toml in the user's configuration].
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub calibration: Option<PathBuf>,
    /// Print the machine as TOML, for a file of one's own, and end.
    #[arg(long, help_heading = "Machine")]
    pub print_machine: bool,

    /// Requests that are simulated for each rate.
    #[arg(
        long, value_name = "N", value_parser = parse::count, default_value = "300k",
        help_heading = "Simulation"
    )]
    pub requests: u64,
    /// The same seed gives the same plan.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Simulation")]
    pub seed: u64,

    /// Write the plan as JSON; - is standard output, without the text.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write tables as CSV to this directory.
    #[arg(long, value_name = "DIRECTORY", help_heading = "Output")]
    pub csv: Option<PathBuf>,
    /// Draw figures to this directory.
    #[arg(long, value_name = "DIRECTORY", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// No progress.
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

/// Parts of the plan that stand alone.
#[derive(Clone, Debug, Subcommand)]
pub enum Part {
    /// Load of the hottest of some partitions.
    Hottest(HottestOptions),
    /// Delay of requests that a client holds back until a datagram is full.
    Batching(BatchingOptions),
    /// The published figures of MICA and of its billion-request platform beside the model's.
    Paper(PaperOptions),
}

/// Options of `micanite plan hottest`.
#[derive(Args, Clone, Debug)]
pub struct HottestOptions {
    /// Partitions.
    #[arg(long, value_name = "P", value_parser = parse::count)]
    pub partitions: u64,
    /// Keys.
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub items: u64,
    /// Exponent of Zipf's law.
    #[arg(long, value_name = "S", value_parser = parse::number, default_value = "0.99")]
    pub zipf: f64,
    /// Seed of the hashes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `micanite plan batching`.
#[derive(Args, Clone, Debug)]
pub struct BatchingOptions {
    /// Requests per second of the client.
    #[arg(long, value_name = "R", value_parser = parse::number)]
    pub client_rate: f64,
    /// Servers that it sends to.
    #[arg(long, value_name = "F", value_parser = parse::number, default_value = "1")]
    pub fan_out: f64,
    /// Partitions of a server.
    #[arg(long, value_name = "P", value_parser = parse::number, default_value = "1")]
    pub partitions: f64,
    /// Requests per datagram.
    #[arg(long, value_name = "B")]
    pub batch: u32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `micanite plan paper`.
#[derive(Args, Clone, Debug)]
pub struct PaperOptions {
    /// Requests that are simulated for each rate.
    #[arg(long, value_name = "N", value_parser = parse::count, default_value = "20m")]
    pub requests: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
