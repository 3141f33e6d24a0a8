//! Throughput by the number of connections.

use micanite_workload::figure::Axis;

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results, Section};

pub(super) const SECTION: Section = Section {
    id: "connections",
    title: "Connections and pipelines",
    question: "What does a core answer over TCP when its clients are few or many, with and without pipelines?",
    source: "no figure of the papers: their servers had no connections",
    published: "Nothing: MICA's protocol is one of datagrams.",
    differs: "All servers on the same core in turns, with small items (16-byte keys, 64-byte values) and 95 % GET; the client is one thread on another core and spends more than the server when connections are many.",
    commands,
    draw,
};

fn commands(form: Form) -> Vec<Command> {
    let words = form.pick(
        "evaluation --case connections --quick --rounds 2 --seconds 0.2",
        "evaluation --case connections --rounds 3 --seconds 0.3 --items 1048576",
    );
    vec![Command::lab("evaluation", words).with_peers()]
}

fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("evaluation")?;
    let mut shown = Vec::new();
    for (after, what) in [
        (", one in flight", "one request in flight on each"),
        (", pipelines of 16", "pipelines of 16 on each"),
    ] {
        let title = format!("Requests per second of a server's core: {what}");
        let x = ("connections, ", after, Axis::log("connections"));
        let y = Axis::linear("requests per server-core-second");
        let metric = ("per server-core-second", y);
        shown.push(Exhibit::Lines(grid::by_number(&records, &title, x, metric)));
    }
    let per_second = "Requests per second, median and spread";
    let table = grid::table(&records, per_second, "throughput", "connections, ");
    shown.push(Exhibit::Table(table));
    Ok(shown)
}
