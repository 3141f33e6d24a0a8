//! Access modes: of the engine alone, from datagram to reply, and of a whole server over UDP.

use micanite_workload::figure::{Arrangement, Axis, BarChart, Kind, Series};

use super::super::grid;
use crate::report::section::{Command, Exhibit, Form, Results};
use crate::results::measurement::Record;

const FED: &str = "modes from datagram to reply, ";
const UDP: &str = "modes over UDP, ";
const STEP: &str = "time of a request";

pub(in super::super) fn commands(form: Form) -> Vec<Command> {
    let fed = form.pick("net --quick --rounds 2 --items 262144 --case", "net --rounds 5 --case");
    let udp = form.pick(
        "evaluation --quick --rounds 2 --seconds 0.2 --items 262144 --case",
        "evaluation --rounds 5 --seconds 0.3 --items 1048576 --case",
    );
    let commands = [
        super::super::engine(form).with("--case").with("modes, "),
        Command::lab("net", fed).with(FED),
        Command::lab("server", udp).with(format!("{UDP}{}", form.pick("cache", ""))),
    ];
    let lacking = |command: Command| match super::super::cores() {
        1 => command.lacking("Access modes need two cores."),
        _ => command,
    };
    commands.map(lacking).into()
}

pub(in super::super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let [engine, fed] = grid::either(results, ["engine", "net"])?;
    let udp = results.records("server").unwrap_or_default();
    let mut shown = Vec::new();
    if !engine.is_empty() {
        let title = "Operations per second of all cores by access mode, the engine alone";
        let chart = grid::bars(&engine, title, ("throughput", "operations/s"), "modes, ");
        let beside = grid::ratios(&engine, "EREW beside the others, the engine alone");
        shown.extend([Exhibit::Bars(chart), Exhibit::Table(beside)]);
        let cores = super::super::cores();
        let case = format!("modes, zipf 0.99, 50 % GET, {cores} cores");
        let what =
            format!("Exclusive beside shared access, {cores} cores, Zipf 0.99, half SETs (EREW, CRCW)");
        let published =
            "MICA: 65.6 at least (exclusive), 21.6 at least (concurrent) million requests per second";
        let place = (case.as_str(), "throughput", "CRCW");
        shown.extend(grid::headline(&engine, &what, place, published));
    }
    if !fed.is_empty() {
        let title = "Requests per second of two cores by access mode, from datagram to reply";
        let chart = grid::bars(&fed, title, ("throughput", "requests/s"), FED);
        let beside = grid::beside(&fed, "EREW beside the others, from datagram to reply", "throughput", FED);
        shown.extend([Exhibit::Bars(chart), Exhibit::Table(beside), Exhibit::Bars(steps(&fed))]);
        let title = "Reads that had to be repeated because of a writer, per million requests";
        let again: Vec<_> =
            fed.iter().filter(|record| record.metric.starts_with("reads again")).cloned().collect();
        if !again.is_empty() {
            shown.push(Exhibit::Table(grid::values(&again, title)));
        }
    }
    if !udp.is_empty() {
        let title = "Requests per second of a server's core by access mode, over UDP, two workers";
        let metric = "per server-core-second";
        let chart = grid::bars(&udp, title, (metric, "requests per server-core-second"), UDP);
        let table = grid::table(&udp, "The same with its spread", metric, UDP);
        shown.extend([Exhibit::Bars(chart), Exhibit::Table(table)]);
    }
    Ok(shown)
}

/// Time of a request by mode and by who executes it.
fn steps(records: &[Record]) -> BarChart {
    let prefix = format!("{FED}steps, ");
    let of_steps: Vec<_> = records
        .iter()
        .filter_map(|record| {
            let case = record.case.strip_prefix(&prefix)?;
            let step = record.metric.strip_prefix(STEP)?.strip_prefix(", ")?;
            Some((case, step, record))
        })
        .collect();
    let (mut cases, mut names) = (Vec::new(), Vec::new());
    for (case, step, _) in &of_steps {
        if !cases.contains(case) {
            cases.push(*case);
        }
        if !names.contains(step) {
            names.push(*step);
        }
    }
    let find = |case: &str, step: &str| {
        let found = of_steps.iter().find(|(of, name, _)| (*of, *name) == (case, step));
        found.map(|(.., record)| record.bar())
    };
    let series = |step: &&str| Series {
        name: (*step).to_owned(),
        kind: Kind::Measured,
        bars: cases.iter().map(|case| find(case, step)).collect(),
    };
    BarChart {
        title: "Time of a request by who executes it, a cache".to_owned(),
        x: Axis::linear("ns"),
        groups: cases.iter().map(|case| (*case).to_owned()).collect(),
        series: names.iter().map(series).collect(),
        arrangement: Arrangement::Beside,
        reference: None,
    }
}
