//! Texts, lines, legends of figures, and the colours of light and dark.

use std::fmt::Write as _;

use super::Kind;
use super::looks::{Look, looks};

/// Width of every figure, in its own units.
pub(crate) const WIDTH: f64 = 720.0;
/// Height of a line of text.
pub(crate) const LINE: f64 = 18.0;
/// Dashes of the lines of series, in turn.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// Classes begin with `mf-`: a page that holds several figures has these rules several times,
/// and no others.
const STYLE: &str = "<style>\
.mf{font-family:system-ui,sans-serif;font-size:14px}\
.mf-ground{fill:#fff}.mf-ink{fill:#1b1b1b}.mf-grid{stroke:#ddd}.mf-axis{stroke:#555}\
.mf-one{stroke:#1b1b1b;stroke-dasharray:5 4}\
.mf-0{color:#0072b2}.mf-1{color:#d55e00}.mf-2{color:#009e73}.mf-3{color:#cc79a7}\
.mf-4{color:#b87d00}.mf-5{color:#3a93cc}.mf-6{color:#6b6b6b}.mf-7{color:#7a3e9d}\
.mf-8{color:#8a5a2b}.mf-9{color:#00838f}.mf-10{color:#ad1457}.mf-11{color:#6b7a00}\
@media(prefers-color-scheme:dark){\
.mf-ground{fill:#16181c}.mf-ink{fill:#ececec}.mf-grid{stroke:#3a3d43}.mf-axis{stroke:#9a9a9a}\
.mf-one{stroke:#ececec}\
.mf-0{color:#4da6e0}.mf-1{color:#f08a3c}.mf-2{color:#2cc295}.mf-3{color:#e0a0c4}\
.mf-4{color:#f2b93b}.mf-5{color:#8fd0f5}.mf-6{color:#b0b0b0}.mf-7{color:#c39be0}\
.mf-8{color:#c99a6b}.mf-9{color:#4dd0e1}.mf-10{color:#f06fa4}.mf-11{color:#c3d24a}}\
</style>";

/// A figure under way.
pub(crate) struct Canvas {
    body: String,
}

impl Canvas {
    pub const fn new() -> Self {
        Self { body: String::new() }
    }

    /// The whole figure; `summary` is for those who cannot see it.
    pub fn finish(self, title: &str, summary: &str, height: f64) -> String {
        let (title, summary) = (escape(title), escape(summary));
        let body = self.body;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"mf\" role=\"img\" viewBox=\"0 0 {WIDTH} \
             {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\">\n\
             <title>{title}</title><desc>{summary}</desc>{STYLE}\n\
             <rect class=\"mf-ground\" width=\"{WIDTH}\" height=\"{height:.0}\"/>\n{body}</svg>\n"
        )
    }

    /// A text; `anchor` says which of its ends is at `x`.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escape(text);
        self.push(&format!(
            "<text class=\"mf-ink\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub fn title(&mut self, text: &str) -> f64 {
        let mut y = 24.0;
        for line in wrapped(text, ((WIDTH - 24.0) / 9.4) as usize) {
            let line = escape(&line);
            self.push(&format!(
                "<text class=\"mf-ink\" x=\"12\" y=\"{y:.1}\" font-size=\"16\" \
                 font-weight=\"600\">{line}</text>"
            ));
            y += LINE + 2.0;
        }
        y
    }

    /// A text from below to above.
    pub fn upright(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        self.push(&format!(
            "<text class=\"mf-ink\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 \
             {x:.1} {y:.1})\">{text}</text>"
        ));
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.push(&format!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub fn push(&mut self, element: &str) {
        let _ = writeln!(self.body, "{element}");
    }

    /// Names of series in rows, from `y` on; returns where the next row would be, and how each is drawn.
    pub fn legend(&mut self, names: &[(&str, Kind)], is_line: bool, mut y: f64) -> (f64, Vec<Look>) {
        let series: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        let looks = looks(&series, is_line);
        if names.len() < 2 && names.iter().all(|(name, _)| name.is_empty()) {
            return (y, looks);
        }
        let mut x = 12.0;
        for ((name, kind), look) in names.iter().zip(&looks) {
            let width = 42.0 + width(name);
            if x > 12.0 && x + width > WIDTH - 12.0 {
                (x, y) = (12.0, y + LINE + 2.0);
            }
            if is_line {
                self.stroke(*look, *kind, &format!("M{x:.1} {:.1}h24", y - 5.0));
                self.mark(*look, *kind, (x + 12.0, y - 5.0));
            } else {
                self.bar(*look, *kind, (x, y - 12.0), (24.0, 12.0));
            }
            self.text((x + 30.0, y), "start", name);
            x += width;
        }
        (y + LINE, looks)
    }

    pub fn stroke(&mut self, look: Look, kind: Kind, path: &str) {
        let Look { colour, shape } = look;
        let dash = match kind {
            Kind::Published => "1 5",
            Kind::Measured | Kind::Scattered => DASHES[(shape / 2) % DASHES.len()],
        };
        self.push(&format!(
            "<path class=\"mf-{colour}\" d=\"{path}\" fill=\"none\" stroke=\"currentColor\" \
             stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>"
        ));
    }

    /// A mark of a series: its shape tells it apart, too.
    pub fn mark(&mut self, look: Look, kind: Kind, (x, y): (f64, f64)) {
        let Look { colour, shape } = look;
        let fill = if kind == Kind::Published { "none" } else { "currentColor" };
        let form = match shape % 4 {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\""),
            1 => format!("<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\"", x - 3.5, y - 3.5),
            2 => format!("<path d=\"M{x:.1} {:.1}l4.5 8h-9z\"", y - 5.0),
            _ => format!("<path d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\"", y - 5.0),
        };
        self.push(&format!("{form} class=\"mf-{colour}\" fill=\"{fill}\" stroke=\"currentColor\"/>"));
    }

    pub fn bar(&mut self, look: Look, kind: Kind, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let colour = look.colour;
        let style = match kind {
            Kind::Measured | Kind::Scattered => "fill=\"currentColor\"",
            Kind::Published => "fill=\"none\" stroke=\"currentColor\" stroke-dasharray=\"3 2\"",
        };
        self.push(&format!(
            "<rect class=\"mf-{colour}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\" {style}/>"
        ));
    }
}

/// Width of a text, about: in a font that is among the wide ones.
pub(crate) fn width(text: &str) -> f64 {
    let of = |character| match character {
        'm' | 'M' | 'W' | '%' => 13.5,
        'w' => 11.5,
        'A'..='Z' => 10.5,
        'i' | 'j' | 'l' => 4.5,
        'f' | 'r' | 't' | ' ' | '.' | ',' | ':' | '(' | ')' | '/' | '-' => 6.0,
        _ => 8.9,
    };
    text.chars().map(of).sum()
}

/// Lines of so many characters at most, where words allow.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].chars().count() + 1 + word.chars().count() > most {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_titles_are_wrapped() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("", 7), [""]);
        assert_eq!(wrapped("incomprehensible", 7), ["incomprehensible"]);
    }

    #[test]
    fn capitals_are_wider_than_points() {
        assert!(width("MemC3") > width("miles") && width("MemC3") > width("1.2.3"));
        assert_eq!(width(""), 0.0);
    }

    #[test]
    fn texts_are_escaped() {
        let mut canvas = Canvas::new();
        canvas.text((0.0, 0.0), "start", "a < b & c");
        assert!(canvas.finish("x > y", "", 10.0).contains("a &lt; b &amp; c"));
    }
}
