//! Misses after a change of sizes: a workload whose items have other lengths than those before it, simulated
//! behind them and by itself.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Options, Simulated, run_micanite, text};
use crate::Result;
use crate::results::measurement::{Measurement, folder};

/// First life, second life, memory: the second fits in one case of the two, and not in the other.
const CHANGES: [(Life, Life, &str); 4] = [
    (Life { workload: "mica-large", items: 20_000 }, Life { workload: "mica-tiny", items: 100_000 }, "16m"),
    (Life { workload: "mica-large", items: 20_000 }, Life { workload: "mica-tiny", items: 400_000 }, "8m"),
    (Life { workload: "mica-tiny", items: 600_000 }, Life { workload: "mica-large", items: 8_000 }, "16m"),
    (Life { workload: "mica-tiny", items: 600_000 }, Life { workload: "mica-large", items: 12_000 }, "8m"),
];
/// Requests of each life, behind a SET of each item. Half of the second's count.
const REQUESTS: u64 = 400_000;
const POLICIES: &str = "s3-fifo,clock,approximate-lru,engine:lru,engine:fifo";

/// A workload and its number of items.
#[derive(Clone, Copy)]
struct Life {
    workload: &'static str,
    items: u64,
}

/// Enters what each policy misses in the second life, and what it misses without a first one.
pub(super) fn change(options: &Options, report: &mut Measurement) -> Result<()> {
    std::fs::create_dir_all(folder())?;
    let trace = folder().join("traces-sizes.csv");
    for (first, second, memory) in CHANGES {
        let case = format!("sizes change, {} then {}, {memory}", first.workload, second.workload);
        eprintln!("{case}");
        let metrics = [("after", vec![first, second]), ("fresh", vec![second])];
        for (metric, lives) in metrics {
            generate(options, &lives, &trace)?;
            for Simulated { policy, misses, .. } in simulate(options, &lives, memory, &trace)? {
                report.value(&format!("{case}, {policy}"), metric, "", &misses[..1]);
            }
        }
    }
    Ok(())
}

/// Writes a trace of these lives to a file.
fn generate(options: &Options, lives: &[Life], trace: &Path) -> Result<()> {
    let mut command = Command::new(&options.binaries.server);
    let (first, others) = lives.split_first().ok_or("no workload")?;
    command.args(["trace", "generate", first.workload, "--items", &first.items.to_string(), "--fill"]);
    command.args(["--requests", &REQUESTS.to_string()]);
    for life in others {
        command.arg("--then").arg(format!("{},{}", life.workload, life.items));
    }
    let status = command.stdin(Stdio::null()).stdout(File::create(trace)?).status()?;
    status.success().then_some(()).ok_or_else(|| format!("micanite trace generate: {status}").into())
}

/// Returns what each policy misses in the last requests of the trace.
fn simulate(options: &Options, lives: &[Life], memory: &str, trace: &Path) -> Result<Vec<Simulated>> {
    let csv = folder().join("traces-sizes-simulated.csv");
    let all: u64 = lives.iter().map(|life| life.items + REQUESTS).sum();
    let warmup = (1.0 - (REQUESTS / 2) as f64 / all as f64).to_string();
    let words = ["trace", "simulate", text(trace)?, "--bytes", memory, "--sample", "1", "--policy", POLICIES];
    run_micanite(options, &[&words[..], &["--warmup", &warmup, "--csv", text(&csv)?]].concat())?;
    let lines = std::fs::read_to_string(&csv)?;
    Ok(lines.lines().skip(1).map(str::parse).collect::<std::result::Result<_, _>>()?)
}
