//! The figure of the mixes: mean latency against request rate, a panel for each mix.

use std::fmt::Write as _;

use crate::figures::{COLOURS, begin, legend, text};

/// Of one mix.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub name: String,
    pub curves: Vec<Curve>,
}

/// Of one server.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub name: String,
    pub points: Vec<Point>,
}

/// At one rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub rate: f64,
    pub latency_us: f64,
}

/// Latencies up to a millisecond; a curve that leaves through the top has none below it there.
pub(super) fn figure(panels: &[Panel]) -> String {
    const WIDTH: f64 = 260.0;
    const HEIGHT: f64 = 220.0;
    const TOP: f64 = 50.0;
    const MOST_US: f64 = 1000.0;
    let title = "Mean latency (us) against requests per second, GET over UDP, SET over TCP, one server core";
    let width = panels.len().max(3) as f64 * WIDTH + 60.0;
    let mut svg = begin(width, TOP + HEIGHT + 70.0, title);
    let bottom = TOP + HEIGHT;
    let up = |us: f64| bottom - HEIGHT * us.min(MOST_US) / MOST_US;
    let points = panels.iter().flat_map(|panel| &panel.curves);
    let rates = points
        .flat_map(|curve| &curve.points)
        .map(|point| point.rate);
    let most = rates.fold(1.0, f64::max) * 1.05;
    for (number, panel) in panels.iter().enumerate() {
        let (left, right) = (
            60.0 + number as f64 * WIDTH,
            40.0 + (number + 1) as f64 * WIDTH,
        );
        let across = |rate: f64| left + (right - left) * rate / most;
        for us in [0.0, 250.0, 500.0, 750.0, 1000.0] {
            let y = up(us);
            let _ = writeln!(
                svg,
                "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>"
            );
            if number == 0 {
                text(&mut svg, (left - 6.0, y + 4.0), "end", &format!("{us:.0}"));
            }
        }
        for part in [0.5, 1.0] {
            let (rate, y) = (most * part, bottom + 16.0);
            let label = format!("{:.0} k/s", rate / 1e3);
            text(&mut svg, (across(rate), y), "middle", &label);
        }
        text(&mut svg, (left, TOP - 8.0), "start", &panel.name);
        for (place, curve) in panel.curves.iter().enumerate() {
            let colour = COLOURS[place % COLOURS.len()];
            let at = |point: &Point| (across(point.rate), up(point.latency_us));
            let places: Vec<_> = curve.points.iter().map(at).collect();
            let line: Vec<_> = places
                .iter()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let line = line.join(" ");
            let _ = writeln!(
                svg,
                "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
            );
            for (x, y) in &places {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
                );
            }
            if number == 0 {
                let at = (60.0 + 130.0 * place as f64, bottom + 40.0);
                legend(&mut svg, at, (colour, &curve.name));
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_each_curve_of_each_panel() {
        let point = |rate: f64| Point {
            rate,
            latency_us: rate / 100.0,
        };
        let curve = |name: &str| Curve {
            name: name.into(),
            points: vec![point(1e4), point(2e5)],
        };
        let panel = Panel {
            name: "50 % GET".into(),
            curves: vec![curve("memcached"), curve("kernel-udp")],
        };
        let svg = figure(&[panel.clone(), panel]);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert_eq!(svg.matches(">memcached</text>").count(), 1);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    }
}
