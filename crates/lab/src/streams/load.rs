//! One slice of load, by `micanite load`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::Options;
use super::cases::{Case, DATASET, ITEMS};
use super::servers::Server;
use crate::Result;

/// What a slice gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub per_second: f64,
    pub per_core_second: f64,
    pub p99_us: f64,
    /// Requests that were due and got no answer, in parts of all.
    pub loss: f64,
}

/// How long one server is loaded before it is another's turn.
pub(super) fn slice(options: &Options) -> Duration {
    Duration::from_millis(if options.common.quick { 500 } else { 1500 })
}

/// Stores every item, by a run of which only that is wanted.
pub(super) fn fill(options: &Options, server: &Server, cpu: usize) -> Result<()> {
    let flags = ["--fill", "--connections", "1"];
    load(options, server, cpu, Duration::from_millis(300), &flags).map(drop)
}

/// A slice of a case; `rate`: operations per second that are offered, else as fast as replies come.
pub(super) fn run(
    options: &Options,
    server: &Server,
    cpu: usize,
    case: &Case,
    rate: Option<f64>,
) -> Result<Figures> {
    let rate = rate.map(|rate| format!("{rate:.0}"));
    let mut flags = case.flags.to_vec();
    if !flags.contains(&"--get") {
        flags.extend(["--get", "100"]);
    }
    if let Some(rate) = &rate {
        flags.extend(["--rate", rate]);
    }
    load(options, server, cpu, slice(options), &flags)
}

fn load(
    options: &Options,
    server: &Server,
    cpu: usize,
    duration: Duration,
    flags: &[&str],
) -> Result<Figures> {
    let json = Path::new("target/bench/bench-streams-slice.json");
    let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
    let output = Command::new(&options.server)
        .args([
            "load",
            &server.url,
            "--quiet",
            "--dataset",
            DATASET,
            "--items",
            ITEMS,
        ])
        .args([
            "--cpu",
            &cpu.to_string(),
            "--server-pid",
            &server.pid().to_string(),
        ])
        .args([
            "--duration",
            &milliseconds(duration),
            "--warmup",
            &milliseconds(duration / 5),
        ])
        .arg("--json")
        .arg(json)
        .args(flags)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        return Err(format!("load of {}: {}", server.name, said.trim_end()).into());
    }
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(json)?)?;
    let number = |pointer: &str| figures.pointer(pointer).and_then(Value::as_f64);
    if number("/hit_ratio").is_some_and(|hits| hits < 1.0) && !flags.contains(&"--fill") {
        return Err(format!("{}: not every item was found", server.name).into());
    }
    Ok(Figures {
        per_second: number("/throughput_ops").ok_or("no throughput")?,
        per_core_second: number("/ops_per_server_core_second").unwrap_or(f64::NAN),
        p99_us: number("/latency_us/p99").unwrap_or(f64::NAN),
        loss: number("/loss_ratio").unwrap_or(0.0),
    })
}
