//! Charts of records.

use micanite_workload::figure::{Arrangement, Axis, Bar, BarChart, Kind, Series};

use crate::results::measurement::Record;

/// Names of a bar's group and series.
pub(crate) type Place<'a> = (&'a str, &'a str);

/// The values of records, with their spread: `place` says in which group and series one is, if it
/// is shown. Groups and series are in the order in which they come first.
pub(crate) fn values<'r>(
    (title, axis): (&str, &str),
    records: &'r [Record],
    place: impl Fn(&'r Record) -> Option<Place<'r>>,
) -> BarChart {
    let bar = |record: &Record| Some(record.bar());
    chart((title, axis), records, place, bar, None)
}

/// The same of the ratios to a peer, with a line where both do the same.
pub(crate) fn ratios<'r>(
    (title, axis): (&str, &str),
    records: &'r [Record],
    place: impl Fn(&'r Record) -> Option<Place<'r>>,
) -> BarChart {
    chart((title, axis), records, place, Record::ratio_bar, Some(1.0))
}

/// Raises negative values to zero, since a sum of parts has no place for them.
pub(crate) fn not_below_zero(mut chart: BarChart) -> BarChart {
    for series in &mut chart.series {
        for bar in series.bars.iter_mut().flatten() {
            *bar = Bar::new(bar.value.max(0.0));
        }
    }
    chart
}

fn chart<'r>(
    (title, axis): (&str, &str),
    records: &'r [Record],
    place: impl Fn(&'r Record) -> Option<Place<'r>>,
    bar: impl Fn(&Record) -> Option<Bar>,
    reference: Option<f64>,
) -> BarChart {
    let (mut groups, mut series): (Vec<&str>, Vec<&str>) = Default::default();
    let mut bars = Vec::new();
    for record in records {
        let Some((group, name)) = place(record) else {
            continue;
        };
        let at = [position(&mut groups, group), position(&mut series, name)];
        bars.push((at, bar(record)));
    }
    let of = |at: usize| {
        let mut row = vec![None; groups.len()];
        for ([group, _], bar) in bars.iter().filter(|([_, series], _)| *series == at) {
            row[*group] = *bar;
        }
        row
    };
    let series = series.iter().enumerate().map(|(at, name)| Series {
        name: (*name).to_owned(),
        kind: Kind::Measured,
        bars: of(at),
    });
    BarChart {
        title: title.to_owned(),
        x: Axis::linear(axis),
        series: series.collect(),
        groups: groups.into_iter().map(str::to_owned).collect(),
        arrangement: Arrangement::Beside,
        reference,
    }
}

/// Returns the place of a name in a list, which it joins if it is new.
fn position<'r>(names: &mut Vec<&'r str>, name: &'r str) -> usize {
    let found = names.iter().position(|other| *other == name);
    found.unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::statistics::Spread;

    #[test]
    fn records_come_by_group_and_series() {
        let record = |case: &str, metric: &str, value: f64| Record {
            case: case.to_owned(),
            metric: metric.to_owned(),
            value,
            unit: String::new(),
            peer: None,
            ratio: None,
            spread: Spread { min: value, max: value },
        };
        let records =
            [record("a", "x", 1.0), record("b", "x", 2.0), record("b", "y", 3.0), record("b", "z", 4.0)];
        let chart = values(("t", "u"), &records, |record| {
            (record.metric != "z").then_some((record.case.as_str(), record.metric.as_str()))
        });
        assert_eq!(chart.groups, ["a", "b"]);
        assert_eq!(chart.series.len(), 2);
        let of = |series: usize| chart.series[series].bars.iter().map(|bar| bar.map(|bar| bar.value));
        assert_eq!(of(0).collect::<Vec<_>>(), [Some(1.0), Some(2.0)]);
        assert_eq!(of(1).collect::<Vec<_>>(), [None, Some(3.0)]);
    }
}
