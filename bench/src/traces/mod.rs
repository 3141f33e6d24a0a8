//! Misses of real requests: simulated by the engine itself, and of live servers beside memcached
//! with the same memory. Both by `micanite trace`.

mod sizes;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use micanite_control::cores;
use serde_json::Value;

use crate::harness::peers::{self, Binaries};
use crate::harness::servers::{Program, Server, Transport};
use crate::harness::system;
use crate::results::measurement::{Measurement, folder};
use crate::{Common, Result};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub binaries: Binaries,
    /// The trace that is simulated
    #[arg(long, default_value_os_t = crate::harness::system::target("traces/twitter_cluster52.csv"))]
    pub trace: PathBuf,
    /// The trace that is replayed (default: the simulated one)
    #[arg(long)]
    pub replayed: Option<PathBuf>,
    /// Requests of it at most
    #[arg(long)]
    pub requests: Option<u64>,
    /// Memory of the simulation, in percent of the bytes of all keys and values
    #[arg(long, value_delimiter = ',', default_value = "1,5,10,25")]
    pub percents: Vec<f64>,
    /// A further server of ours with these flags: may be given several times
    #[arg(long, allow_hyphen_values = true, value_name = "FLAGS")]
    pub flags: Vec<String>,
    /// Memory of the live servers, in MiB
    #[arg(long, value_delimiter = ',', default_value = "24")]
    pub sizes: Vec<u64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Measurement::new("traces");
    report.note(system::cpu_model());
    if options.common.wants("simulated") {
        simulate(options, &mut report)?;
    }
    if options.common.wants("sizes change") {
        sizes::change(options, &mut report)?;
    }
    for size in &options.sizes {
        let case = format!("live, -m {size}");
        if options.common.wants(&case) {
            live(options, &case, *size, &mut report)?;
        }
    }
    report.finish()
}

fn run_micanite(options: &Options, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(&options.binaries.server)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", options.binaries.server.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let words = arguments.join(" ");
        return Err(format!("micanite {words}: {}", said.trim_end()).into());
    }
    Ok(output.stdout)
}

fn text(path: &Path) -> Result<&str> {
    Ok(path.to_str().ok_or("a path that is no text")?)
}

/// Enters what each policy misses at each size.
fn simulate(options: &Options, report: &mut Measurement) -> Result<()> {
    eprintln!("simulating {}", options.trace.display());
    std::fs::create_dir_all(folder())?;
    let csv = folder().join("traces-simulated.csv");
    let sizes: Vec<_> = options.percents.iter().map(|at| format!("{at}%")).collect();
    let sizes = sizes.join(",");
    let words = ["trace", "simulate", text(&options.trace)?];
    let how = ["--accounting", "payload", "--bytes", &sizes];
    let csv_words = ["--csv", text(&csv)?];
    run_micanite(options, &[&words[..], &how, &csv_words].concat())?;
    for line in std::fs::read_to_string(&csv)?.lines().skip(1) {
        let Simulated { policy, bytes, misses } = line.parse()?;
        let case = format!("simulated, {policy}, {bytes} bytes");
        for (metric, ratio) in ["object_miss_ratio", "byte_miss_ratio"].into_iter().zip(misses) {
            report.value(&case, metric, "", &[ratio]);
        }
    }
    Ok(())
}

/// A line of the simulation's table.
#[derive(Debug, PartialEq)]
struct Simulated {
    policy: String,
    bytes: u64,
    /// Miss ratios of requests and of bytes.
    misses: [f64; 2],
}

impl std::str::FromStr for Simulated {
    type Err = String;

    fn from_str(line: &str) -> std::result::Result<Self, String> {
        let fields: Vec<_> = line.split(',').collect();
        let [policy, bytes, objects, of_bytes] = fields[..] else {
            return Err(format!("'{line}' has not four columns"));
        };
        let ratio = |field: &str| -> std::result::Result<f64, String> {
            field.parse().map_err(|error| format!("'{line}': {error}"))
        };
        Ok(Self {
            policy: policy.to_owned(),
            bytes: bytes.parse().map_err(|error| format!("'{line}': {error}"))?,
            misses: [ratio(objects)?, ratio(of_bytes)?],
        })
    }
}

/// Replays the trace against fresh servers in turns.
fn live(options: &Options, case: &str, mib: u64, report: &mut Measurement) -> Result<()> {
    let cpus = cores::allowed();
    let binaries = peers::memcacheds_or_none(&options.binaries.memcached, report)?;
    let memory = mib.to_string();
    let plain = vec!["-m", memory.as_str()];
    let ours = Program::Micanite(&options.binaries.server);
    let mut contenders = vec![Contender::new("micanite", ours, plain.clone())];
    for flags in &options.flags {
        let name = format!("micanite {flags}");
        let flags = [&plain[..], &flags.split_whitespace().collect::<Vec<_>>()].concat();
        contenders.push(Contender::new(&name, ours, flags));
    }
    if let Some(binary) = binaries.first() {
        contenders.push(Contender::new("", Program::Memcached(binary), plain));
    }
    // The same requests in the same order: what changes is the order of connections' batches.
    let rounds = usize::from(options.common.rounds.unwrap_or(1));
    for round in 1..=rounds {
        eprintln!("{case}, round {round} of {rounds}");
        for contender in &mut contenders {
            contender.replay(options, &cpus)?;
        }
    }
    for contender in &contenders {
        for ((metric, unit), values) in METRICS.into_iter().zip(&contender.values) {
            report.value(case, &format!("{metric}, {}", contender.name), unit, values);
        }
    }
    if !binaries.is_empty()
        && let Some((theirs, ours)) = contenders.split_last()
    {
        for ours in ours {
            let metric = match ours.name.as_str() {
                "micanite" => "misses".to_owned(),
                name => format!("misses of {name}"),
            };
            let what = (case, metric.as_str(), METRICS[0].1);
            report.beside(what, &ours.values[0], &theirs.name, &theirs.values[0]);
        }
    }
    Ok(())
}

/// Figures of a replay.
const METRICS: [(&str, &str); 5] = [
    ("misses", "% of GETs"),
    ("missed bytes", "% of bytes"),
    ("replayed", "requests/s"),
    ("resident memory", "MiB"),
    ("resident memory of the empty server", "MiB"),
];

/// A server with its flags, and its figures round by round.
struct Contender<'a> {
    name: String,
    program: Program<'a>,
    flags: Vec<&'a str>,
    values: [Vec<f64>; METRICS.len()],
}

impl<'a> Contender<'a> {
    fn new(name: &str, program: Program<'a>, flags: Vec<&'a str>) -> Self {
        Self { name: name.to_owned(), program, flags, values: Default::default() }
    }

    /// Starts the server, on the first CPU unless its flags name several workers, and replays the trace.
    fn replay(&mut self, options: &Options, cpus: &[usize]) -> Result<()> {
        let has_workers = self.flags.contains(&"-t");
        let cpus = if has_workers { cpus } else { &cpus[..1] };
        let server = Server::start(self.program, Transport::Tcp, &self.flags, cpus)?;
        if self.name.is_empty() {
            self.name.clone_from(&server.name);
        }
        let empty = resident_mib(server.pid())?;
        let replayed = replay(options, &server)?;
        let figure = |name: &str| {
            let value = replayed.get(name).and_then(Value::as_f64);
            value.ok_or_else(|| format!("the replay reports no {name}"))
        };
        let values = [
            figure("miss_ratio")? * 100.0,
            figure("byte_miss_ratio")? * 100.0,
            figure("requests_per_second")?,
            resident_mib(server.pid())?,
            empty,
        ];
        for (all, value) in self.values.iter_mut().zip(values) {
            all.push(value);
        }
        Ok(())
    }
}

/// Memory of a process that is in memory.
fn resident_mib(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.ok_or("no VmRSS")?.parse::<f64>()? / 1024.0)
}

/// Replays the trace against a server, and returns the report.
fn replay(options: &Options, server: &Server) -> Result<Value> {
    let trace = options.replayed.as_ref().unwrap_or(&options.trace);
    let requests = options.requests.unwrap_or(u64::MAX).to_string();
    let words = ["trace", "replay", text(trace)?, &server.url];
    let how = ["--requests", &requests, "--speed", "max"];
    let many = ["--connections", "4", "--pipeline", "32"];
    let out = ["--quiet", "--json", "-"];
    let output = run_micanite(options, &[&words[..], &how, &many, &out].concat())?;
    Ok(serde_json::from_slice(&output)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_are_read() {
        let line = "s3-fifo,1461360,0.215300,0.250000";
        let read: Simulated = line.parse().unwrap();
        assert_eq!((read.policy.as_str(), read.bytes), ("s3-fifo", 1_461_360));
        assert_eq!(read.misses, [0.2153, 0.25]);
        for wrong in ["", "a,b,c,d", "a,1,0.5"] {
            assert!(wrong.parse::<Simulated>().is_err(), "{wrong}");
        }
    }
}
