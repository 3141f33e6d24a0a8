//! The time of a request in its parts, as bars.

use std::fmt::Write as _;

use crate::figures::{COLOURS, begin, legend, text};

/// The time of a request: its parts, in order, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub name: String,
    pub parts_ns: Vec<(&'static str, f64)>,
}

/// Bars of parts, one above the other.
pub(super) fn breakdown(bars: &[Bar]) -> String {
    const LEFT: f64 = 200.0;
    const WIDTH: f64 = 560.0;
    const ROW: f64 = 34.0;
    let height = 60.0 + ROW * bars.len() as f64 + 50.0;
    let title = "Time of a request on the server's core (ns), over memif";
    let mut svg = begin(LEFT + WIDTH + 100.0, height, title);
    let sum = |bar: &Bar| bar.parts_ns.iter().map(|(_, ns)| ns.max(0.0)).sum::<f64>();
    let most = bars.iter().map(sum).fold(1.0, f64::max);
    for (row, bar) in bars.iter().enumerate() {
        let (y, mut x) = (40.0 + ROW * row as f64, LEFT);
        text(&mut svg, (LEFT - 10.0, y + 16.0), "end", &bar.name);
        for (part, (_, ns)) in bar.parts_ns.iter().enumerate() {
            let (width, colour) = (ns.max(0.0) / most * WIDTH, COLOURS[part % COLOURS.len()]);
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"24\" fill=\"{colour}\"/>"
            );
            if width > 26.0 {
                let label = format!("{ns:.0}");
                text(&mut svg, (x + width / 2.0, y + 16.0), "middle", &label);
            }
            x += width;
        }
        text(
            &mut svg,
            (x + 8.0, y + 16.0),
            "start",
            &format!("{:.0}", sum(bar)),
        );
    }
    if let Some(bar) = bars.first() {
        for (part, (name, _)) in bar.parts_ns.iter().enumerate() {
            let place = (LEFT + 110.0 * part as f64, height - 20.0);
            legend(&mut svg, place, (COLOURS[part % COLOURS.len()], name));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_its_parts_and_their_sum() {
        let bar = Bar {
            name: "95 % GET".into(),
            parts_ns: vec![("I/O", 50.0), ("parse", -1.0), ("engine", 30.0)],
        };
        let svg = breakdown(&[bar]);
        assert!(svg.contains(">80</text>"), "the parts together: {svg}");
        assert!(svg.contains(">50</text>") && svg.ends_with("</svg>\n"));
    }
}
