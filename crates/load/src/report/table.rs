//! Reports as text.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use micanite_workload::figure;

use crate::plan::Plan;
use crate::report::Report;

pub(crate) fn run_text(report: &Report) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<22}{value}");
    };
    let plan = &report.plan;
    for (target, version) in plan.targets.iter().zip(&report.servers) {
        let version = version.as_ref().map(|version| format!(" ({version})"));
        row("target", format!("{target}{}", version.unwrap_or_default()));
    }
    row("load", load_line(report));
    if let Some(offered) = report.offered_ops {
        row("offered", format!("{} ops/s", grouped(offered)));
    }
    row("throughput", format!("{} ops/s", grouped(report.throughput_ops)));
    row("requests", requests_line(report));
    row("loss", format!("{:.3} %", report.loss_ratio * 100.0));
    if let Some(hit_ratio) = report.hit_ratio {
        row("hit ratio", format!("{:.2} %", hit_ratio * 100.0));
    }
    row("wrong values", report.counts.wrong_values.to_string());
    row("latency us", report.latency_us.line());
    if let (Some(get), Some(set)) = (&report.get_latency_us, &report.set_latency_us) {
        row("GET us", get.line());
        row("SET us", set.line());
    }
    if let Some(cpu_s) = report.server_cpu_s {
        let per_second = report.ops_per_server_core_second.map_or("-".to_owned(), grouped);
        row("server CPU", format!("{cpu_s:.2} s, {per_second} ops per core second"));
    }
    if let Some(port) = &report.port {
        row("port", format!("{}: {}", port.name, port.description));
        row("frames", port.line());
    }
    if let Some(ratio) = report.local_ratio {
        row("in memory", format!("{:.2} % of the GETs", ratio * 100.0));
    }
    if let Some(fabric) = &report.fabric {
        fabric.rows().into_iter().for_each(|(name, value)| row(name, value));
    }
    if let Some(batches) = &report.batches {
        batches.rows().into_iter().for_each(|(name, value)| row(name, value));
    }
    let generator = &report.generator;
    row(
        "generator",
        format!(
            "busy {:.0} %, {:.2} s of CPU time, {:.0} % of its cores; {} ops per core second",
            generator.busy_ratio * 100.0,
            generator.cpu_s_by_thread.iter().sum::<f64>(),
            generator.cpu_ratio * 100.0,
            generator.ops_per_core_second.map_or("-".to_owned(), grouped)
        ),
    );
    for warning in &report.warnings {
        row("warning", warning.clone());
    }
    text
}

fn load_line(report: &Report) -> String {
    let plan = &report.plan;
    let kind = if plan.rate_ops.is_some() { "open" } else { "closed" };
    format!(
        "{kind} loop, {} x {} in flight, batch {}, multiget {}; {}; {:.1} s",
        plan.connections,
        plan.pipeline,
        if plan.adaptive_batch { "adaptive".to_owned() } else { plan.batch.to_string() },
        plan.multiget,
        data_words(plan),
        report.measured_s,
    )
}

/// Describes the data and the requests.
fn data_words(plan: &Plan) -> String {
    let name = match plan.workload {
        None => plan.dataset.to_string(),
        Some(workload) => workload.to_string(),
    };
    let items = plan.items;
    let mut words = match plan.operations() {
        None => format!("{name}, {items} items, {}, {} % GET", plan.popularity, plan.get_percent),
        Some(parts) => {
            let [gets, updates, deletes] = parts.map(|part| 100.0 * part / parts.iter().sum::<f64>());
            format!("{name}, {items} items, {gets:.1} % GET, {updates:.1} % UPDATE, {deletes:.1} % DELETE")
        }
    };
    if plan.demand_fill {
        words.push_str(", misses stored");
    }
    words
}

fn requests_line(report: &Report) -> String {
    let mut line = format!("{} sent, {} answered", report.counts.sent, report.counts.answered);
    for (number, what) in [
        (report.counts.lost, "lost"),
        (report.counts.unsent, "not sent"),
        (report.counts.late, "late"),
        (report.counts.resent, "resent"),
        (report.counts.refused, "refused"),
    ] {
        if number > 0 {
            let _ = write!(line, ", {number} {what}");
        }
    }
    line
}

/// Several runs, a line each.
pub(crate) fn runs_text(reports: &[Report]) -> String {
    let mut text = String::from(
        "     offered   throughput  loss %       p50 us       p95 us       p99 us     p99.9 us       max us  \
         busy %\n",
    );
    for report in reports {
        let latency = &report.latency_us;
        let _ = writeln!(
            text,
            "{:>12} {:>12} {:>7.3} {:>12.1} {:>12.1} {:>12.1} {:>12.1} {:>12.1} {:>7.0}",
            grouped(report.offered_ops.unwrap_or(report.throughput_ops)),
            grouped(report.throughput_ops),
            report.loss_ratio * 100.0,
            latency.p50,
            latency.p95,
            latency.p99,
            latency.p999,
            latency.max,
            report.generator.busy_ratio * 100.0,
        );
    }
    text
}

/// Percentiles in the text format of HdrHistogram, values in microseconds.
pub(crate) fn percentiles(latency_ns: &Histogram<u64>) -> String {
    let mut text =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut count = 0;
    for step in latency_ns.iter_quantiles(5) {
        count += step.count_since_last_iteration();
        let quantile = step.quantile_iterated_to();
        let value_us = step.value_iterated_to() as f64 / 1e3;
        let _ = write!(text, "{value_us:>12.3} {quantile:>2.12} {count:>10}");
        let _ =
            if quantile < 1.0 { writeln!(text, " {:>14.2}", 1.0 / (1.0 - quantile)) } else { writeln!(text) };
    }
    let _ = write!(
        text,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]\n\
         #[Max     = {:>12.3}, Total count    = {:>12}]\n\
         #[Buckets = {:>12}, SubBuckets     = {:>12}]\n",
        latency_ns.mean() / 1e3,
        latency_ns.stdev() / 1e3,
        latency_ns.max() as f64 / 1e3,
        latency_ns.len(),
        latency_ns.buckets(),
        2048,
    );
    text
}

/// A whole number with spaces between thousands.
fn grouped(number: f64) -> String {
    figure::grouped(number, ' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::latencies::latency_histogram;

    #[test]
    fn percentiles_end_with_all_of_them() {
        let mut latency = latency_histogram();
        (1..=1000).for_each(|us| latency.record(us * 1000).unwrap());
        let text = percentiles(&latency);
        let rows: Vec<_> =
            text.lines().filter(|line| line.starts_with(' ') && !line.contains("Value")).collect();
        let last: Vec<_> = rows.last().unwrap().split_whitespace().collect();
        assert_eq!((last[1], last[2]), ("1.000000000000", "1000"));
        let half = rows.iter().find(|row| row.contains(" 0.5000")).unwrap();
        let value: f64 = half.split_whitespace().next().unwrap().parse().unwrap();
        assert!((499.0..502.0).contains(&value), "{half}");
        assert!(text.contains("Total count    =         1000"));
    }
}
