//! The figures as SVG.

use crate::figure::{Arrangement, Axis, Bar, BarChart, Kind, Line, LineChart, Point, Series};

use super::figures::{Figures, HOURS};
use super::gather::Gathered;
use super::sizes::Sizes;
use super::tables::{DAYS, by_day, by_hour, rates};
use crate::trace::Operation;

/// Groups that a figure shows at most: more lines cannot be told apart.
const GROUPS_MAX: usize = 6;

/// Every figure by its name: `NAME.svg`.
pub(super) fn all(gathered: &Gathered, prefixes: usize) -> Vec<(&'static str, String)> {
    let shown = gathered.groups.shown(prefixes.min(GROUPS_MAX - 1));
    let lines = |points: &dyn Fn(u16, &Figures) -> Vec<Point>| -> Vec<Line> {
        let line = |(number, name, figures): &(u16, String, &Figures)| Line {
            name: name.clone(),
            kind: Kind::Measured,
            points: points(*number, figures),
        };
        let lines = shown.iter().map(line);
        lines.filter(|line| !line.points.is_empty()).collect()
    };
    let chart = |title: &str, x: Axis, y: Axis, lines: Vec<Line>| {
        let title = title.to_owned();
        (!lines.is_empty()).then(|| LineChart { title, x, y, lines }.svg())
    };
    let share = |of: &str| Axis::linear(format!("share of {of}"));
    let seconds = gathered.seconds();
    let covered = &gathered.covered();
    let mut drawn = vec![
        ("operations", Some(operations(&shown))),
        (
            "sizes-by-count",
            chart(
                "Sizes of values, by count",
                Axis::log("bytes"),
                share("values"),
                lines(&|_, figures| cumulative(&figures.value_bytes, false)),
            ),
        ),
        (
            "sizes-by-bytes",
            chart(
                "Sizes of values, weighted by bytes",
                Axis::log("bytes"),
                share("bytes"),
                lines(&|_, figures| cumulative(&figures.value_bytes, true)),
            ),
        ),
        (
            "key-sizes",
            chart(
                "Sizes of keys, by count",
                Axis::linear("bytes"),
                share("keys"),
                lines(&|_, figures| cumulative(&figures.key_bytes, false)),
            ),
        ),
        (
            "rate",
            chart(
                "Requests over time",
                Axis::linear("time (hours)"),
                Axis::linear("requests/s"),
                lines(&|_, figures| {
                    rates(figures, seconds)
                        .into_iter()
                        .map(|(start_s, per_s)| Point::new(start_s / 3600.0, per_s))
                        .collect()
                }),
            ),
        ),
        (
            "popularity",
            chart(
                "Keys from the least popular on, and the requests they have",
                share("keys"),
                Axis::log("share of requests"),
                lines(&|number, _| {
                    let popularity = gathered.popularity(number);
                    let points = popularity.points.iter();
                    points.map(|(keys, requests)| Point::new(*keys, *requests)).collect()
                }),
            ),
        ),
        (
            "reuse",
            chart(
                "Requests of a key that was asked for before, by the time since then",
                Axis::linear("hours since then"),
                Axis::log("share of repeated requests"),
                lines(&|_, figures| reuse(figures)),
            ),
        ),
        (
            "working-set",
            chart(
                "Bytes of different items that are asked for in an hour",
                Axis::linear("time (hours)"),
                Axis::linear("bytes"),
                lines(&|_, figures| {
                    figures
                        .hours
                        .listed
                        .iter()
                        .map(|window| Point::new(window.number as f64, window.bytes))
                        .collect()
                }),
            ),
        ),
    ];
    if gathered.is_dated {
        drawn.push((
            "hours",
            chart(
                "Requests by the hour of the day (UTC)",
                Axis::linear("hour"),
                Axis::linear("requests/s"),
                lines(&|_, figures| {
                    by_hour(figures, covered)
                        .iter()
                        .enumerate()
                        .filter_map(|(hour, load)| Some(Point::new(hour as f64, load.per_s?)))
                        .collect()
                }),
            ),
        ));
        drawn.push(("weekdays", Some(weekdays(&shown, covered))));
    }
    drawn.into_iter().filter_map(|(name, svg)| Some((name, svg?))).collect()
}

fn cumulative(sizes: &Sizes, by_bytes: bool) -> Vec<Point> {
    let share = |up_to: &super::sizes::UpTo| {
        if by_bytes { up_to.bytes_share } else { up_to.count_share }
    };
    // A value of no bytes has no place on a logarithmic axis.
    sizes.cumulative().iter().map(|up_to| Point::new(f64::from(up_to.bytes.max(1)), share(up_to))).collect()
}

fn reuse(figures: &Figures) -> Vec<Point> {
    let all: f64 = figures.reuse.iter().sum();
    let gaps = figures.reuse.iter().enumerate().filter(|(_, gaps)| **gaps > 0.0);
    gaps.map(|(hour, gaps)| Point::new(hour as f64, gaps / all)).collect()
}

fn operations(shown: &[(u16, String, &Figures)]) -> String {
    let used = Operation::ALL.into_iter().filter(|operation| shown[0].2.operations[*operation as usize] > 0);
    let bars = |operation: Operation| Series {
        name: operation.name().to_owned(),
        kind: Kind::Measured,
        bars: shown
            .iter()
            .map(|(_, _, figures)| {
                Some(Bar::new(
                    figures.operations[operation as usize] as f64 / figures.requests as f64 * 100.0,
                ))
            })
            .collect(),
    };
    BarChart {
        title: "Operations".to_owned(),
        x: Axis::linear("share of requests (%)"),
        groups: shown.iter().map(|(_, name, _)| name.clone()).collect(),
        series: used.map(bars).collect(),
        arrangement: Arrangement::Stacked,
        reference: None,
    }
    .svg()
}

fn weekdays(shown: &[(u16, String, &Figures)], covered: &[u64; HOURS]) -> String {
    let bars = |(_, name, figures): &(u16, String, &Figures)| Series {
        name: name.clone(),
        kind: Kind::Measured,
        bars: by_day(figures, covered).into_iter().map(|load| load.per_s.map(Bar::new)).collect(),
    };
    BarChart {
        title: "Requests by the day of the week (UTC)".to_owned(),
        x: Axis::linear("requests/s"),
        groups: DAYS.map(str::to_owned).to_vec(),
        series: shown.iter().map(bars).collect(),
        arrangement: Arrangement::Beside,
        reference: None,
    }
    .svg()
}
