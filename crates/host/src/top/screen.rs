//! Draws a view into whatever room there is.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use super::view::View;

/// Requests per second that are remembered.
const HISTORY_MAX: usize = 512;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const KEYS: &str = "q quit  p pause  +/- interval  Tab table  arrows sort, scroll  ? help";
const HELP: [&str; 12] = [
    "q, Esc, Ctrl-C    quit",
    "p, space          pause, go on",
    "+, s / -          look less often, more often",
    "Tab, Shift-Tab    choose a table",
    "left, right       choose the column that sorts it",
    "up, down          scroll it",
    "?                 this help",
    "",
    "Latency: from when a worker could see a request until its reply was handed",
    "to the kernel; of most requests under a light load, of a sixteenth under a",
    "heavy one. CPU: 100% is one core. memcached tells no latencies, workers or",
    "hot keys.",
];

/// State of the screen beside the counters.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// The chosen table.
    pub panel: usize,
    /// The first row on the screen and the column that sorts, of each table.
    places: [Place; 3],
    pub has_help: bool,
    history: VecDeque<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    scroll: usize,
    column: Option<usize>,
}

/// State of the watching, in words.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// Interval, and whether it is paused.
    pub words: String,
    /// Why the counters are old, and how old.
    pub lost: Option<String>,
}

impl Screen {
    /// Notes a rate of requests.
    pub fn note(&mut self, rate: Option<f64>) {
        self.history.extend(rate);
        while self.history.len() > HISTORY_MAX {
            self.history.pop_front();
        }
    }

    /// Chooses another table.
    pub fn choose_panel(&mut self, view: &View, forwards: bool) {
        let panels = view.panels.len().max(1);
        self.panel = (self.panel + if forwards { 1 } else { panels - 1 }) % panels;
    }

    /// Chooses another column to sort by.
    pub fn choose_column(&mut self, view: &View, forwards: bool) {
        let Some(panel) = view.panels.get(self.panel) else {
            return;
        };
        let columns = panel.columns.len();
        let column = &mut self.places[self.panel].column;
        *column = Some(match *column {
            None => 0,
            Some(column) => (column + if forwards { 1 } else { columns - 1 }) % columns,
        });
    }

    /// Scrolls the chosen table.
    pub fn scroll(&mut self, view: &View, down: bool) {
        let rows = view.panels.get(self.panel).map_or(0, |panel| panel.rows.len());
        let scroll = &mut self.places[self.panel].scroll;
        *scroll = if down { (*scroll + 1).min(rows.saturating_sub(1)) } else { scroll.saturating_sub(1) };
    }

    /// Draws everything.
    pub fn draw(&self, frame: &mut Frame<'_>, view: &View, status: &Status) {
        let area = frame.area();
        let lines = if self.has_help { help() } else { self.lines(view, status, area) };
        let last = area.height.saturating_sub(1);
        for (row, line) in (0..last).zip(lines) {
            frame.render_widget(line, Rect { y: area.y + row, height: 1, ..area });
        }
        if area.height > 0 {
            let keys = if self.has_help { "any key: back" } else { KEYS };
            let keys = Line::styled(keys, Style::new().add_modifier(Modifier::DIM));
            frame.render_widget(keys, Rect { y: area.y + last, height: 1, ..area });
        }
        if status.lost.is_some() {
            frame.buffer_mut().set_style(area, Style::new().fg(Color::DarkGray));
        }
    }

    fn lines(&self, view: &View, status: &Status, area: Rect) -> Vec<Line<'static>> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut lines = vec![Line::styled(format!("{}   {}", view.title, status.words), bold)];
        lines.extend(status.lost.clone().map(|lost| Line::styled(lost, bold)));
        lines.extend(view.head.iter().cloned().map(Line::raw));
        lines.push(Line::raw(self.bars(usize::from(area.width))));
        // The last line has the keys.
        let room = usize::from(area.height).saturating_sub(lines.len() + 1);
        for (number, rows) in self.shares(view, room).into_iter().enumerate().filter(|(_, rows)| *rows > 1) {
            self.table(view, number, rows, &mut lines);
        }
        lines
    }

    /// A table within so many lines: one is empty, one has the names.
    fn table(&self, view: &View, number: usize, room: usize, lines: &mut Vec<Line<'static>>) {
        let (mut panel, place) = (view.panels[number].clone(), self.places[number]);
        if let Some(column) = place.column.filter(|column| *column < panel.columns.len()) {
            panel.sort(column);
        }
        let is_chosen = number == self.panel;
        let (names, rows) = panel.lines(place.column);
        let style =
            Style::new().add_modifier(if is_chosen { Modifier::REVERSED } else { Modifier::UNDERLINED });
        lines.push(Line::raw(""));
        lines.push(Line::styled(names, style));
        let shown = room.saturating_sub(2);
        let first = place.scroll.min(rows.len().saturating_sub(shown));
        lines.extend(rows.into_iter().skip(first).take(shown).map(Line::raw));
    }

    /// Divides the lines among the tables; the chosen one takes first.
    fn shares(&self, view: &View, mut room: usize) -> Vec<usize> {
        let wanted: Vec<usize> = view.panels.iter().map(|panel| panel.rows.len() + 2).collect();
        let mut shares = vec![0; wanted.len()];
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by_key(|number| *number != self.panel);
        // An empty line, the names and a row, or nothing.
        for number in &order {
            let least = wanted[*number].min(3);
            if least <= room {
                shares[*number] = least;
                room -= least;
            }
        }
        while room > 0 {
            let before = room;
            for number in &order {
                if shares[*number] > 0 && shares[*number] < wanted[*number] && room > 0 {
                    shares[*number] += 1;
                    room -= 1;
                }
            }
            if room == before {
                break;
            }
        }
        shares
    }

    /// The last rates of requests, each as a bar.
    fn bars(&self, width: usize) -> String {
        let most = self.history.iter().copied().fold(0.0, f64::max);
        let shown = self.history.iter().skip(self.history.len().saturating_sub(width));
        let bar = |rate: &f64| {
            let part = if most > 0.0 { rate / most } else { 0.0 };
            BARS[((part * 8.0) as usize).min(7)]
        };
        shown.map(bar).collect()
    }
}

fn help() -> Vec<Line<'static>> {
    HELP.iter().map(|line| Line::raw(*line)).collect()
}
