//! Parts of a request's time.

use micanite_workload::figure::{Arrangement, BarChart};

use super::grid;
use crate::report::machine;
use crate::report::section::{Command, Exhibit, Form, Results};
use crate::results::charts;
use crate::results::measurement::Record;

const PORT: &str = "bench-bypass";

pub(super) fn commands(form: Form) -> Vec<Command> {
    let server = form.pick(
        "evaluation --quick --rounds 2 --seconds 0.4 --case",
        "evaluation --rounds 3 --seconds 1 --items 1048576 --case",
    );
    let words =
        form.pick("bypass --quick --rounds 3 --items 4194304 --case parts", "bypass --rounds 7 --case parts");
    let mut port = Command::lab(PORT, words);
    port.lacks = match cfg!(feature = "dpdk") {
        true => machine::lacks_root(),
        false => Some(
            "The parts of a request at a port of DPDK (I/O, headers, parsing, engine, reply) need a build \
             with DPDK (libdpdk-dev)."
                .to_owned(),
        ),
    };
    vec![
        Command::lab("evaluation", server).with("parts of a request's time"),
        super::engine(form).with("--case").with("parts of a GET"),
        port,
    ]
}

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
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
    if let Ok(mut port) = results.records(PORT) {
        for record in &mut port {
            let mix = record.case.trim_start_matches("memif/tiny/").trim_end_matches("/parts");
            record.case = format!("{mix} % GET");
        }
        let title = "Time of a request in the server's own loop over memif, by samples";
        shown.push(stacked(title, &port, ""));
        shown.push(Exhibit::Table(grid::values(&port, "Parts of a request in the server's own loop (ns)")));
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
