//! One slice of load, by `micanite load`, and what it took of the server's core.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::Options;
use super::cases::{Case, ITEMS};
use super::core_time::Reading;
use super::servers::{Kind, Segments, Server};
use crate::Result;

/// The generator is loaded and warm after this.
const WARM_UP: Duration = Duration::from_millis(400);

/// What a slice gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub per_second: f64,
    /// SETs for each second that the server's core was busy with anything.
    pub per_core_second: f64,
    /// Of the core, for each SET; then what of it was the server's process, the kernel's thread that
    /// polls the cable, and the core's threads for deferred work.
    pub core_ns: f64,
    pub process_ns: f64,
    pub poller_ns: f64,
    pub workers_ns: f64,
    /// Share of the segments whose SETs the program has answered.
    pub in_kernel: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

/// How long one server is loaded before it is another's turn.
fn slice(options: &Options) -> Duration {
    Duration::from_millis(if options.common.quick { 500 } else { 800 })
}

/// A slice of a case; `rate`: SETs per second that are offered, else as fast as replies come.
pub(super) fn run(
    options: &Options,
    server: &Server,
    cpus: [usize; 2],
    case: &Case,
    rate: Option<f64>,
) -> Result<Figures> {
    let before = segments(server)?;
    let duration = slice(options);
    let json = Path::new("target/bench/kernel-writes-slice.json");
    let mut command = command(options, server, cpus[1], case, (duration, rate));
    let mut load = command.arg("--json").arg(json).spawn()?;
    // The middle of what is measured, whenever that has begun exactly.
    std::thread::sleep(WARM_UP + duration / 5);
    let began = Reading::take(server, cpus[0])?;
    std::thread::sleep(duration * 3 / 5);
    let used = began.until(&Reading::take(server, cpus[0])?);
    if !load.wait()?.success() {
        return Err(format!("the load of {} failed", server.name).into());
    }
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json)?)?;
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64);
    let per_second = number("/throughput_ops").unwrap_or(0.0);
    let answered = number("/answered").unwrap_or(0.0);
    if answered == 0.0 || number("/failed_connections") != Some(0.0) {
        return Err(format!("{} has left requests unanswered", server.name).into());
    }
    let after = segments(server)?;
    let (handled, all) = (after.handled - before.handled, after.all - before.all);
    let of_set = |ns: f64| ns / used.elapsed_ns / per_second * 1e9;
    Ok(Figures {
        per_second,
        per_core_second: per_second * used.elapsed_ns / used.core_ns,
        core_ns: of_set(used.core_ns),
        process_ns: of_set(used.process_ns),
        poller_ns: of_set(used.poller_ns),
        workers_ns: of_set(used.workers_ns),
        in_kernel: handled as f64 / (all as f64).max(1.0),
        p50_us: number("/latency_us/p50").unwrap_or(f64::NAN),
        p99_us: number("/latency_us/p99").unwrap_or(f64::NAN),
    })
}

/// What the program of a server that has one has handled.
fn segments(server: &Server) -> Result<Segments> {
    match &server.kind {
        Kind::Responder(answer) if answer.is_in_kernel() => server.segments(),
        _ => Ok(Segments::default()),
    }
}

fn command(
    options: &Options,
    server: &Server,
    cpu: usize,
    case: &Case,
    (duration, rate): (Duration, Option<f64>),
) -> Command {
    let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
    let mut command = Command::new(&options.server);
    command
        .args(["load", &format!("memcached://{}", server.address)])
        .args(["--quiet", "--items", ITEMS, "--get", "0"])
        .args(["--cpu", &cpu.to_string()])
        .args(["--duration", &milliseconds(duration)])
        .args(["--warmup", &milliseconds(WARM_UP)])
        .args(case.flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if let Some(rate) = rate {
        command.args(["--rate", &format!("{rate:.0}")]);
    }
    command
}
