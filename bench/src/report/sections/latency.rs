//! Latency against throughput.

use micanite_workload::figure::{Axis, short};

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Headline, Results};
use crate::results::measurement::Record;

pub(super) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick(
        "evaluation --case latency --quick --rounds 3 --seconds 0.2",
        "evaluation --case latency --rounds 5 --seconds 0.25 --items 1048576",
    );
    vec![Command::lab("evaluation", words).with_peers()]
}

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("evaluation")?;
    let mut shown = Vec::new();
    for (metric, what) in [("p50", "median"), ("p99", "99th percentile")] {
        let title = format!("Latency against throughput: {what}");
        let x = ("throughput", Axis::log("throughput (requests/s)"));
        let y = (metric, Axis::log(format!("{what} (us)")));
        shown.push(Exhibit::Lines(grid::curves(&records, &title, x, y)));
    }
    for (metric, title) in [
        ("p50", "Median (us)"),
        ("p95", "95th percentile (us)"),
        ("p99", "99th percentile (us)"),
        ("throughput", "Requests per second that were answered"),
        ("not answered", "Requests that were not answered in time (%)"),
    ] {
        shown.push(Exhibit::Table(grid::table(&records, title, metric, "")));
    }
    shown.extend(grid::energy(&records, ""));
    shown.extend(at_half(&records));
    Ok(shown)
}

/// Summarizes our latency at half of the peak.
fn at_half(records: &[Record]) -> Option<Exhibit> {
    let of = |metric: &str| {
        let metric = format!("{metric}, micanite native");
        let is_it =
            |record: &&Record| record.case == "latency at 50 % of the peak" && record.metric == metric;
        records.iter().find(is_it).map(|record| short(record.value))
    };
    let (rate, p50, p95) = (of("throughput")?, of("p50")?, of("p95")?);
    Some(Exhibit::Headline(Headline {
        what: "Latency at half of what a server core can do, native, tiny items, half of them SETs"
            .to_owned(),
        ours: format!("median {p50} us, 95th percentile {p95} us, at {rate} requests per second"),
        published: "MICA on 16 cores: 24 to 52 us".to_owned(),
    }))
}
