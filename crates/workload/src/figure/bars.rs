//! Values beside each other.

use super::Kind;
use super::axis::Axis;
use super::canvas::{Canvas, LINE, WIDTH, width};
use super::looks::Look;
use super::number::short;
use super::whiskers::{self, Room};

/// A value and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Measured value; of several, the median.
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Bar {
    /// Without a spread.
    pub const fn new(value: f64) -> Self {
        Self { value, low: value, high: value }
    }
}

/// A value in each group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Text of the legend.
    pub name: String,
    /// Origin of the values.
    pub kind: Kind,
    /// One for each group; nothing where there is none.
    pub bars: Vec<Option<Bar>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    Beside,
    /// Each where the one before ends: parts of a whole.
    Stacked,
}

/// Bars in groups, from left to right, with their names beside them.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    pub title: String,
    pub x: Axis,
    pub groups: Vec<String>,
    /// Series in the order of the legend.
    pub series: Vec<Series>,
    pub arrangement: Arrangement,
    /// A value that the others are beside: a dashed line, say at 1.
    pub reference: Option<f64>,
}

const BAR_HEIGHT: f64 = 18.0;
const GROUP_GAP: f64 = 12.0;
const LABEL_WIDTH_MAX: f64 = 280.0;
/// Room for the number behind the longest bar.
const NUMBER_WIDTH: f64 = 64.0;

impl BarChart {
    /// Describes the whiskers, if there are any: each value is of so many rounds.
    pub fn caption(&self, rounds: Option<u32>) -> Option<String> {
        if self.arrangement == Arrangement::Stacked {
            return None;
        }
        let ends: Vec<_> = self.bars().map(|bar| (bar.low, bar.high)).collect();
        whiskers::caption(&self.x, self.room(), &ends, rounds)
    }

    fn bars(&self) -> impl Iterator<Item = Bar> {
        self.series.iter().flat_map(|series| series.bars.iter().copied().flatten())
    }

    fn room(&self) -> Room {
        Room::of(&self.x, self.bars().map(|bar| bar.value))
    }

    pub fn svg(&self) -> String {
        let mut canvas = Canvas::new();
        let below_title = canvas.title(&self.title);
        let names: Vec<_> = self.series.iter().map(|series| (series.name.as_str(), series.kind)).collect();
        let (below_legend, looks) = canvas.legend(&names, false, below_title);
        let top = below_legend + 4.0;
        let longest = self.groups.iter().map(|name| width(name)).fold(20.0, f64::max);
        let left = 18.0 + longest.min(LABEL_WIDTH_MAX);
        let right = WIDTH - NUMBER_WIDTH;
        let group_height = self.rows() as f64 * BAR_HEIGHT + GROUP_GAP;
        let bottom = top + self.groups.len() as f64 * group_height;
        let range = self.x.range(self.ends());
        let to_x = |value: f64| left + (right - left) * range.place(value);
        for (place, text) in range.labelled() {
            let at = left + (right - left) * place;
            canvas.line("mf-grid", (at, top), (at, bottom));
            canvas.text((at, bottom + LINE), "middle", &text);
        }
        for (group, name) in self.groups.iter().enumerate() {
            let y = top + group as f64 * group_height + GROUP_GAP / 2.0;
            let middle = y + (group_height - GROUP_GAP) / 2.0 + 5.0;
            canvas.text((left - 8.0, middle), "end", &shortened(name));
            self.draw_group(&mut canvas, group, (y, &looks), &to_x);
        }
        if let Some(value) = self.reference {
            canvas.line("mf-one", (to_x(value), top), (to_x(value), bottom));
        }
        canvas.line("mf-axis", (left, top), (left, bottom));
        canvas.text(((left + right) / 2.0, bottom + 2.3 * LINE), "middle", &self.x.label);
        let summary = format!("{} of {}", self.x.label, self.groups.join(", "));
        canvas.finish(&self.title, &summary, bottom + 3.0 * LINE)
    }

    fn rows(&self) -> usize {
        match self.arrangement {
            Arrangement::Beside => self.series.len().max(1),
            Arrangement::Stacked => 1,
        }
    }

    /// Every value that has to have a place.
    fn ends(&self) -> impl Iterator<Item = f64> {
        let room = self.room();
        let values = move |group: usize| {
            let bars = self.series.iter().filter_map(move |series| series.bars.get(group).copied().flatten());
            match self.arrangement {
                Arrangement::Stacked => vec![bars.map(|bar| bar.value).sum()],
                Arrangement::Beside => {
                    bars.flat_map(|bar| [bar.value, room.clip(bar.low), room.clip(bar.high)]).collect()
                }
            }
        };
        (0..self.groups.len()).flat_map(values).chain(self.reference)
    }

    fn draw_group(
        &self,
        canvas: &mut Canvas,
        group: usize,
        (top, looks): (f64, &[Look]),
        to_x: &dyn Fn(f64) -> f64,
    ) {
        let (mut from, mut row, mut end) = (0.0, 0.0, 0.0);
        for (series, look) in self.series.iter().zip(looks) {
            let y = top + row * BAR_HEIGHT;
            if self.arrangement == Arrangement::Beside {
                (from, row) = (0.0, row + 1.0);
            }
            let Some(bar) = series.bars.get(group).copied().flatten() else {
                continue;
            };
            let (x, to) = (to_x(from), to_x(from + bar.value));
            canvas.bar(*look, series.kind, (x, y + 1.0), ((to - x).max(0.5), BAR_HEIGHT - 3.0));
            end = to;
            if self.arrangement == Arrangement::Stacked {
                from += bar.value;
                continue;
            }
            let middle = y + BAR_HEIGHT / 2.0;
            if bar.low < bar.high {
                canvas.line("mf-axis", (to_x(bar.low), middle), (to_x(bar.high), middle));
                end = end.max(to_x(bar.high));
            }
            let number = short(bar.value);
            // A number that the dashed line would strike through stands behind it.
            if let Some(line) = self.reference.map(to_x)
                && (end..end + 8.0 + width(&number)).contains(&line)
            {
                end = line;
            }
            canvas.text((end + 5.0, middle + 4.0), "start", &number);
        }
        if self.arrangement == Arrangement::Stacked {
            canvas.text((end + 5.0, top + BAR_HEIGHT / 2.0 + 4.0), "start", &short(from));
        }
    }
}

/// A group's name in the room that there is.
fn shortened(name: &str) -> String {
    if width(name) <= LABEL_WIDTH_MAX {
        return name.to_owned();
    }
    let mut text: String = name.chars().take((LABEL_WIDTH_MAX / width("m")) as usize - 1).collect();
    text.push('\u{2026}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(arrangement: Arrangement) -> BarChart {
        let series = |name: &str, kind, bars: [Option<Bar>; 2]| Series {
            name: name.to_owned(),
            kind,
            bars: bars.to_vec(),
        };
        BarChart {
            title: "Throughput".to_owned(),
            x: Axis::linear("operations/s"),
            groups: vec![
                "tiny".to_owned(),
                "a name that is much longer than what there is room for".to_owned(),
            ],
            series: vec![
                series(
                    "ours",
                    Kind::Measured,
                    [Some(Bar { value: 3e6, low: 2e6, high: 4e6 }), Some(Bar::new(1e6))],
                ),
                series("MemC3", Kind::Published, [Some(Bar::new(1.5e6)), None]),
            ],
            arrangement,
            reference: Some(2e6),
        }
    }

    #[test]
    fn bars_stand_beside_each_other() {
        let svg = chart(Arrangement::Beside).svg();
        assert!(svg.contains(">3 M<") && svg.contains(">1.5 M<") && svg.contains(">tiny<"));
        assert!(svg.contains('\u{2026}') && svg.contains("mf-one"));
        // The ground, two of the legend, three values.
        assert_eq!(svg.matches("<rect").count(), 6);
    }

    /// A number never stands on the dashed line.
    #[test]
    fn numbers_leave_the_reference_free() {
        let place = |reference| {
            let svg = BarChart { reference, ..chart(Arrangement::Beside) }.svg();
            let text = svg.lines().find(|line| line.contains(">1 M<") && line.contains("start")).unwrap();
            let x = text.split("x=\"").nth(1).unwrap().split('"').next().unwrap();
            x.parse::<f64>().unwrap()
        };
        assert!(place(Some(1.05e6)) > place(None));
        assert_eq!(place(Some(2.5e6)), place(None));
    }

    #[test]
    fn stacked_bars_say_their_sum() {
        let svg = chart(Arrangement::Stacked).svg();
        assert!(svg.contains(">4.5 M<") && !svg.contains(">1.5 M<"), "{svg}");
    }
}
