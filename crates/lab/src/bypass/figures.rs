//! Figures: latency against throughput, and the time of a request in its parts.

use std::fmt::Write as _;

use crate::figures::{COLOURS, begin, legend, text};

/// Of one port.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub name: String,
    pub points: Vec<Point>,
}

/// At one rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub rate: f64,
    /// p50, p99, p99.9.
    pub latencies_us: [f64; 3],
}

pub(super) const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// A panel for each port: its rates across, latencies upward by powers of ten.
pub(super) fn latencies(curves: &[Curve]) -> String {
    const WIDTH: f64 = 300.0;
    const HEIGHT: f64 = 240.0;
    const TOP: f64 = 50.0;
    const DECADES: f64 = 5.0;
    let title = "Latency (us) against requests per second, one server core, 95 % GET, tiny items";
    let all = curves.len().max(2) as f64 * WIDTH + 60.0;
    let mut svg = begin(all, TOP + HEIGHT + 70.0, title);
    let bottom = TOP + HEIGHT;
    // One microsecond at the bottom.
    let up = |us: f64| bottom - HEIGHT * (us.max(1.0).log10() / DECADES).min(1.0);
    for (number, curve) in curves.iter().enumerate() {
        let (left, right) = (
            60.0 + number as f64 * WIDTH,
            20.0 + (number + 1) as f64 * WIDTH,
        );
        let rates = curve.points.iter().map(|point| point.rate);
        let most = rates.fold(f64::MIN_POSITIVE, f64::max) * 1.05;
        let across = |rate: f64| left + (right - left) * rate / most;
        for decade in 0..=DECADES as i32 {
            let y = up(10f64.powi(decade));
            let _ = writeln!(
                svg,
                "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>"
            );
            let label = 10f64.powi(decade).to_string();
            text(&mut svg, (left - 6.0, y + 4.0), "end", &label);
        }
        for part in [0.5, 1.0] {
            let (rate, y) = (most * part, bottom + 16.0);
            let label = format!("{:.2} M/s", rate / 1e6);
            text(&mut svg, (across(rate), y), "middle", &label);
        }
        text(&mut svg, (left, TOP - 8.0), "start", &curve.name);
        for (quantile, (name, _)) in QUANTILES.iter().enumerate() {
            let place = |point: &Point| (across(point.rate), up(point.latencies_us[quantile]));
            let places: Vec<_> = curve.points.iter().map(place).collect();
            let line: Vec<_> = places
                .iter()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let (line, colour) = (line.join(" "), COLOURS[quantile]);
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
                legend(
                    &mut svg,
                    (60.0 + 80.0 * quantile as f64, bottom + 40.0),
                    (colour, name),
                );
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
    fn figures_are_complete() {
        let point = |part: f64| Point {
            rate: part * 1e6,
            latencies_us: [10.0, 100.0, 1e9],
        };
        let curve = Curve {
            name: "memif".into(),
            points: vec![point(0.1), point(0.9)],
        };
        let svg = latencies(&[curve]);
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    }
}
