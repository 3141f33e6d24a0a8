//! The command line of `micanite load`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use micanite_client::{PortName, PortOptions};
use micanite_workload::{DataSet, Popularity, Workload};

use crate::address::{Address, AddressArgument, TlsArguments};
use crate::command::search::Bound;
use crate::command::sweep::{FanOuts, Rates};
use crate::parse;
use crate::plan::rate_profile::RateProfile;
use crate::plan::{Plan, Reads, Spacing};

/// Options of `micanite load`.
#[derive(Args, Clone, Debug)]
pub struct LoadOptions {
    /// Servers: native://HOST:PORT, fabric://HOST:PORT?provider=PROVIDER, local:///PATH,
    /// memcached://HOST:PORT, memcacheds://HOST:PORT (TLS), memcached+udp://HOST:PORT, unix:///PATH,
    /// redis://HOST:PORT, redis+unix:///PATH; connections go to them in turn.
    /// memcached(s)://USER:PASSWORD@... logs in; USER@ takes the password from MICANITE_PASSWORD
    #[arg(
        value_name = "URL", required_unless_present = "self_test",
        value_parser = AddressArgument(str::parse)
    )]
    pub targets: Vec<Address>,
    #[command(flatten)]
    pub(crate) tls: TlsArguments,

    /// Open loop: offer so many operations per second, whatever the server does; latency counts
    /// from the time a request was due. Without it: closed loop, as fast as replies come
    #[arg(long, value_name = "OPS", value_parser = parse::rate, help_heading = "Load")]
    pub rate: Option<f64>,
    /// Change the rate over time: steps:1@10s,2@10s or spike:3@5s+2s (factor@start+length) or a
    /// file with a time and a factor per line, stretched to the run
    #[arg(long, value_name = "PROFILE", help_heading = "Load")]
    pub rate_profile: Option<RateProfile>,
    /// How requests of the open loop are spaced
    #[arg(long, value_enum, default_value_t = Spacing::Poisson, help_heading = "Load")]
    pub arrivals: Spacing,
    /// Connections, or UDP sockets, in total [default: one per thread and target]
    #[arg(short, long, value_name = "N", help_heading = "Load")]
    pub connections: Option<usize>,
    /// Requests in flight per connection, at most [default: the batch; open loop: 1024]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub pipeline: Option<usize>,
    /// Requests that are sent together (native: in one datagram); in an open loop the first ones
    /// wait for the last
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub batch: usize,
    /// native: let the client choose how many requests share a datagram, by its own rate
    #[arg(long, help_heading = "Load")]
    pub adaptive: bool,
    /// native: do not let the kernel join datagrams (GRO, GSO)
    #[arg(long, help_heading = "Load")]
    pub no_offload: bool,
    /// native: go around the kernel's network stack, by xdp:INTERFACE or dpdk:DEVICE,ARGUMENTS; each
    /// thread has a queue of it
    #[arg(long, value_name = "PORT", help_heading = "Port")]
    pub port: Option<PortName>,
    /// Addresses of the port with the lengths of their prefixes: 10.0.0.9/24,fd00::9/64 [xdp: those
    /// of the interface; dpdk: must be given]
    #[arg(
        long, value_name = "IP/LENGTH", value_delimiter = ',', value_parser = parse::prefix,
        requires = "port", help_heading = "Port"
    )]
    pub port_ip: Vec<(IpAddr, u8)>,
    /// dpdk: where what is outside of the prefixes is sent
    #[arg(long, value_name = "IP", requires = "port", help_heading = "Port")]
    pub port_gateway: Option<IpAddr>,
    /// UDP port that the first thread sends from, the others from those that follow: for flow rules
    /// that bring each reply to its thread's queue [default: free ones]
    #[arg(long, value_name = "UDP-PORT", requires = "port", help_heading = "Port")]
    pub port_source: Option<u16>,
    /// xdp: let the kernel poll the interface for so many microseconds when nothing is there
    #[arg(long, value_name = "US", requires = "port", help_heading = "Port")]
    pub port_busy_poll: Option<u32>,
    /// dpdk: further arguments of its environment (EAL)
    #[arg(
        long,
        value_name = "ARGUMENTS",
        allow_hyphen_values = true,
        requires = "port",
        help_heading = "Port"
    )]
    pub dpdk_args: Option<String>,
    /// fabric: way of reading [default: innercache]
    #[arg(long, value_name = "WAY", value_enum, help_heading = "Load")]
    pub reads: Option<Reads>,
    /// Keys per GET
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub multiget: usize,
    /// Threads that send and receive
    #[arg(short, long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub threads: usize,
    /// CPUs that the threads are pinned to, in turn: 1 or 0,2 or 4-7
    #[arg(long, value_name = "LIST", value_parser = parse::cpus, help_heading = "Load")]
    pub cpu: Option<std::vec::Vec<usize>>,

    /// Load before the measured part
    #[arg(
        long, value_name = "TIME", default_value = "1s", value_parser = parse::duration,
        help_heading = "Time"
    )]
    pub warmup: Duration,
    /// Length of the measured part [default: 10s, that of the steps of --rate-profile, or 24h with
    /// --operations]
    #[arg(short, long, value_name = "TIME", value_parser = parse::duration, help_heading = "Time")]
    pub duration: Option<Duration>,
    /// Closed loop: end the measured part after so many operations
    #[arg(
        long, value_name = "N", value_parser = parse::count,
        conflicts_with_all = ["rate", "search", "sweep"], help_heading = "Time"
    )]
    pub operations: Option<u64>,
    /// After this the reply to a datagram counts as lost
    #[arg(
        long, value_name = "TIME", default_value = "1s", value_parser = parse::duration,
        help_heading = "Time"
    )]
    pub timeout: Duration,

    /// A published workload: ycsb-a, -b, -c, -d, -f; mica-tiny, -small, -large, -xlarge (skewed, 95 %
    /// GET); fb-usr, -app, -etc, -var, -sys (operations, lengths and locality of Facebook's pools;
    /// --items is how many are resident); etc-model (lengths only); innercache-{uniform,latest,zipf}-
    /// {50,90,10}, with -512k for large values
    #[arg(long, value_name = "NAME", conflicts_with = "dataset", help_heading = "Data")]
    pub workload: Option<Workload>,
    /// Percentages of GET, UPDATE (set) and DELETE instead of those of the pool: 90/8/2
    #[arg(
        long, value_name = "G/U/D", value_parser = parse::mix, requires = "workload", help_heading = "Data"
    )]
    pub mix: Option<[f64; 3]>,
    /// Store what a GET misses, as the clients of a look-aside cache do
    #[arg(long, help_heading = "Data")]
    pub demand_fill: bool,
    /// memcached+udp: GETs in datagrams, all else over TCP to the port of the same number
    #[arg(long, help_heading = "Data")]
    pub tcp_writes: bool,
    /// Lengths of keys and values: tiny (8/8), small (16/64), large (128/1024), xlarge (250/1152),
    /// or KEY/VALUE in bytes
    #[arg(long, value_name = "SET", default_value = "tiny", help_heading = "Data")]
    pub dataset: DataSet,
    /// How many items there are [default: 1m; innercache: as many as make 500 MB]
    #[arg(long, value_name = "N", value_parser = parse::count, help_heading = "Data")]
    pub items: Option<u64>,
    /// Which items are asked for: uniform, zipf:0.99 (exact), zipf-gray:0.99 (fast and biased, as
    /// in MICA), scrambled (YCSB's), latest, hot:KEYS/REQUESTS (fractions) [default: uniform, or the
    /// workload's]
    #[arg(long, value_name = "LAW", help_heading = "Data")]
    pub popularity: Option<Popularity>,
    /// Draw so many items per thread before the run, and ask for them in turns: the law takes no time of
    /// the run then
    #[arg(
        long, value_name = "N", value_parser = parse::count, default_value = "0", hide_default_value = true,
        help_heading = "Data"
    )]
    pub draw_ahead: u64,
    /// Percentage of the operations that read; the others write [default: 95, or the
    /// workload's]
    #[arg(long, value_name = "PERCENT", value_parser = parse::percent, help_heading = "Data")]
    pub get: Option<f64>,
    /// What is written expires after so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0, help_heading = "Data")]
    pub expiry: u32,
    /// Store every item before the run: by connections of its own (--fill=other, the same as --fill), or
    /// by those that are measured then (--fill=own)
    #[arg(
        long, value_name = "BY", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "other", help_heading = "Data"
    )]
    pub fill: Option<FillBy>,
    /// Read every item once before the measured part, by the connections that are measured
    #[arg(long, help_heading = "Data")]
    pub read_all: bool,
    /// The same seed gives the same requests
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Data")]
    pub seed: u64,

    /// Find the highest rate within a bound: of loss (1%) or of the 99th percentile (500us, with at
    /// most 1 % loss); begins at --rate
    #[arg(
        long, value_name = "BOUND", conflicts_with_all = ["sweep", "rate_profile"],
        help_heading = "Several runs"
    )]
    pub search: Option<Bound>,
    /// Measure at several rates: 10k,20k,50k or 10k..100k/10
    #[arg(
        long, value_name = "RATES", conflicts_with_all = ["rate", "rate_profile"],
        help_heading = "Several runs"
    )]
    pub sweep: Option<Rates>,
    /// native, with --adaptive and --sweep: measure each rate with so many of the servers, the first ones of
    /// all: 1,2,4. The items are stored before each number (--fill)
    #[arg(long, value_name = "NUMBERS", requires_all = ["sweep", "adaptive"], help_heading = "Several runs")]
    pub fan_out: Option<FanOuts>,
    /// Measure what this generator can do itself on this machine
    #[arg(long, conflicts_with_all = ["search", "sweep", "rate", "port"], help_heading = "Several runs")]
    pub self_test: bool,

    /// Process of the server, for its CPU time
    #[arg(long, value_name = "PID", help_heading = "Output")]
    pub server_pid: Option<u32>,
    /// Write the report as JSON; - is standard output, without the table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write the percentiles of the latencies (HdrHistogram's text format, microseconds)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub histogram: Option<PathBuf>,
    /// Draw latency against throughput (with --sweep or --search), or requests per datagram against the rate
    /// (with --fan-out)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// No lines while it runs
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

/// Connections that store the items before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FillBy {
    /// Other ones, which are closed then
    Other,
    /// Those that are measured
    Own,
}

/// Longest measured part that ends after a number of operations.
const OPERATIONS_DURATION: Duration = Duration::from_secs(24 * 3600);

/// Items, where nothing says how many.
const ITEMS: u64 = 1_000_000;
/// Percentage of the operations that read, likewise.
const GET_PERCENT: f64 = 95.0;

impl LoadOptions {
    /// The run that these options describe.
    pub(crate) fn plan(&self) -> Plan {
        let open = self.rate.is_some() || self.search.is_some() || self.sweep.is_some();
        // By a port each thread has one client, of all targets.
        let least = match &self.port {
            Some(_) => self.threads,
            None => self.threads.max(1) * self.targets.len().max(1),
        };
        let stepped = self.rate_profile.as_ref().and_then(RateProfile::length_s);
        let duration = match (self.duration, stepped) {
            (Some(duration), _) => duration,
            (None, Some(length_s)) => Duration::from_secs_f64(length_s).saturating_sub(self.warmup),
            (None, None) if self.operations.is_some() => OPERATIONS_DURATION,
            (None, None) => Duration::from_secs(10),
        };
        let preset = self.workload.and_then(Workload::preset);
        Plan {
            targets: self.targets.clone(),
            rate_ops: self.rate,
            rate_profile: self.rate_profile.clone(),
            arrivals: self.arrivals,
            connections: self.connections.unwrap_or(least),
            pipeline: self.pipeline.unwrap_or_else(|| Plan::default_pipeline(open, self.batch)),
            batch: self.batch,
            adaptive_batch: self.adaptive,
            offload: !self.no_offload,
            port: None,
            reads: self.reads,
            multiget: self.multiget,
            threads: self.threads,
            cpus: self.cpu.clone().unwrap_or_default(),
            warmup: self.warmup,
            duration,
            operations_max: self.operations,
            timeout: self.timeout,
            workload: self.workload,
            reads_before_writing: preset.is_some_and(|preset| preset.reads_before_writing),
            mix_percent: self.mix,
            demand_fill: self.demand_fill,
            tcp_writes: self.tcp_writes,
            dataset: self.dataset,
            items: self.items.or(preset.map(|preset| preset.items)).unwrap_or(ITEMS),
            popularity: self
                .popularity
                .or(preset.map(|preset| preset.popularity))
                .unwrap_or(Popularity::Uniform),
            draw_ahead: self.draw_ahead as usize,
            get_percent: self.get.or(preset.map(|preset| preset.get_percent)).unwrap_or(GET_PERCENT),
            expiry_s: self.expiry,
            fill: self.fill.is_some(),
            own_fill: self.fill == Some(FillBy::Own),
            read_all: self.read_all || self.reads == Some(Reads::OneSided),
            seed: self.seed,
            server_pid: self.server_pid,
        }
    }

    /// Returns why options contradict each other, beyond what clap excludes.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let most = self.fan_out.as_ref().and_then(|fan_outs| fan_outs.0.iter().max());
        if let Some(most) = most.filter(|most| **most > self.targets.len()) {
            return Some(format!(
                "--fan-out {most} needs {most} servers: name them, native://HOST:PORT each"
            ));
        }
        let pool = self.workload.and_then(Workload::pool)?;
        let given =
            |option: &str, instead: &str| format!("{option} is part of {pool}: leave it out{instead}");
        if self.get.is_some() {
            return Some(given("--get", ", or change the operations by --mix 90/8/2"));
        }
        self.popularity.map(|_| given("--popularity", ""))
    }

    pub(crate) fn port_options(&self) -> Option<PortOptions> {
        let name = self.port.clone()?;
        let arguments = self.dpdk_args.as_deref().unwrap_or_default();
        Some(PortOptions {
            addresses: self.port_ip.clone(),
            gateway: self.port_gateway,
            first_port: self.port_source,
            queues: self.threads,
            busy_poll_us: self.port_busy_poll.unwrap_or_default(),
            dpdk_arguments: arguments.split_whitespace().map(str::to_owned).collect(),
            ..PortOptions::new(name)
        })
    }
}
