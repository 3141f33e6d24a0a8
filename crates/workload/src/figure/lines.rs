//! Values over an axis.

use super::Kind;
use super::axis::Axis;
use super::canvas::{Canvas, LINE, WIDTH};
use super::looks::Look;
use super::whiskers::{self, Room};

/// A value and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// The least of `y` that was measured.
    pub low: f64,
    pub high: f64,
}

impl Point {
    /// Without a spread.
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }
}

/// A series of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Text of the legend.
    pub name: String,
    /// Origin of the values.
    pub kind: Kind,
    /// Points in the order in which they are joined.
    pub points: Vec<Point>,
}

/// Lines over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    /// Lines in the order of the legend.
    pub lines: Vec<Line>,
}

const LEFT: f64 = 76.0;
const RIGHT: f64 = WIDTH - 24.0;
const PLOT_HEIGHT: f64 = 320.0;
/// A line with more points has no marks.
const MARKS_MAX: usize = 40;

impl LineChart {
    /// Describes the whiskers, if there are any: each value is of so many rounds.
    pub fn caption(&self, rounds: Option<u32>) -> Option<String> {
        let ends: Vec<_> = self.points().map(|point| (point.low, point.high)).collect();
        whiskers::caption(&self.y, self.room(), &ends, rounds)
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn room(&self) -> Room {
        Room::of(&self.y, self.points().map(|point| point.y))
    }

    pub fn svg(&self) -> String {
        let mut canvas = Canvas::new();
        let below_title = canvas.title(&self.title);
        let names: Vec<_> = self.lines.iter().map(|line| (line.name.as_str(), line.kind)).collect();
        let (below_legend, looks) = canvas.legend(&names, true, below_title);
        let top = below_legend + 4.0;
        let bottom = top + PLOT_HEIGHT;
        let shown = || self.points();
        let x = self.x.range(shown().map(|point| point.x));
        let room = self.room();
        let ends = |point: &Point| [point.y, room.clip(point.low), room.clip(point.high)];
        let y = self.y.range(shown().flat_map(ends));
        for (place, text) in x.labelled() {
            let at = LEFT + (RIGHT - LEFT) * place;
            canvas.line("mf-grid", (at, top), (at, bottom));
            canvas.text((at, bottom + LINE), "middle", &text);
        }
        for (place, text) in y.labelled() {
            let at = bottom - PLOT_HEIGHT * place;
            canvas.line("mf-grid", (LEFT, at), (RIGHT, at));
            canvas.text((LEFT - 6.0, at + 5.0), "end", &text);
        }
        canvas.line("mf-axis", (LEFT, bottom), (RIGHT, bottom));
        canvas.line("mf-axis", (LEFT, top), (LEFT, bottom));
        canvas.text(((LEFT + RIGHT) / 2.0, bottom + 2.3 * LINE), "middle", &self.x.label);
        canvas.upright((20.0, (top + bottom) / 2.0), &self.y.label);
        let to_x = |value: f64| LEFT + (RIGHT - LEFT) * x.place(value);
        let to_y = |value: f64| bottom - PLOT_HEIGHT * y.place(value);
        for (look, line) in looks.into_iter().zip(&self.lines) {
            self.draw(&mut canvas, look, line, (&to_x, &to_y));
        }
        canvas.finish(&self.title, &self.summary(), bottom + 3.0 * LINE)
    }

    fn draw(
        &self,
        canvas: &mut Canvas,
        look: Look,
        line: &Line,
        (to_x, to_y): (&dyn Fn(f64) -> f64, &dyn Fn(f64) -> f64),
    ) {
        let points: Vec<_> =
            line.points.iter().filter(|point| self.x.shows(point.x) && self.y.shows(point.y)).collect();
        let path: Vec<String> = points
            .iter()
            .enumerate()
            .map(|(at, point)| {
                let command = if at == 0 { 'M' } else { 'L' };
                format!("{command}{:.1} {:.1}", to_x(point.x), to_y(point.y))
            })
            .collect();
        if !path.is_empty() && line.kind != Kind::Scattered {
            canvas.stroke(look, line.kind, &path.join(""));
        }
        for point in &points {
            let x = to_x(point.x);
            if point.low < point.high {
                let (low, high) = (to_y(point.low), to_y(point.high));
                canvas.stroke(look, Kind::Measured, &format!("M{x:.1} {low:.1}L{x:.1} {high:.1}"));
            }
            if points.len() <= MARKS_MAX || line.kind == Kind::Scattered {
                canvas.mark(look, line.kind, (x, to_y(point.y)));
            }
        }
    }

    fn summary(&self) -> String {
        let names: Vec<_> = self.lines.iter().map(|line| line.name.as_str()).collect();
        format!("{} over {}: {}", self.y.label, self.x.label, names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_axes_a_legend_and_their_spread() {
        let chart = LineChart {
            title: "Latency against throughput".to_owned(),
            x: Axis::linear("throughput (operations/s)"),
            y: Axis::log("latency (us)"),
            lines: vec![
                Line {
                    name: "ours".to_owned(),
                    kind: Kind::Measured,
                    points: vec![
                        Point::new(1e5, 20.0),
                        Point { x: 2e5, y: 30.0, low: 25.0, high: 80.0 },
                        Point::new(3e5, 0.0),
                    ],
                },
                Line {
                    name: "published".to_owned(),
                    kind: Kind::Published,
                    points: vec![Point::new(1e5, 50.0)],
                },
            ],
        };
        let svg = chart.svg();
        for part in [
            "throughput (operations/s)",
            "latency (us)",
            ">ours<",
            ">published<",
            "300 k",
            "prefers-color-scheme",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert_eq!(
            svg.matches("<circle").count(),
            3,
            "two points, since a log axis has no zero, and the legend's"
        );
    }

    /// Values that no line joins have marks, however many they are.
    #[test]
    fn scattered_points_are_not_joined() {
        let points = (0..1000).map(|x| Point::new(f64::from(x), 1.0)).collect();
        let chart = LineChart {
            title: String::new(),
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            lines: vec![Line { kind: Kind::Scattered, points, ..Line::default() }],
        };
        let svg = chart.svg();
        assert!(svg.matches("<circle").count() == 1000 && !svg.contains("stroke-width=\"2\""));
    }

    #[test]
    fn many_points_have_no_marks() {
        let points = (0..1000).map(|x| Point::new(f64::from(x), 1.0)).collect();
        let chart = LineChart {
            title: String::new(),
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            lines: vec![Line { points, ..Line::default() }],
        };
        assert!(!chart.svg().contains("<circle"));
    }
}
