//! Where the time of a request goes.

use micanite_workload::figure::{Arrangement, BarChart};

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results, Section};
use crate::results::charts;
use crate::results::measurement::Record;

pub(super) const SECTION: Section = Section {
    id: "parts",
    title: "Time of a request by part",
    question: "Where does the time of a request go on the server's core, and where that of a GET in the engine?",
    source: "billion-rps (TOCS 2016), figure 6",
    published: "MICA spends about 45 % of its time on the network and 45 % on keys and values. Memcached over the kernel's stack spends more than 60 % on the network, about 11 % on locks, 13 % on memory, and about 10 % on keys and values.",
    differs: "By differences instead of a profile. A server's time is what the kernel's scheduler and clock ticks say: in the kernel, which is nearly all the network's, and in the program, which has protocol, engine and locks together. With one request in each message 64 datagrams are in the air, or 50 connections have one each; the kernel joins datagrams of the native protocol on their way (GSO, GRO), and those of memcached not. A GET of the engine is timed by loops that each do a step more than the one before: keys are made, hashed, looked up though nobody has stored them (the index), and found (item, comparison, copy). A step may seem to take less than nothing where it lets the CPU overlap more.",
    commands,
    draw,
};

fn commands(form: Form) -> Vec<Command> {
    let server = form.pick(
        "evaluation --quick --rounds 2 --seconds 0.4 --case",
        "evaluation --rounds 3 --seconds 1 --items 1048576 --case",
    );
    let port = Command::lab("bench-bypass", "bypass --case parts").lacking(
        "The parts of a request at a port of DPDK (I/O, headers, parsing, engine, reply) need a build with DPDK: `make bench-bypass ARGS=\"--case parts\"`.",
    );
    vec![
        Command::lab("evaluation", server).with("parts of a request's time"),
        super::engine(form).with("--case").with("parts of a GET"),
        port,
    ]
}

fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let mut shown = Vec::new();
    let [server, engine] = grid::either(results, ["evaluation", "engine"])?;
    let before = "parts of a request's time on the server's core, ";
    for (shape, what) in
        [("one request at a time, ", "one in each message"), ("batches, ", "many in each message")]
    {
        let title = format!("Time of a request on the server's core, {what}");
        let prefix = format!("{before}{shape}");
        shown.push(stacked(&title, &server, &prefix));
    }
    shown.push(stacked("Time of a GET in the engine", &engine, "parts of a GET, "));
    for (records, title) in
        [(server, "Parts of a request (ns)"), (engine, "Parts of a GET in the engine (ns)")]
    {
        let shorter = |record: &Record| Record {
            case: record.case.trim_start_matches(before).to_owned(),
            ..record.clone()
        };
        let records: Vec<_> = records.iter().map(shorter).collect();
        shown.push(Exhibit::Table(grid::values(&records, title)));
    }
    Ok(shown)
}

/// Parts one behind the other.
fn stacked(title: &str, records: &[Record], prefix: &str) -> Exhibit {
    let chart = charts::values((title, "ns per request"), records, |record| {
        let group = record.case.strip_prefix(prefix)?;
        (record.metric != "all").then_some((group, record.metric.as_str()))
    });
    Exhibit::Bars(BarChart { arrangement: Arrangement::Stacked, ..charts::not_below_zero(chart) })
}
