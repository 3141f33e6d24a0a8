//! The figures as SVG.

use crate::figure::{Arrangement, Axis, Bar, BarChart, Kind, Line, LineChart, Point, Series};

use super::figures::{Figures, HOURS};
use super::gather::Gathered;
use super::sizes::Sizes;
use super::tables::{DAYS, by_day, by_hour, hit_ratios, rates};
use crate::trace::Operation;

/// Unit of memory.
const MIB: f64 = (1u64 << 20) as f64;
/// Groups that a figure shows at most: more lines cannot be told apart.
const GROUPS_MAX: usize = 6;

/// A chart of lines, one for each group that has points.
struct Lines<'a> {
    name: &'static str,
    title: &'static str,
    axes: [Axis; 2],
    points: &'a dyn Fn(u16, &Figures) -> Vec<Point>,
}

/// Every figure by its name: `NAME.svg`.
pub(super) fn all(gathered: &Gathered, prefixes: usize) -> Vec<(&'static str, String)> {
    let shown = gathered.groups.shown(prefixes.min(GROUPS_MAX - 1));
    let seconds = gathered.seconds();
    let covered = &gathered.covered();
    let share = |of: &str| Axis::linear(format!("share of {of}"));
    let mut charts = Vec::new();
    let mut add = |name, title, axes, points| charts.push(Lines { name, title, axes, points });
    let by_count = |_, figures: &Figures| cumulative(&figures.value_bytes, false);
    add("sizes-by-count", "Sizes of values, by count", [Axis::log("bytes"), share("values")], &by_count);
    let by_bytes = |_, figures: &Figures| cumulative(&figures.value_bytes, true);
    let title = "Sizes of values, weighted by bytes";
    add("sizes-by-bytes", title, [Axis::log("bytes"), share("bytes")], &by_bytes);
    let set_by_count = |_, figures: &Figures| cumulative(&figures.set_value_bytes, false);
    let title = "Sizes of the values of SETs, by count";
    add("set-sizes-by-count", title, [Axis::log("bytes"), share("values")], &set_by_count);
    let set_by_bytes = |_, figures: &Figures| cumulative(&figures.set_value_bytes, true);
    let title = "Sizes of the values of SETs, weighted by bytes";
    add("set-sizes-by-bytes", title, [Axis::log("bytes"), share("bytes")], &set_by_bytes);
    let set_keys = |_, figures: &Figures| cumulative(&figures.set_key_bytes, false);
    let title = "Sizes of the keys of SETs, by count";
    add("set-key-sizes", title, [Axis::linear("bytes"), share("keys")], &set_keys);
    let keys = |_, figures: &Figures| cumulative(&figures.key_bytes, false);
    add("key-sizes", "Sizes of keys, by count", [Axis::linear("bytes"), share("keys")], &keys);
    let rate =
        |_, figures: &Figures| points(rates(figures, seconds), |(start_s, per_s)| (start_s / 3600.0, per_s));
    let axes = [Axis::linear("time (hours)"), Axis::linear("requests/s")];
    add("rate", "Requests over time", axes, &rate);
    let hit_ratio = |_, figures: &Figures| {
        let ratios = hit_ratios(figures).into_iter().map(|[told, simulated]| simulated.or(told));
        let hits = rates(figures, seconds).into_iter().zip(ratios);
        points(hits.filter_map(|((start_s, _), ratio)| Some((start_s / 3600.0, ratio?))), |point| point)
    };
    let axes = [Axis::linear("time (hours)"), Axis::linear("hit ratio")];
    add("hits", "Share of the reads that hit, over time", axes, &hit_ratio);
    let popularity =
        |number, _: &Figures| points(gathered.popularity(number).ranks.iter().copied(), |point| point);
    let axes = [Axis::log("rank of the key"), Axis::log("share of requests")];
    add("popularity", "Requests of a key, by its rank", axes, &popularity);
    let reused = |_, figures: &Figures| reuse(figures);
    let title = "Requests of a key that was asked for before, by the time since then";
    let axes = [Axis::linear("hours since then"), Axis::log("share of repeated requests")];
    add("reuse", title, axes, &reused);
    let working_set = |_, figures: &Figures| {
        points(figures.hours.listed.iter(), |window| (window.number as f64, window.bytes / MIB))
    };
    let title = "Memory of different items that are asked for in an hour";
    add("working-set", title, [Axis::linear("time (hours)"), Axis::linear("memory (MiB)")], &working_set);
    let hours = |_, figures: &Figures| {
        let loads = by_hour(figures, covered).into_iter().enumerate();
        points(loads.filter_map(|(hour, load)| Some((hour as f64, load.per_s?))), |point| point)
    };
    if gathered.is_dated {
        let axes = [Axis::linear("hour"), Axis::linear("requests/s")];
        add("hours", "Requests by the hour of the day (UTC)", axes, &hours);
    }
    let mut drawn = vec![("operations", operations(&shown))];
    drawn.extend(charts.into_iter().filter_map(|chart| Some((chart.name, lines(chart, &shown)?))));
    drawn.extend(bursts(gathered).map(|svg| ("bursts", svg)));
    if gathered.is_dated {
        drawn.push(("weekdays", weekdays(&shown, covered)));
    }
    drawn
}

/// Draws what bursts do to the hits, against the keys that they are about; none without bursts.
fn bursts(gathered: &Gathered) -> Option<String> {
    let listed = gathered.bursts.listed().iter();
    let mut dots: Vec<Point> = listed
        .filter_map(|burst| {
            let keys = burst.all.keys_per_request() / burst.before.keys_per_request();
            Some(Point::new(keys, burst.change()? * 100.0))
        })
        .collect();
    dots.retain(|dot| dot.x.is_finite());
    if dots.is_empty() {
        return None;
    }
    let line = Line { name: "a burst".to_owned(), kind: Kind::Scattered, points: dots };
    Some(
        LineChart {
            title: "What bursts do to the hit ratio".to_owned(),
            x: Axis::linear("different keys per request, times those before"),
            y: Axis::linear("change (percentage points)"),
            lines: vec![line],
        }
        .svg(),
    )
}

/// Draws a chart, if any group has points.
fn lines(chart: Lines<'_>, shown: &[(u16, String, &Figures)]) -> Option<String> {
    let line = |(number, name, figures): &(u16, String, &Figures)| Line {
        name: name.clone(),
        kind: Kind::Measured,
        points: (chart.points)(*number, figures),
    };
    let lines: Vec<_> = shown.iter().map(line).filter(|line| !line.points.is_empty()).collect();
    let [x, y] = chart.axes;
    (!lines.is_empty()).then(|| LineChart { title: chart.title.to_owned(), x, y, lines }.svg())
}

fn points<T>(of: impl IntoIterator<Item = T>, at: impl Fn(T) -> (f64, f64)) -> Vec<Point> {
    let point = |value| {
        let (x, y) = at(value);
        Point::new(x, y)
    };
    of.into_iter().map(point).collect()
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
