//! The view of two samples: a head, and tables.

use std::cmp::Ordering;
use std::fmt::Write;

use super::sample::{Sample, Times};
use super::text::{age, bytes, count, latency, percent};

/// Parts of the requests whose latency is shown.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// Spaces between two columns.
const GAP: usize = 2;

/// A line of a table. Numbers sort it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub cells: Vec<String>,
    keys: Vec<f64>,
}

/// A table: rows below a line of names.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub columns: Vec<&'static str>,
    pub rows: Vec<Row>,
    /// True if the last column stands at the left, and not the first.
    is_last_left: bool,
}

/// Two samples as text.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Server and version.
    pub title: String,
    /// Requests per second, for a line of their history.
    pub rate: Option<f64>,
    pub head: Vec<String>,
    pub panels: Vec<Panel>,
}

impl Panel {
    /// Sorts by a column: the largest first, text by the alphabet.
    pub fn sort(&mut self, column: usize) {
        self.rows.sort_by(|a, b| match (a.keys.get(column), b.keys.get(column)) {
            (Some(one), Some(other)) if !one.is_nan() || !other.is_nan() => {
                let real = |key: &f64| if key.is_nan() { f64::NEG_INFINITY } else { *key };
                real(other).total_cmp(&real(one))
            }
            (Some(_), Some(_)) => a.cells.get(column).cmp(&b.cells.get(column)),
            _ => Ordering::Equal,
        });
    }

    /// The names of the columns and the rows, as lines of one width.
    pub fn lines(&self, sorted: Option<usize>) -> (String, Vec<String>) {
        let names = self.columns.iter().enumerate().map(|(number, name)| match sorted {
            Some(column) if column == number => format!("{name}*"),
            _ => (*name).to_owned(),
        });
        let names: Vec<String> = names.collect();
        let of_column = |column: usize| {
            let cells = self.rows.iter().filter_map(move |row| row.cells.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(names[column].chars().count())
        };
        let widths: Vec<usize> = (0..names.len()).map(of_column).collect();
        let line = |cells: &[String]| self.line(cells, &widths);
        (line(&names), self.rows.iter().map(|row| line(&row.cells)).collect())
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (number, (cell, width)) in cells.iter().zip(widths).enumerate() {
            if number > 0 {
                line.extend(std::iter::repeat_n(' ', GAP));
            }
            let is_left = if self.is_last_left { number + 1 == cells.len() } else { number == 0 };
            // Writing to a String cannot fail.
            let _ = if is_left { write!(line, "{cell:<width$}") } else { write!(line, "{cell:>width$}") };
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Rates between two samples; without the first one there are none.
struct Between<'a> {
    before: Option<&'a Sample>,
    after: &'a Sample,
    seconds: f64,
}

impl<'a> Between<'a> {
    fn new(before: Option<&'a Sample>, after: &'a Sample) -> Self {
        let before = before.filter(|before| !after.is_restart_of(before));
        let seconds = before.map_or(0.0, |before| after.at.duration_since(before.at).as_secs_f64());
        Self { before: before.filter(|_| seconds > 0.0), after, seconds }
    }

    /// Returns how fast a counter grows, per second.
    fn rate(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        Some((of(self.after)? - of(self.before?)?).max(0.0) / self.seconds)
    }

    fn count(&self, of: impl Fn(&Sample) -> Option<f64>) -> String {
        self.rate(of).map_or("-".to_owned(), count)
    }
}

impl View {
    pub fn new(name: &str, before: Option<&Sample>, after: &Sample) -> Self {
        let between = Between::new(before, after);
        let version = after.version.as_deref().unwrap_or("memcached");
        let uptime = after.uptime_s.map(|seconds| format!(", up {}", age(seconds as u64)));
        let panels = [commands(&between), workers(&between), hot_keys(after)];
        Self {
            title: format!("{name}: {version}{}", uptime.unwrap_or_default()),
            rate: between.rate(all_requests),
            head: head(&between),
            panels: panels.into_iter().filter(|panel| !panel.rows.is_empty()).collect(),
        }
    }

    /// All of it, as plain text.
    pub fn text(&self) -> String {
        let mut lines = vec![self.title.clone()];
        lines.extend(self.head.iter().cloned());
        for panel in &self.panels {
            let (names, rows) = panel.lines(None);
            lines.push(String::new());
            lines.push(names);
            lines.extend(rows);
        }
        lines.join("\n") + "\n"
    }
}

fn all_requests(sample: &Sample) -> Option<f64> {
    Some(sample.commands.values().map(|requests| requests.all).sum())
}

/// Returns the part of the reads since the first sample that found something.
fn hit_ratio(between: &Between<'_>, command: &str) -> Option<f64> {
    let of = |pick: fn(&super::sample::Requests) -> f64| {
        between.rate(|sample| Some(sample.commands.get(command).map_or(0.0, pick)))
    };
    let (hits, misses) = (of(|requests| requests.hits)?, of(|requests| requests.misses)?);
    (hits + misses > 0.0).then(|| hits / (hits + misses))
}

fn head(between: &Between<'_>) -> Vec<String> {
    let now = between.after;
    let dash = || "-".to_owned();
    let mut lines = vec![format!(
        "requests/s {}   hit ratio {}   in {}/s   out {}/s",
        between.count(all_requests),
        hit_ratio(between, "get").map_or_else(dash, percent),
        between.rate(|sample| sample.received_bytes).map_or_else(dash, bytes),
        between.rate(|sample| sample.sent_bytes).map_or_else(dash, bytes),
    )];
    // The rest is free, or of items that were overwritten.
    let used = || now.memory.iter().filter(|(word, part)| word != "rest" && *part > 0.0);
    let parts: Vec<String> = used().map(|(word, part)| format!("{word} {}", bytes(*part))).collect();
    // The sum of nothing is -0.
    let sum = used().fold(0.0, |sum, (_, part)| sum + part);
    let memory = now.memory_bytes_max.filter(|all| *all > 0.0);
    lines.extend(
        memory.map(|all| format!("memory {} of {}: {}", percent(sum / all), bytes(all), parts.join(", "))),
    );
    lines.push(format!(
        "items {}   evictions/s {}   expired/s {}   refused/s {}",
        now.items.map_or_else(dash, count),
        between.count(|sample| sample.evictions),
        between.count(|sample| sample.expired),
        between.count(|sample| sample.refused),
    ));
    let cpu = between.rate(|sample| sample.cpu_s);
    lines.push(format!(
        "connections {} of {}   new/s {}   CPU {}",
        now.connections.map_or_else(dash, count),
        now.connections_max.map_or_else(dash, count),
        between.count(|sample| sample.accepted),
        cpu.map_or_else(dash, percent),
    ));
    lines
}

fn commands(between: &Between<'_>) -> Panel {
    let has_times = !between.after.times.is_empty();
    let mut columns = vec!["command", "/s", "hits"];
    if has_times {
        columns.extend(QUANTILES.map(|(name, _)| name));
    }
    let row = |(name, requests): (&String, &super::sample::Requests)| {
        let rate = between.rate(|sample| Some(sample.commands.get(name).map_or(0.0, |of| of.all)));
        let ratio = if requests.hits + requests.misses > 0.0 { hit_ratio(between, name) } else { None };
        let mut row = Row { cells: vec![name.clone()], keys: vec![f64::NAN] };
        let mut push = |value: Option<f64>, text: fn(f64) -> String| {
            row.cells.push(value.map_or("-".to_owned(), text));
            row.keys.push(value.unwrap_or(f64::NAN));
        };
        push(rate, count);
        push(ratio, percent);
        if has_times {
            // Increments and decrements are timed together.
            let timed = if name == "incr" || name == "decr" { "arithmetic" } else { name };
            let times = |sample: &'_ Sample| sample.times.get(timed).cloned();
            let (after, before) = (times(between.after), between.before.and_then(times));
            for (_, part) in QUANTILES {
                let quantile = |after: &Times| after.quantile(before.as_ref(), part);
                push(between.before.and(after.as_ref()).and_then(quantile), latency);
            }
        }
        row
    };
    let seen = between.after.commands.iter().filter(|(_, requests)| requests.all > 0.0);
    let mut panel = Panel { columns, rows: seen.map(row).collect(), is_last_left: false };
    panel.sort(1);
    panel
}

fn workers(between: &Between<'_>) -> Panel {
    let row = |(number, worker): (&u64, &super::sample::Worker)| {
        let of = |pick: fn(&super::sample::Worker) -> f64| {
            between.rate(|sample| sample.workers.get(number).map(pick))
        };
        let (requests, cores) = (of(|worker| worker.requests), of(|worker| worker.cpu_s));
        let dash = || "-".to_owned();
        Row {
            cells: vec![
                number.to_string(),
                requests.map_or_else(dash, count),
                cores.map_or_else(dash, percent),
                count(worker.connections),
                count(worker.partitions),
            ],
            // The least number first.
            keys: vec![
                -(*number as f64),
                requests.unwrap_or(f64::NAN),
                cores.unwrap_or(f64::NAN),
                worker.connections,
                worker.partitions,
            ],
        }
    };
    Panel {
        columns: vec!["worker", "requests/s", "CPU", "connections", "partitions"],
        rows: between.after.workers.iter().map(row).collect(),
        is_last_left: false,
    }
}

fn hot_keys(now: &Sample) -> Panel {
    let row = |(share, key): &(f64, String)| Row {
        cells: vec![format!("{share:.3}%"), key.clone()],
        keys: vec![*share, f64::NAN],
    };
    let keys = now.hot_keys.iter().flatten();
    Panel { columns: vec!["share", "hot key"], rows: keys.map(row).collect(), is_last_left: true }
}
