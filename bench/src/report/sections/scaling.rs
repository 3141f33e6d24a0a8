//! Throughput by the number of cores.

use micanite_workload::figure::Axis;

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results, Table};

pub(super) fn commands(form: Form) -> Vec<Command> {
    let server = form.pick(
        "evaluation --quick --rounds 2 --seconds 0.3 --case",
        "evaluation --rounds 5 --seconds 0.5 --items 1048576 --case",
    );
    let mut commands = vec![
        super::engine(form).with("--case").with("cores of the engine"),
        Command::lab("evaluation", server).with("cores of a server"),
    ];
    let cores = super::cores();
    if cores < 4 {
        if cores > 1 {
            let shared = Command::lab("shared", server);
            commands.push(shared.with("workers on the client's cores"));
        }
        let more = Command::lab("evaluation-more", server).with("cores of a server");
        commands.push(more.lacking(format!(
            "Of {cores} cores a server gets one: on a larger machine the same command measures 1, 2, 4 ... \
             workers, up to half of its cores, with as many threads of the client."
        )));
    }
    commands
}

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let [engine, server] = grid::either(results, ["engine", "evaluation"])?;
    let shared = results.records("shared").unwrap_or_default();
    let title = "The engine by the number of its cores, exclusive partitions";
    let x = ("cores of the engine, ", "", Axis::linear("cores"));
    let y = ("throughput", Axis::linear("operations/s"));
    let mut shown = Vec::new();
    if !engine.is_empty() {
        shown.push(Exhibit::Lines(grid::by_number(&engine, title, x, y)));
        let beside = "More cores beside one";
        shown.push(Exhibit::Table(grid::ratios(&engine, beside)));
    }
    if !shared.is_empty() {
        let title = "Requests per second of a server's core by the number of workers, on cores that the \
                     client has, too";
        let prefix = "workers on the client's cores, ";
        let table = grid::table(&shared, title, "per server-core-second", prefix);
        shown.push(Exhibit::Table(by_workers(table)));
    }
    if server.is_empty() {
        return Ok(shown);
    }
    let prefix = "cores of a server, ";
    if server.iter().any(|record| record.case != "cores of a server, 1") {
        let title = "Servers by the number of their workers, Zipf 0.99, 95 % GET";
        let x = (prefix, "", Axis::linear("workers"));
        let y = ("throughput", Axis::linear("requests/s"));
        shown.push(Exhibit::Lines(grid::by_number(&server, title, x, y)));
    }
    let title = "Requests per second of servers by the number of their workers, Zipf 0.99, 95 % GET";
    let table = grid::table(&server, title, "throughput", prefix);
    shown.push(Exhibit::Table(by_workers(table)));
    Ok(shown)
}

/// Cases are numbers of workers.
fn by_workers(mut table: Table) -> Table {
    if let Some(name) = table.columns.first_mut() {
        "workers".clone_into(name);
    }
    table
}
