//! Latency against throughput, as SVG.

use std::fmt::Write as _;

use crate::report::Report;
use crate::table::grouped;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 520.0;
/// Left, top, right, bottom of what is drawn within the axes.
const FRAME: (f64, f64, f64, f64) = (90.0, 50.0, 730.0, 450.0);

type Curve = (&'static str, &'static str, fn(&Report) -> f64);

const CURVES: [Curve; 4] = [
    ("p50", "#4a78b5", |report| report.latency_us.p50),
    ("p95", "#3c8c50", |report| report.latency_us.p95),
    ("p99", "#c07820", |report| report.latency_us.p99),
    ("p99.9", "#b03030", |report| report.latency_us.p999),
];

/// The scales of both axes.
struct Scale {
    throughput_max: f64,
    /// Powers of ten.
    latency_from: i32,
    latency_to: i32,
}

impl Scale {
    fn of(reports: &[Report]) -> Self {
        let most = |of: &dyn Fn(&Report) -> f64| reports.iter().map(of).fold(0.0, f64::max);
        let least = reports
            .iter()
            .map(|report| report.latency_us.p50)
            .fold(f64::INFINITY, f64::min);
        let power = |latency_us: f64| latency_us.max(0.1).log10();
        let latency_from = power(if least.is_finite() { least } else { 1.0 }).floor() as i32;
        let latency_to = power(most(&|report| report.latency_us.p999)).ceil() as i32;
        Self {
            throughput_max: most(&|report| report.throughput_ops).max(1.0),
            latency_from,
            latency_to: latency_to.max(latency_from + 1),
        }
    }

    fn x(&self, throughput_ops: f64) -> f64 {
        let (left, _, right, _) = FRAME;
        left + (right - left) * throughput_ops / self.throughput_max
    }

    fn y(&self, latency_us: f64) -> f64 {
        let (_, top, _, bottom) = FRAME;
        let part = (latency_us.max(0.1).log10() - f64::from(self.latency_from))
            / f64::from(self.latency_to - self.latency_from);
        bottom - (bottom - top) * part.clamp(0.0, 1.0)
    }
}

/// Draws the runs, joined in the order of their rates.
pub(crate) fn draw(title: &str, reports: &[Report]) -> String {
    let scale = Scale::of(reports);
    let mut runs: Vec<_> = reports.iter().collect();
    let rate = |report: &Report| report.offered_ops.unwrap_or(report.throughput_ops);
    runs.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"20\" y=\"26\" font-size=\"14\">{}</text>\n",
        escape(title)
    );
    axes(&mut svg, &scale);
    for (number, (name, colour, latency_us)) in CURVES.iter().enumerate() {
        let points: Vec<_> = runs
            .iter()
            .map(|report| (scale.x(report.throughput_ops), scale.y(latency_us(report))))
            .collect();
        curve(&mut svg, (name, colour), &points, number);
    }
    svg.push_str("</svg>\n");
    svg
}

fn axes(svg: &mut String, scale: &Scale) {
    let (left, top, right, bottom) = FRAME;
    for power in scale.latency_from..=scale.latency_to {
        let latency_us = 10f64.powi(power);
        let y = scale.y(latency_us);
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 4.0,
            if power < 0 {
                "0.1".to_owned()
            } else {
                grouped(latency_us)
            },
        );
    }
    for step in 0..=4 {
        let throughput = scale.throughput_max * f64::from(step) / 4.0;
        let x = scale.x(throughput);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            grouped(throughput),
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">operations per second</text>\n\
         <text x=\"24\" y=\"{}\" text-anchor=\"middle\" transform=\"rotate(-90 24 {})\">latency, microseconds</text>",
        (left + right) / 2.0,
        bottom + 42.0,
        (top + bottom) / 2.0,
        (top + bottom) / 2.0,
    );
}

fn curve(svg: &mut String, (name, colour): (&str, &str), points: &[(f64, f64)], number: usize) {
    let line: String = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1} "))
        .collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
        line.trim_end()
    );
    for (x, y) in points {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
        );
    }
    let y = FRAME.1 + 14.0 + 20.0 * number as f64;
    let x = FRAME.2 + 20.0;
    let _ = writeln!(
        svg,
        "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">{name}</text>",
        x + 12.0,
        y + 4.0,
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
