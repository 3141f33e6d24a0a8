//! This machine by `micanite plan` beside `micanite load` in the same run: calibrated first, then predicted
//! and measured at batches and data that the calibration did not use.

pub(crate) mod section;

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;
use micanite_plan::simulate::{Arrivals, Core, Service};
use serde_json::Value;

use crate::engine::plain::gets_per_second;
use crate::harness::peers::Binaries;
use crate::harness::popularity::Popularity;
use crate::harness::servers::{Program, Server, Transport};
use crate::results::measurement::Measurement;
use crate::{Common, Result};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub binaries: Binaries,
    /// Items
    #[arg(long, default_value_t = 1 << 20)]
    pub items: u64,
    /// Seconds of a slice
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
}

/// A port, as `micanite plan` and as people name it, with requests per datagram or pipeline, and the options
/// of a load that keeps it busy.
type Case = (&'static str, &'static str, &'static str, &'static [&'static str]);

const CASES: [Case; 3] = [
    ("native", "native, 1 per datagram", "1", &["--batch", "1", "--pipeline", "1024"]),
    ("native", "native, 16 per datagram", "16", &["--batch", "16", "--pipeline", "1024"]),
    ("stream", "stream, pipelines of 32", "32", &["--batch", "32", "--pipeline", "32", "--connections", "8"]),
];
const LAWS: [(&str, &str); 2] = [("uniform", "0"), ("zipf:0.99", "0.99")];
const GET: &str = "95";
/// Items that the generator draws before a run: the calibration's keys take no time, so neither may these.
const DRAWN: &str = "4m";

/// Shares of the throughput at which latency is compared. Near half of it a generator on the same machine is
/// busy all the time, and its own delays are what the latency shows.
const SHARES: [(f64, &str); 2] = [(0.2, "a fifth of the load"), (0.5, "half load")];

/// Compared quantities: throughput, and the 95th percentiles at [`SHARES`] of it.
#[derive(Clone, Copy, Debug)]
struct Figures {
    throughput: f64,
    p95_us: [f64; SHARES.len()],
}

/// Figures of a load, and the part of the time for which its generator was busy at [`SHARES`] of it.
struct Loaded {
    figures: Figures,
    generator_busy: [f64; SHARES.len()],
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("micanite-plan-{}", std::process::id()));
    let done = compare(options, &folder.join("machine.toml"));
    // It may not have been made.
    let _ = std::fs::remove_dir_all(&folder);
    let mut report = done?;
    published(options, &mut report)?;
    simulator(&mut report, options.common.rounds());
    report.finish()
}

fn compare(options: &Options, calibration: &Path) -> Result<Measurement> {
    // Threads of a real-time priority that poll are stopped for a twentieth of the time: a 95th percentile
    // would show nothing else.
    let common = Common { no_real_time: true, ..options.common.clone() };
    // Before this thread is pinned: the calibration places its own server and load generator.
    let words = ["plan", "--calibrate", "--quiet", "--calibration", &calibration.to_string_lossy()];
    call(options, &words)?;
    let (mut report, cpus) = common.begin_servers("plan")?;
    for (law, zipf) in LAWS {
        for (port, name, batch, flags) in CASES {
            let case = format!("{name}, {law}");
            if !options.common.wants(&case) {
                continue;
            }
            let plan = predicted(options, calibration, [port, batch, zipf])?;
            let mut measured = Vec::new();
            for _ in 0..options.common.rounds() {
                measured.push(loaded(options, cpus, flags, law)?);
            }
            add(&mut report, &case, plan, &measured);
        }
        let case = format!("engine, {law}");
        if options.common.wants(&case) {
            let plan = predicted(options, calibration, ["engine", "16", zipf])?;
            let measured = engine(options, law)?;
            report.value(&case, "throughput, predicted", "requests/s", &[plan.throughput]);
            report.value(&case, "throughput, measured", "requests/s", &measured);
        }
    }
    Ok(report)
}

/// Adds the figures of the paper beside those of the model.
fn published(options: &Options, report: &mut Measurement) -> Result<()> {
    let checks: Value = serde_json::from_slice(&call(options, &["plan", "paper", "--json"])?)?;
    for check in checks.as_array().ok_or("no figures of the paper")? {
        let text = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
        let case = format!("paper, {}, {}", text("kind"), text("name"));
        for who in ["paper", "model"] {
            report.value(&case, who, &text("unit"), &[number(check, &format!("/{who}"))?]);
        }
    }
    Ok(())
}

fn add(report: &mut Measurement, case: &str, plan: Figures, measured: &[Loaded]) {
    let of = |value: &dyn Fn(&Loaded) -> f64| measured.iter().map(value).collect::<Vec<_>>();
    report.value(case, "throughput, predicted", "requests/s", &[plan.throughput]);
    report.value(case, "throughput, measured", "requests/s", &of(&|loaded| loaded.figures.throughput));
    for (at, (_, share)) in SHARES.into_iter().enumerate() {
        let p95 = format!("p95 at {share}");
        report.value(case, &format!("{p95}, predicted"), "us", &[plan.p95_us[at]]);
        report.value(case, &format!("{p95}, measured"), "us", &of(&|loaded| loaded.figures.p95_us[at]));
        let busy_percent = of(&|loaded| loaded.generator_busy[at] * 100.0);
        report.value(case, &format!("generator busy at {share}"), "%", &busy_percent);
    }
}

/// Adds the time that the simulation of ten million requests takes.
fn simulator(report: &mut Measurement, rounds: usize) {
    let core = Core {
        rate: 0.8e6,
        batch: 1,
        service: Service::Fixed(1e-6),
        receive_max: 32,
        arrivals: Arrivals::Poisson,
        pause: None,
    };
    let mut seconds = Vec::new();
    for seed in 0..rounds as u64 {
        let begin = Instant::now();
        black_box(core.simulate(10_000_000, seed, &mut |_| ()));
        seconds.push(begin.elapsed().as_secs_f64());
    }
    report.value("simulation, 10^7 requests", "time", "s", &seconds);
}

/// Runs our program; returns its standard output.
fn call(options: &Options, words: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new(&options.binaries.server);
    let output = command.args(words).stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).trim_end().into()),
    }
}

fn number(report: &Value, pointer: &str) -> Result<f64> {
    report.pointer(pointer).and_then(Value::as_f64).ok_or_else(|| format!("no {pointer}").into())
}

/// Asks `micanite plan` for one core.
fn predicted(options: &Options, calibration: &Path, [port, batch, zipf]: [&str; 3]) -> Result<Figures> {
    let (path, items) = (calibration.to_string_lossy(), options.items.to_string());
    let words = [
        ["--calibration", &path, "--port", port],
        ["--batch", batch, "--zipf", zipf],
        ["--items", &items, "--get", GET],
        ["--cores", "1", "--p95", "1s"],
        ["--rate", "1000", "--json", "-"],
    ];
    let words: Vec<&str> = std::iter::once("plan").chain(words.concat()).collect();
    let plan: Value = serde_json::from_slice(&call(options, &words)?)?;
    let throughput = number(&plan, "/modes/0/throughput")?;
    let points = plan.pointer("/modes/0/latency").and_then(Value::as_array).ok_or("no latency")?;
    let mut p95_us = [0.0; SHARES.len()];
    for (p95_us, (share, _)) in p95_us.iter_mut().zip(SHARES) {
        let distance = |point: &Value| (number(point, "/rate").unwrap_or(0.0) / throughput - share).abs();
        let nearest = points.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)));
        *p95_us = number(nearest.ok_or("no latency")?, "/p95_us")?;
    }
    Ok(Figures { throughput, p95_us })
}

/// Loads a server: as fast as replies come, then at [`SHARES`] of that.
fn loaded(options: &Options, cpus: [usize; 2], flags: &[&str], law: &str) -> Result<Loaded> {
    let program = Program::Micanite(&options.binaries.server);
    let is_native = flags.contains(&"1024");
    let transport = if is_native { Transport::Udp } else { Transport::Tcp };
    let server = Server::start(program, transport, &["-m", "1024"], cpus[0])?;
    let (items, cpu) = (options.items.to_string(), cpus[1].to_string());
    let duration = format!("{}ms", (options.seconds * 1000.0) as u64);
    let run = |flags: &[&str]| -> Result<Value> {
        let mut words = vec!["load", &server.url, "--quiet", "--json", "-", "--items", &items, "--cpu", &cpu];
        words.extend(["--duration", &duration, "--warmup", "300ms", "--get", GET, "--popularity", law]);
        words.extend(["--draw-ahead", DRAWN]);
        words.extend(flags);
        Ok(serde_json::from_slice(&call(options, &words)?)?)
    };
    let mut fill = vec!["--fill"];
    fill.extend(flags);
    run(&fill)?;
    let throughput = number(&run(flags)?, "/throughput_ops")?;
    let (mut p95_us, mut generator_busy) = ([0.0; SHARES.len()], [0.0; SHARES.len()]);
    for (at, (share, _)) in SHARES.into_iter().enumerate() {
        let rate = format!("{:.0}", throughput * share);
        let mut words: Vec<&str> = match is_native {
            true => flags[..2].to_vec(),
            false => ["--batch", "32", "--connections", "8"].to_vec(),
        };
        words.extend(["--rate", &rate, "--arrivals", "batches"]);
        let report = run(&words)?;
        generator_busy[at] = number(&report, "/generator/busy_ratio")?;
        p95_us[at] = number(&report, "/latency_us/p95")?;
    }
    Ok(Loaded { figures: Figures { throughput, p95_us }, generator_busy })
}

/// Measures the engine alone, on this core.
fn engine(options: &Options, law: &str) -> Result<Vec<f64>> {
    let law = match law {
        "uniform" => Popularity::Uniform,
        _ => Popularity::Zipf,
    };
    gets_per_second(law, options.items, options.common.rounds())
}
