//! Per-core balance, hot and cold cores.

use micanite_workload::figure::{Arrangement, Axis, BarChart, Kind, Series, short};

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Headline, Results, Table};
use crate::results::charts;
use crate::results::measurement::Record;

const CASE: &str = "skew over 16 partitions, 95 % GET, 1 per datagram, ";

pub(super) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick("net --quick --rounds 2", "net --rounds 3");
    let case = form.pick("plain", "");
    let mut modes = super::engine(form);
    for (law, _) in LOADS {
        modes = modes.with("--case").with(format!("modes, {law}, 95 % GET"));
    }
    vec![
        Command::lab("net", words).with("--case").with(format!("{CASE}{case}")),
        match super::cores() {
            1 => modes.lacking("Access modes need two cores."),
            _ => modes,
        },
    ]
}

/// Popularities, and the modes that are shown of each.
const LOADS: [(&str, &[&str]); 2] = [("uniform", &["EREW"]), ("zipf 0.99", &["EREW", "CREW"])];

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let [records, engine] = grid::either(results, ["net", "engine"])?;
    let mut shown = Vec::new();
    for way in ["plain", "GRO"] {
        let case = format!("{CASE}{way}");
        if records.iter().any(|record| record.case == case) {
            of(&records, &case, way, &mut shown);
        }
    }
    if !engine.is_empty() {
        shown.extend(modes(&engine));
    }
    Ok(shown)
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
