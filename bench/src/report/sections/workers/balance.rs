//! Per-core balance, hot and cold cores.

use micanite_workload::figure::{Arrangement, Axis, BarChart, Kind, Series, short};

use super::super::grid;
use crate::report::section::{Command, Exhibit, Form, Headline, Results, Table};
use crate::results::charts;
use crate::results::measurement::Record;

const HOT: &str = "hot partition from datagram to reply";
const BALANCING: &str = "balance of partitions";
const MOVING_ALL: &str = "balance of partitions, moving hot set";
const MOVING: &str = "balance of partitions, moving hot set, period ";
const OVER_UNIFORM: &str = "over uniform";
const CASE: &str = "skew over 16 partitions, 95 % GET, 1 per datagram, ";

pub(in super::super) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick("net --quick --rounds 2", "net --rounds 3");
    let case = form.pick("plain", "");
    let of_hot = form.pick("net --quick --rounds 2 --case", "net --rounds 5 --case");
    let balancing = form.pick("net --quick --rounds 1 --case", "net --rounds 3 --case");
    let mut modes = super::super::engine(form);
    for (law, _) in LOADS {
        modes = modes.with("--case").with(format!("modes, {law}, 95 % GET"));
    }
    vec![
        Command::lab("net", words).with("--case").with(format!("{CASE}{case}")),
        two_cores(modes),
        two_cores(Command::lab("hot", of_hot).with(HOT)),
        two_cores(Command::lab("balancing", balancing).with(BALANCING)),
    ]
}

fn two_cores(command: Command) -> Command {
    match super::super::cores() {
        1 => command.lacking("Workers beside each other need two cores."),
        _ => command,
    }
}

/// Popularities, and the modes that are shown of each.
const LOADS: [(&str, &[&str]); 2] = [("uniform", &["EREW"]), ("zipf 0.99", &["EREW", "CREW"])];

pub(in super::super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let [records, engine] = grid::either(results, ["net", "engine"])?;
    let mut shown = Vec::new();
    for way in ["plain", "GRO"] {
        let case = format!("{CASE}{way}");
        if records.iter().any(|record| record.case == case) {
            of(&records, &case, way, &mut shown);
        }
    }
    if let Ok(records) = results.records("hot") {
        let title = "The hottest of 16 partitions on one core, from datagram to reply, no network";
        shown.push(Exhibit::Table(grid::ratios(&records, title)));
    }
    if !engine.is_empty() {
        shown.extend(modes(&engine));
    }
    if let Ok(records) = results.records("balancing") {
        shown.extend(balanced(&records));
    }
    Ok(shown)
}

/// What balancing makes of uneven loads, and of one that moves.
fn balanced(records: &[Record]) -> Vec<Exhibit> {
    let rates =
        "Requests per second of two workers by what balances their 16 partitions, from datagram to reply";
    let followed: Vec<_> = records
        .iter()
        .filter(|record| record.case.starts_with(MOVING) && record.metric.starts_with(OVER_UNIFORM))
        .cloned()
        .collect();
    let x = (MOVING, "", Axis::linear("period; another hot set after each 16"));
    let y = (OVER_UNIFORM, Axis::linear("requests per second over those of the uniform load"));
    let title = "A hot set that moves, Zipf 0.99 over 16 partitions, two workers";
    let sums: Vec<_> = records.iter().filter(|record| record.case == MOVING_ALL).cloned().collect();
    let mut shown = vec![
        Exhibit::Table(grid::ratios(records, rates)),
        Exhibit::Lines(grid::by_number(&followed, title, x, y)),
        Exhibit::Table(grid::values(&sums, "The moving hot set over the uniform load")),
    ];
    let what = "Requests per second of two workers, Zipf 0.99 over 16 partitions, balanced by time";
    let place = ("balance of partitions, Zipf 0.99 over the partitions", "by time", "a uniform load");
    shown.extend(grid::headline(records, what, place, "goal: 0.95 times"));
    shown
}

/// Each core of this machine, by popularity and access mode.
fn modes(records: &[Record]) -> [Exhibit; 2] {
    let value = |law: &str, metric: String| {
        let case = format!("modes, {law}, 95 % GET, ");
        let is_it = |record: &&Record| record.case.starts_with(&case) && record.metric == metric;
        records.iter().find(is_it)
    };
    let numbers =
        || (0..).take_while(|core| value("uniform", format!("peak of core {core}, EREW")).is_some());
    let (mut series, mut rows) = (Vec::new(), Vec::new());
    for (law, modes) in LOADS {
        for mode in modes {
            let of = |what: &str, core: usize| value(law, format!("{what} of core {core}, {mode}"));
            series.push(Series {
                name: format!("{law}, {mode}"),
                kind: Kind::Measured,
                bars: numbers().map(|core| of("served", core).map(Record::bar)).collect(),
            });
            for core in numbers() {
                let cell = |what: &str| {
                    of(what, core).map_or_else(String::new, |record| {
                        let (low, high) = (record.spread.min, record.spread.max);
                        match low < high {
                            true => format!("{} ({} to {})", short(record.value), short(low), short(high)),
                            false => short(record.value),
                        }
                    })
                };
                let name = format!("{law}, {mode}, core {core}");
                rows.push(vec![name, cell("share"), cell("peak"), cell("served")]);
            }
        }
    }
    let columns = [
        "load, mode, core",
        "share of the load (%)",
        "operations per second at most",
        "operations per second when the busiest core does what it can",
    ];
    [
        Exhibit::Bars(BarChart {
            title: "Operations per second of each core of this machine when the busiest does what it can, \
                    the engine alone, 95 % GET"
                .to_owned(),
            x: Axis::linear("operations/s"),
            groups: numbers().map(|core| format!("core {core}")).collect(),
            series,
            arrangement: Arrangement::Beside,
            reference: None,
        }),
        Exhibit::Table(Table {
            title: "EREW beside CREW, core by core, the engine alone, 95 % GET".to_owned(),
            columns: columns.map(str::to_owned).into(),
            rows,
        }),
    ]
}

fn of(records: &[Record], case: &str, way: &str, shown: &mut Vec<Exhibit>) {
    let prefix = format!("{case}, ");
    let core = |record: &'_ Record| record.case.strip_prefix(&prefix).map(str::len);
    let metrics = ["peak, uniform", "its share of the skewed load", "peak, skewed"];
    let chart = charts::values(
        (
            &format!(
                "Requests per second of each of 16 partitions, one at a time on a core, {way} datagrams"
            ),
            "requests/s",
        ),
        records,
        |record| {
            let length = core(record)?;
            let name = &record.case[record.case.len() - length..];
            let is_shown = metrics.contains(&record.metric.as_str());
            is_shown.then_some((name, record.metric.as_str()))
        },
    );
    shown.push(Exhibit::Bars(chart));
    let mut rows = Vec::new();
    for record in records.iter().filter(|record| record.case == case) {
        let unit = match record.unit.as_str() {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        let (low, high) = (record.spread.min, record.spread.max);
        rows.push(vec![record.metric.clone(), format!("{:.2}{unit} ({low:.2} to {high:.2})", record.value)]);
        if record.metric == "total that the hottest allows over uniform" {
            shown.push(Exhibit::Headline(Headline {
                what: format!(
                    "Throughput under Zipf 0.99 beside uniform, a core for each of 16 partitions, \
                               {way} datagrams"
                ),
                ours: format!("{:.2} ({low:.2} .. {high:.2}) times", record.value),
                published: "0.86 at least (MICA, 16 cores), 0.70 (billion-rps, 24 cores)".to_owned(),
            }));
        }
    }
    shown.push(Exhibit::Table(Table {
        title: format!("Skew over 16 partitions, {way} datagrams"),
        columns: ["what", "measured"].map(str::to_owned).into(),
        rows,
    }));
}
