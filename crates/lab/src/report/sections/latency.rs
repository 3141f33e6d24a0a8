//! Latency against throughput.

use micanite_workload::figure::{Axis, short};

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Headline, Results, Section};
use crate::results::measurement::Record;

pub(super) const SECTION: Section = Section {
    id: "latency",
    title: "Latency against throughput",
    question: "How long does a request take when so many others are asked for, up to what a server can do?",
    source: "MICA (NSDI 2014), figure 13; billion-rps (TOCS 2016), figure 9",
    published: "MICA: 24 to 52 us end to end at 50 % GET of uniform tiny items; at about 40 us 69 million requests per second, more than two orders of magnitude above Memcached over the kernel's stack. billion-rps: from 10 to 120 million requests per second the mean goes from 19 to 81 us, the 95th percentile from 22 to 96 us.",
    differs: "One server core and one client core over loopback and the kernel's network stack, where waking and the stack itself take tens of microseconds on a virtual machine. Each server is asked at parts of its own peak; requests are due at random (Poisson) and their time counts from when they were due. One request in a datagram; 16 connections of streams. What was not answered within 0.2 s counts as that long.",
    commands,
    draw,
};

fn commands(form: Form) -> Vec<Command> {
    let words = form.pick(
        "evaluation --case latency --quick --rounds 3 --seconds 0.2",
        "evaluation --case latency --rounds 5 --seconds 0.25 --items 1048576",
    );
    vec![Command::lab("evaluation", words).with_peers()]
}

fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
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
    shown.extend(at_half(&records));
    Ok(shown)
}

/// Ours at half of its peak, for the summary.
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
