//! Misses of real requests: simulated by the engine itself, and of live servers beside memcached
//! with the same memory. Both by `micanite trace`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::Value;

use crate::harness::peers::{self, Binaries};
use crate::harness::servers::Server;
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
        let Simulated {
            policy,
            bytes,
            misses,
        } = line.parse()?;
        let case = format!("simulated, {policy}, {bytes} bytes");
        for (metric, ratio) in ["object_miss_ratio", "byte_miss_ratio"]
            .into_iter()
            .zip(misses)
        {
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
            bytes: bytes
                .parse()
                .map_err(|error| format!("'{line}': {error}"))?,
            misses: [ratio(objects)?, ratio(of_bytes)?],
        })
    }
}

/// Replays the trace against fresh servers in turns.
fn live(options: &Options, case: &str, mib: u64, report: &mut Measurement) -> Result<()> {
    let cpus = system::allowed_cpus();
    let binaries = peers::memcacheds_or_none(&options.binaries.memcached, report)?;
    let memory = mib.to_string();
    let flags = ["-m", memory.as_str()];
    // The same requests in the same order: what changes is the order of connections' batches.
    let rounds = usize::from(options.common.rounds.unwrap_or(1));
    let (mut ours, mut theirs, mut name) = (Vec::new(), Vec::new(), String::new());
    for round in 1..=rounds {
        eprintln!("{case}, round {round} of {rounds}");
        let server = Server::micanite(&options.binaries.server, &flags, cpus[0])?;
        ours.push(replay(options, &server)?);
        drop(server);
        if let Some(binary) = binaries.first() {
            let server = Server::memcached(binary, &flags, cpus[0])?;
            name.clone_from(&server.name);
            theirs.push(replay(options, &server)?);
        }
    }
    let unit = "% of GETs";
    report.value(case, "misses, micanite", unit, &ours);
    if theirs.is_empty() {
        return Ok(());
    }
    report.value(case, &format!("misses, {name}"), unit, &theirs);
    report.beside((case, "misses", unit), &ours, &name, &theirs);
    Ok(())
}

/// Replays the trace; returns the misses of the server in percent.
fn replay(options: &Options, server: &Server) -> Result<f64> {
    let trace = options.replayed.as_ref().unwrap_or(&options.trace);
    let requests = options.requests.unwrap_or(u64::MAX).to_string();
    let words = [
        "trace",
        "replay",
        text(trace)?,
        &server.url,
        "--requests",
        &requests,
    ];
    let how = ["--speed", "max", "--connections", "4", "--pipeline", "32"];
    let out = ["--quiet", "--json", "-"];
    let output = run_micanite(options, &[&words[..], &how, &out].concat())?;
    let replayed: Value = serde_json::from_slice(&output)?;
    let misses = replayed.pointer("/miss_ratio").and_then(Value::as_f64);
    Ok(misses.ok_or("the replay reports no miss ratio")? * 100.0)
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
