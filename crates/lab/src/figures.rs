//! What figures are made of.

use std::fmt::Write as _;

pub(crate) const COLOURS: [&str; 6] = [
    "#4a78b5", "#e0a030", "#b03030", "#5f9a50", "#8060a0", "#909090",
];

/// The begin of a figure, with its title.
pub(crate) fn begin(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\">{title}</text>\n"
    )
}

/// A text; `anchor` says which of its ends is at `x`.
pub(crate) fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

/// A colour and its name.
pub(crate) fn legend(svg: &mut String, (x, y): (f64, f64), (colour, name): (&str, &str)) {
    let top = y - 10.0;
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
    );
    text(svg, (x + 18.0, y), "start", name);
}
