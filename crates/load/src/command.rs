//! `micanite load`: options in, reports out.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use micanite_client::BypassPort;
use serde::Serialize;

use crate::options::LoadOptions;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::{Latency, Report};
use crate::run::{fill, run_watched};
use crate::search::search;
use crate::self_test::self_test;
use crate::sweep::sweep;
use crate::table::grouped;
use crate::{latency_chart, table};

/// Wrong values, no reply at all, no server, or nothing found within the bound.
pub const EXIT_LOAD_FAILED: u8 = 1;
/// The options do not make sense.
pub const EXIT_LOAD_USAGE: u8 = 2;

/// What a command ends with that could not do its work.
struct Failure {
    status: u8,
    reason: String,
}

/// Runs the command.
pub fn load(options: &LoadOptions) -> ExitCode {
    match execute(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_LOAD_FAILED),
        Err(Failure { status, reason }) => {
            eprintln!("micanite load: {reason}");
            ExitCode::from(status)
        }
    }
}

fn usage(reason: String) -> Failure {
    Failure {
        status: EXIT_LOAD_USAGE,
        reason,
    }
}

fn failed(reason: String) -> Failure {
    Failure {
        status: EXIT_LOAD_FAILED,
        reason,
    }
}

/// Returns whether everything was as it should be.
fn execute(options: &LoadOptions) -> Result<bool, Failure> {
    if options.self_test {
        return execute_self_test(options);
    }
    if let Some(reason) = options.contradiction() {
        return Err(usage(reason));
    }
    let mut plan = options.plan();
    if let Some(port) = options.port_options() {
        // Before anything is touched.
        plan.check_port(&port.name).map_err(usage)?;
        let port = BypassPort::open(&port).map_err(|error| failed(error.to_string()))?;
        if !options.quiet {
            eprintln!("{}: {}", port.name(), port.description());
        }
        plan.port = Some(port);
    }
    plan.check().map_err(usage)?;
    if options.svg.is_some() && options.sweep.is_none() && options.search.is_none() {
        return Err(usage(
            "--svg draws several runs: add --sweep or --search".to_owned(),
        ));
    }
    if plan.fill {
        let filled = fill(&plan).map_err(failed)?;
        if !options.quiet {
            eprintln!(
                "stored {} items in {:.1} s",
                grouped(filled.items as f64),
                filled.seconds
            );
        }
    }
    let mut runs = 0;
    let mut one = |plan: &Plan| {
        // A pool's new keys have to be new to a server that remembers the run before.
        let seed = plan.workload.map_or(0, |_| runs);
        runs += 1;
        let seed = plan.seed.wrapping_add(seed);
        run_shown(
            &Plan {
                seed,
                ..plan.clone()
            },
            options,
        )
    };
    if let Some(rates) = &options.sweep {
        let runs = sweep(&plan, rates, one).map_err(failed)?;
        finish_several(options, &runs, highest(&runs), "Latency against throughput")?;
        return Ok(runs.iter().all(Report::is_sound));
    }
    if let Some(bound) = options.search {
        plan.rate_ops = options.rate;
        let found = search(&plan, bound, one).map_err(failed)?;
        let title = format!("Search for the highest rate with {bound}");
        finish_several(options, &found.runs, found.best.as_ref(), &title)?;
        if found.best.is_none() {
            eprintln!("micanite load: no rate was found with {bound}");
        }
        let wrong_values: u64 = found.runs.iter().map(|run| run.wrong_values).sum();
        return Ok(wrong_values == 0 && found.best.is_some());
    }
    let report = one(&plan).map_err(failed)?;
    write_files(options, &report, &[])?;
    if !json_on_stdout(options) {
        say(&table::of_run(&report));
    }
    Ok(report.is_sound())
}

/// One run with its progress on standard error.
fn run_shown(plan: &Plan, options: &LoadOptions) -> Result<Report, String> {
    let several = options.sweep.is_some() || options.search.is_some();
    let label = match plan.rate_ops {
        Some(rate_ops) if several => format!("at {} ops/s: ", grouped(rate_ops)),
        _ => String::new(),
    };
    let mut progress = Progress::new(&label);
    run_watched(plan, |second| {
        if !options.quiet {
            progress.show(second);
        }
    })
}

fn execute_self_test(options: &LoadOptions) -> Result<bool, Failure> {
    let tested = self_test(&options.plan()).map_err(failed)?;
    if let Some(path) = &options.json {
        write_json(path, &tested)?;
    }
    if !json_on_stdout(options) {
        say("operations per second of one core of this generator, in requests like these:\n");
        for ability in &tested {
            let rate = grouped(ability.ops_per_core_second);
            say(&format!("{rate:>14}  {}\n", ability.what));
        }
    }
    Ok(true)
}

/// The run with the highest throughput.
fn highest(runs: &[Report]) -> Option<&Report> {
    runs.iter()
        .max_by(|a, b| a.throughput_ops.total_cmp(&b.throughput_ops))
}

fn finish_several(
    options: &LoadOptions,
    runs: &[Report],
    chosen: Option<&Report>,
    title: &str,
) -> Result<(), Failure> {
    if let Some(path) = &options.svg {
        write(path, &latency_chart::draw(title, runs))?;
    }
    if let Some(report) = chosen.or_else(|| highest(runs)) {
        write_files(options, report, runs)?;
    }
    if !json_on_stdout(options) {
        say(&table::of_runs(runs));
        if let Some(report) = chosen {
            say("\n");
            say(&table::of_run(report));
        }
    }
    Ok(())
}

/// A report, and the runs that it was chosen from.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runs: Vec<Point>,
}

/// A run among several.
#[derive(Serialize)]
struct Point {
    offered_ops: Option<f64>,
    throughput_ops: f64,
    loss_ratio: f64,
    wrong_values: u64,
    latency_us: Latency,
    ops_per_server_core_second: Option<f64>,
    generator_busy_ratio: f64,
}

fn write_files(options: &LoadOptions, report: &Report, runs: &[Report]) -> Result<(), Failure> {
    if let Some(path) = &options.histogram {
        write(path, &table::percentiles(&report.latency_ns))?;
    }
    let Some(path) = &options.json else {
        return Ok(());
    };
    let point = |report: &Report| Point {
        offered_ops: report.offered_ops,
        throughput_ops: report.throughput_ops,
        loss_ratio: report.loss_ratio,
        wrong_values: report.wrong_values,
        latency_us: report.latency_us,
        ops_per_server_core_second: report.ops_per_server_core_second,
        generator_busy_ratio: report.generator.busy_ratio,
    };
    let runs = runs.iter().map(point).collect();
    write_json(path, &Document { report, runs })
}

fn json_on_stdout(options: &LoadOptions) -> bool {
    options.json.as_deref() == Some(Path::new("-"))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| failed(error.to_string()))?;
    write(path, &(text + "\n"))
}

/// Writes a file; `-` is standard output.
fn write(path: &Path, content: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        say(content);
        return Ok(());
    }
    std::fs::write(path, content)
        .map_err(|error| failed(format!("cannot write {}: {error}", path.display())))
}

/// Prints. Where nobody reads any more, nothing is lost.
fn say(text: &str) {
    let mut to = std::io::stdout().lock();
    let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}
