//! Records of the lab, arranged: a metric is called `throughput, memcached 1.6.18` where each of
//! several contenders has it.

use micanite_workload::figure::{Arrangement, Axis, BarChart, Kind, Line, LineChart, Point, Series, short};

use crate::report::section::{Exhibit, Headline, Results, Table};
use crate::results::measurement::Record;

/// The records of two commands; none of one that was not measured.
///
/// # Errors
/// When neither was: a sentence.
pub(crate) fn either(results: &Results, names: [&str; 2]) -> Result<[Vec<Record>; 2], String> {
    match names.map(|name| results.records(name)) {
        [Err(reason), Err(_)] => Err(reason),
        both => Ok(both.map(Result::unwrap_or_default)),
    }
}

/// Name of the contender, if the record is this metric of one.
fn contender<'a>(record: &'a Record, metric: &str) -> Option<&'a str> {
    record.metric.strip_prefix(metric)?.strip_prefix(", ")
}

/// Names without repetition, in the order of the records.
fn once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// The cases that begin with this, without it, each once.
pub(crate) fn cases<'a>(records: &'a [Record], prefix: &str) -> Vec<&'a str> {
    once(records.iter().filter_map(|record| record.case.strip_prefix(prefix)))
}

/// The contenders that have a metric.
pub(crate) fn contenders<'a>(records: &'a [Record], metric: &str) -> Vec<&'a str> {
    once(records.iter().filter_map(|record| contender(record, metric)))
}

/// A metric of one contender.
pub(crate) fn find<'a>(records: &'a [Record], case: &str, metric: &str, name: &str) -> Option<&'a Record> {
    records.iter().find(|record| record.case == case && contender(record, metric) == Some(name))
}

/// A metric of a case.
pub(crate) fn value(records: &[Record], case: &str, metric: &str) -> Option<f64> {
    let is_it = |record: &&Record| record.case == case && record.metric == metric;
    records.iter().find(is_it).map(|record| record.value)
}

/// A metric of all contenders: a group for each case that begins with the prefix.
pub(crate) fn bars(records: &[Record], title: &str, (metric, axis): (&str, &str), prefix: &str) -> BarChart {
    let groups = cases(records, prefix);
    let of =
        |name: &str, group: &&str| find(records, &format!("{prefix}{group}"), metric, name).map(Record::bar);
    let series = contenders(records, metric)
        .into_iter()
        .map(|name| Series {
            name: name.to_owned(),
            kind: Kind::Measured,
            bars: groups.iter().map(|group| of(name, group)).collect(),
        })
        .collect();
    BarChart {
        title: title.to_owned(),
        x: Axis::linear(axis),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        series,
        arrangement: Arrangement::Beside,
        reference: None,
    }
}

/// The same as a table: a row for each case, a column for each contender.
pub(crate) fn table(records: &[Record], title: &str, metric: &str, prefix: &str) -> Table {
    let names = contenders(records, metric);
    let mut columns = vec!["case".to_owned()];
    columns.extend(names.iter().map(|name| (*name).to_owned()));
    let row = |case: &&str| {
        let whole = format!("{prefix}{case}");
        let cell = |name: &&str| {
            find(records, &whole, metric, name).map_or_else(String::new, |record| {
                let (low, high) = (record.spread.min, record.spread.max);
                format!("{} ({} to {})", short(record.value), short(low), short(high))
            })
        };
        let mut row = vec![(*case).to_owned()];
        row.extend(names.iter().map(cell));
        row
    };
    Table { title: title.to_owned(), columns, rows: cases(records, prefix).iter().map(row).collect() }
}

/// Energy of all contenders, where the machine has meters.
pub(crate) fn energy(records: &[Record], prefix: &str) -> Option<Exhibit> {
    let title = "Energy (J per million requests), of all packages, client included";
    let table = table(records, title, "energy", prefix);
    (table.columns.len() > 1).then_some(Exhibit::Table(table))
}

/// A metric over another: a line for each contender, a point for each case.
pub(crate) fn curves(
    records: &[Record],
    title: &str,
    (x, x_axis): (&str, Axis),
    (y, y_axis): (&str, Axis),
) -> LineChart {
    let lines = contenders(records, y)
        .into_iter()
        .map(|name| Line {
            name: name.to_owned(),
            kind: Kind::Measured,
            points: cases(records, "")
                .iter()
                .filter_map(|case| {
                    let across = find(records, case, x, name)?;
                    let up = find(records, case, y, name)?;
                    Some(Point { x: across.value, y: up.value, low: up.spread.min, high: up.spread.max })
                })
                .collect(),
        })
        .collect();
    LineChart { title: title.to_owned(), x: x_axis, y: y_axis, lines }
}

/// A metric over the number in the case's name: `batches of 8`.
pub(crate) fn by_number(
    records: &[Record],
    title: &str,
    (before, after, x_axis): (&str, &str, Axis),
    (metric, y_axis): (&str, Axis),
) -> LineChart {
    let number = |case: &str| -> Option<f64> {
        let number = case.strip_prefix(before)?.strip_suffix(after)?;
        number.parse().ok()
    };
    let lines = contenders(records, metric)
        .into_iter()
        .map(|name| Line {
            name: name.to_owned(),
            kind: Kind::Measured,
            points: records
                .iter()
                .filter(|record| contender(record, metric) == Some(name))
                .filter_map(|record| {
                    Some(Point {
                        x: number(&record.case)?,
                        y: record.value,
                        low: record.spread.min,
                        high: record.spread.max,
                    })
                })
                .collect(),
        })
        .collect();
    LineChart { title: title.to_owned(), x: x_axis, y: y_axis, lines }
}

/// Records with a peer: the value, the peer, and the ratio with its spread.
pub(crate) fn ratios(records: &[Record], title: &str) -> Table {
    let row = |record: &Record| {
        let (peer, ratio) = (record.peer.as_ref()?, record.ratio?);
        let (low, high) = (short(record.spread.min), short(record.spread.max));
        Some(vec![
            record.case.clone(),
            record.metric.clone(),
            format!("{} {}", short(record.value), record.unit),
            peer.clone(),
            format!("{} ({low} to {high})", short(ratio)),
        ])
    };
    let columns = ["case", "metric", "ours", "beside", "ratio"];
    Table {
        title: title.to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: records.iter().filter_map(row).collect(),
    }
}

/// The ratios of a metric: a row for each case, a column for each peer.
pub(crate) fn beside(records: &[Record], title: &str, metric: &str, prefix: &str) -> Table {
    let shown = || records.iter().filter(|record| record.metric == metric);
    let peers = once(shown().filter_map(|record| record.peer.as_deref()));
    let cases = once(shown().filter_map(|record| record.case.strip_prefix(prefix)));
    let cell = |case: &str, peer: &str| {
        let of_both = |record: &&Record| {
            record.case.strip_prefix(prefix) == Some(case) && record.peer.as_deref() == Some(peer)
        };
        let found = shown().find(of_both);
        let ratio = found.and_then(|record| Some((record.ratio?, record.spread)));
        ratio.map_or_else(String::new, |(ratio, spread)| {
            let (low, high) = (short(spread.min), short(spread.max));
            format!("{} ({low} to {high})", short(ratio))
        })
    };
    let mut columns = vec!["case".to_owned()];
    columns.extend(peers.iter().map(|peer| (*peer).to_owned()));
    let row = |case: &&str| {
        let mut row = vec![(*case).to_owned()];
        row.extend(peers.iter().map(|peer| cell(case, peer)));
        row
    };
    Table { title: title.to_owned(), columns, rows: cases.iter().map(row).collect() }
}

/// Records without a peer: the value with its spread.
pub(crate) fn values(records: &[Record], title: &str) -> Table {
    let row = |record: &Record| {
        let (low, high) = (short(record.spread.min), short(record.spread.max));
        vec![record.case.clone(), record.metric.clone(), format!("{} ({low} to {high})", short(record.value))]
    };
    Table {
        title: title.to_owned(),
        columns: ["case", "part", "median and spread"].map(str::to_owned).to_vec(),
        rows: records.iter().map(row).collect(),
    }
}

/// A row of the summary: a metric of a case beside the peer whose name begins so, if that was measured.
pub(crate) fn headline(
    records: &[Record],
    what: &str,
    (case, metric, peer): (&str, &str, &str),
    published: &str,
) -> Option<Exhibit> {
    let found = records.iter().find(|record| {
        let beside = record.peer.as_deref().unwrap_or_default();
        record.case == case && record.metric == metric && beside.starts_with(peer)
    })?;
    let (ratio, beside) = (found.ratio?, found.peer.as_ref()?);
    let (low, high) = (short(found.spread.min), short(found.spread.max));
    Some(Exhibit::Headline(Headline {
        what: what.to_owned(),
        ours: format!("{} ({low} .. {high}) times {beside}", short(ratio)),
        published: published.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::statistics::Spread;

    fn record(case: &str, metric: &str, value: f64) -> Record {
        Record {
            case: case.to_owned(),
            metric: metric.to_owned(),
            value,
            unit: "requests/s".to_owned(),
            peer: None,
            ratio: None,
            spread: Spread { min: value / 2.0, max: value * 2.0 },
        }
    }

    fn records() -> Vec<Record> {
        vec![
            record("batches of 1", "throughput, ours", 10.0),
            record("batches of 1", "throughput, theirs", 5.0),
            record("batches of 2", "throughput, ours", 20.0),
            record("batches of 2", "p99, ours", 7.0),
            Record {
                peer: Some("theirs".to_owned()),
                ratio: Some(2.0),
                ..record("batches of 1", "throughput", 10.0)
            },
        ]
    }

    #[test]
    fn contenders_become_series_and_cases_groups() {
        let chart = bars(&records(), "title", ("throughput", "axis"), "batches of ");
        assert_eq!(chart.groups, ["1", "2"]);
        assert_eq!(chart.series.len(), 2);
        let theirs: Vec<_> = chart.series[1].bars.iter().map(Option::is_some).collect();
        assert_eq!(theirs, [true, false], "theirs has no batches of 2");
        let table = table(&records(), "title", "throughput", "batches of ");
        assert_eq!(table.columns, ["case", "ours", "theirs"]);
        assert_eq!(table.rows[0], ["1", "10 (5 to 20)", "5 (2.5 to 10)"]);
        assert_eq!(table.rows[1][2], "");
    }

    #[test]
    fn lines_have_a_point_where_both_are_known() {
        let (x, y) = (Axis::linear("x"), Axis::linear("y"));
        let chart = curves(&records(), "title", ("throughput", x), ("p99", y));
        assert_eq!(chart.lines.len(), 1);
        assert_eq!((chart.lines[0].points[0].x, chart.lines[0].points[0].y), (20.0, 7.0));
        let (x, y) = (Axis::linear("x"), Axis::linear("y"));
        let chart = by_number(&records(), "title", ("batches of ", "", x), ("throughput", y));
        let ours: Vec<_> = chart.lines[0].points.iter().map(|point| point.x).collect();
        assert_eq!(ours, [1.0, 2.0]);
    }

    #[test]
    fn records_without_peer_have_no_ratio() {
        let records = records();
        let table = ratios(&records, "title");
        assert_eq!(table.rows.len(), 1);
        assert_eq!(energy(&records, ""), None, "no meters");
        let metered = [record("batches of 1", "energy, ours", 2.0)];
        let Some(Exhibit::Table(table_of_energy)) = energy(&metered, "batches of ") else {
            panic!("no table of the energy");
        };
        assert_eq!(table_of_energy.rows, [["1", "2 (1 to 4)"]]);
        let pivot = beside(&records, "title", "throughput", "batches of ");
        assert_eq!(pivot.columns, ["case", "theirs"]);
        assert_eq!(pivot.rows, [["1", "2 (5 to 20)"]]);
        assert_eq!(values(&records, "title").rows[1][2], "5 (2.5 to 10)");
        let at = |peer| headline(&records, "what", ("batches of 1", "throughput", peer), "");
        let Some(Exhibit::Headline(row)) = at("the") else {
            panic!("no row of the summary");
        };
        assert_eq!(row.ours, "2 (5 .. 20) times theirs");
        assert_eq!(at("another"), None);
        assert_eq!(table.rows[0][4], "2 (5 to 20)");
    }
}
