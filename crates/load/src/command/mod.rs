//! `micanite load`: options in, reports out.

pub(crate) mod options;
mod search;
mod self_test;
mod sweep;

use std::process::ExitCode;

use micanite_client::BypassPort;
use micanite_control::stderr;
use micanite_workload::figure::grouped;
use micanite_workload::trace::Failure;
use serde::Serialize;

pub use options::LoadOptions;
use search::search;
use self_test::self_test;
use sweep::{fan_outs, sweep};

use crate::output;
use crate::plan::Plan;
use crate::report::{BatchReport, Latency, Report};
use crate::report::{batches_chart, batches_text, latency_chart, table};
use crate::run::progress::Progress;
use crate::run::{fill, run_watched};

/// Runs the command.
pub fn load(options: &LoadOptions) -> ExitCode {
    match execute(options) {
        Ok(true) => ExitCode::SUCCESS,
        // Wrong values, no reply at all, or nothing found within the bound.
        Ok(false) => ExitCode::from(Failure::EXIT_FAILED),
        Err(failure) => failure.tell("load"),
    }
}

/// Returns whether everything was as it should be.
fn execute(options: &LoadOptions) -> Result<bool, Failure> {
    if options.self_test {
        return execute_self_test(options);
    }
    if let Some(reason) = options.contradiction() {
        return Err(Failure::usage(reason));
    }
    let mut plan = options.plan();
    options.tls.apply(&mut plan.targets).map_err(Failure::usage)?;
    if let Some(port) = options.port_options() {
        // Before anything is touched.
        plan.check_port(&port.name).map_err(Failure::usage)?;
        let port = BypassPort::open(&port).map_err(|error| Failure::new(error.to_string()))?;
        if !options.quiet {
            stderr::say(format_args!("{}: {}", port.name(), port.description()));
        }
        plan.port = Some(port);
    }
    plan.check().map_err(Failure::usage)?;
    if options.svg.is_some() && options.sweep.is_none() && options.search.is_none() {
        return Err(Failure::usage("--svg draws several runs: add --sweep or --search"));
    }
    if options.fan_out.is_none() {
        fill_first(&plan, options).map_err(Failure::new)?;
    }
    let mut runs = 0;
    let mut one = |plan: &Plan| {
        // A pool's new keys have to be new to a server that remembers the run before.
        let seed = plan.workload.map_or(0, |_| runs);
        runs += 1;
        let seed = plan.seed.wrapping_add(seed);
        run_shown(&Plan { seed, ..plan.clone() }, options)
    };
    if let (Some(numbers), Some(rates)) = (&options.fan_out, &options.sweep) {
        let mut servers = 0;
        let runs = fan_outs(&plan, (numbers, rates), |plan| {
            // Other servers have other keys.
            if std::mem::replace(&mut servers, plan.targets.len()) != plan.targets.len() {
                fill_first(plan, options)?;
            }
            one(plan)
        });
        let runs = runs.map_err(Failure::new)?;
        finish_several(options, &runs, None, "Requests per datagram")?;
        return Ok(runs.iter().all(Report::is_sound));
    }
    if let Some(rates) = &options.sweep {
        let runs = sweep(&plan, rates, one).map_err(Failure::new)?;
        finish_several(options, &runs, highest(&runs), "Latency against throughput")?;
        return Ok(runs.iter().all(Report::is_sound));
    }
    if let Some(bound) = options.search {
        plan.rate_ops = options.rate;
        let found = search(&plan, bound, one).map_err(Failure::new)?;
        let title = format!("Search for the highest rate with {bound}");
        finish_several(options, &found.runs, found.best.as_ref(), &title)?;
        if found.best.is_none() {
            stderr::say(format_args!("micanite load: no rate was found with {bound}"));
        }
        let wrong_values: u64 = found.runs.iter().map(|run| run.counts.wrong_values).sum();
        return Ok(wrong_values == 0 && found.best.is_some());
    }
    let report = one(&plan).map_err(Failure::new)?;
    write_files(options, &report, &[])?;
    if !output::is_stdout(options.json.as_deref()) {
        output::say(&table::run_text(&report));
    }
    Ok(report.is_sound())
}

/// Stores the items, if they are to be stored by other connections.
fn fill_first(plan: &Plan, options: &LoadOptions) -> Result<(), String> {
    if plan.fill && !plan.own_fill {
        let filled = fill(plan)?;
        if !options.quiet {
            stderr::say(format_args!(
                "stored {} items in {:.1} s",
                grouped(filled.items as f64, ' '),
                filled.seconds
            ));
        }
    }
    Ok(())
}

/// One run with its progress on standard error.
fn run_shown(plan: &Plan, options: &LoadOptions) -> Result<Report, String> {
    let several = options.sweep.is_some() || options.search.is_some();
    let label = match plan.rate_ops {
        Some(rate_ops) if several => format!("at {} ops/s: ", grouped(rate_ops, ' ')),
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
    let tested = self_test(&options.plan()).map_err(Failure::new)?;
    if let Some(path) = &options.json {
        output::write_json(path, &tested)?;
    }
    if !output::is_stdout(options.json.as_deref()) {
        output::say("operations per second of one core of this generator, in requests like these:\n");
        for ability in &tested {
            let rate = grouped(ability.ops_per_core_second, ' ');
            output::say(&format!("{rate:>14}  {}\n", ability.what));
        }
    }
    Ok(true)
}

fn highest(runs: &[Report]) -> Option<&Report> {
    runs.iter().max_by(|a, b| a.throughput_ops.total_cmp(&b.throughput_ops))
}

fn finish_several(
    options: &LoadOptions,
    runs: &[Report],
    chosen: Option<&Report>,
    title: &str,
) -> Result<(), Failure> {
    if let Some(path) = &options.svg {
        let svg = match options.fan_out {
            Some(_) => batches_chart(title, runs),
            None => latency_chart::draw(title, runs),
        };
        output::write(path, &svg)?;
    }
    if let Some(report) = chosen.or_else(|| highest(runs)) {
        write_files(options, report, runs)?;
    }
    if !output::is_stdout(options.json.as_deref()) {
        output::say(&table::runs_text(runs));
        if runs.iter().any(|run| run.batches.is_some()) {
            output::say(&format!("\n{}", batches_text(runs)));
        }
        if let Some(report) = chosen {
            output::say("\n");
            output::say(&table::run_text(report));
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
    batches: Option<BatchReport>,
}

fn write_files(options: &LoadOptions, report: &Report, runs: &[Report]) -> Result<(), Failure> {
    if let Some(path) = &options.histogram {
        output::write(path, &table::percentiles(&report.latency_ns))?;
    }
    let Some(path) = &options.json else {
        return Ok(());
    };
    let point = |report: &Report| Point {
        offered_ops: report.offered_ops,
        throughput_ops: report.throughput_ops,
        loss_ratio: report.loss_ratio,
        wrong_values: report.counts.wrong_values,
        latency_us: report.latency_us,
        ops_per_server_core_second: report.ops_per_server_core_second,
        generator_busy_ratio: report.generator.busy_ratio,
        batches: report.batches.clone(),
    };
    let runs = runs.iter().map(point).collect();
    output::write_json(path, &Document { report, runs })
}
