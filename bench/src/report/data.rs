//! The values of figures and tables as rows, for those who want numbers.

use micanite_workload::figure::{BarChart, Kind, LineChart, csv_field, short};

use crate::report::section::{Exhibit, Table};

/// The values that an exhibit shows, in full precision; nothing for texts.
pub(crate) fn table(exhibit: &Exhibit) -> Option<Table> {
    match exhibit {
        Exhibit::Lines(chart) => Some(lines(chart)),
        Exhibit::Bars(chart) => Some(bars(chart)),
        Exhibit::Table(table) => Some(table.clone()),
        Exhibit::Note(_) | Exhibit::Headline(_) => None,
    }
}

fn strings<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

const fn origin(kind: Kind) -> &'static str {
    match kind {
        Kind::Measured | Kind::Scattered => "measured",
        Kind::Published => "published",
    }
}

fn lines(chart: &LineChart) -> Table {
    let mut columns = strings(["series", "from", "", "", "least", "greatest"]);
    columns[2].clone_from(&chart.x.label);
    columns[3].clone_from(&chart.y.label);
    let row = |line: &micanite_workload::figure::Line, point: &micanite_workload::figure::Point| {
        let mut row = strings([&line.name, origin(line.kind)]);
        row.extend([point.x, point.y, point.low, point.high].map(|value| value.to_string()));
        row
    };
    let rows = chart.lines.iter().flat_map(|line| line.points.iter().map(move |point| row(line, point)));
    Table { title: chart.title.clone(), columns, rows: rows.collect() }
}

fn bars(chart: &BarChart) -> Table {
    let mut columns = strings(["case", "series", "from", "", "least", "greatest"]);
    columns[3].clone_from(&chart.x.label);
    let mut rows = Vec::new();
    for (group, name) in chart.groups.iter().enumerate() {
        for series in &chart.series {
            if let Some(bar) = series.bars.get(group).copied().flatten() {
                let mut row = strings([name, &series.name, origin(series.kind)]);
                row.extend([bar.value, bar.low, bar.high].map(|value| value.to_string()));
                rows.push(row);
            }
        }
    }
    Table { title: chart.title.clone(), columns, rows }
}

/// The rows as CSV (RFC 4180).
pub(crate) fn csv(table: &Table) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| csv_field(cell)).collect();
        cells.join(",") + "\r\n"
    };
    let rows = table.rows.iter().map(|row| line(row));
    std::iter::once(line(&table.columns)).chain(rows).collect()
}

/// A number of the rows in the figures' form; other texts as they are.
pub(crate) fn shown(cell: &str) -> String {
    match cell.parse::<f64>() {
        Ok(value) if cell.len() > 6 => short(value),
        _ => cell.to_owned(),
    }
}

/// Tells whether a cell is aligned as a number: it begins like one, and is no sentence.
pub(crate) fn is_number(cell: &str) -> bool {
    let mut rest = cell.chars().skip_while(|c| "-+~<>\u{2212}".contains(*c));
    let is_sentence = cell.contains(" times ");
    cell == "-" || (!is_sentence && rest.next().is_some_and(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use micanite_workload::figure::{Arrangement, Axis, Bar, Line, Point, Series};

    use super::*;

    #[test]
    fn figures_have_their_values_beside_them() {
        let chart = LineChart {
            title: "t".to_owned(),
            x: Axis::linear("load (1/s)"),
            y: Axis::log("latency (us)"),
            lines: vec![Line {
                name: "ours, native".to_owned(),
                kind: Kind::Measured,
                points: vec![Point::new(0.5, 20.0)],
            }],
        };
        let rows = table(&Exhibit::Lines(chart)).unwrap();
        assert_eq!(
            csv(&rows),
            "series,from,load (1/s),latency (us),least,greatest\r\n\"ours, native\",measured,0.5,20,20,20\r\n"
        );
        let chart = BarChart {
            title: "t".to_owned(),
            x: Axis::linear("gets/s"),
            groups: vec!["a".to_owned(), "b".to_owned()],
            series: vec![Series {
                name: "MemC3".to_owned(),
                kind: Kind::Published,
                bars: vec![None, Some(Bar::new(4.3e6))],
            }],
            arrangement: Arrangement::Beside,
            reference: None,
        };
        let rows = table(&Exhibit::Bars(chart)).unwrap().rows;
        assert_eq!(rows, [strings(["b", "MemC3", "published", "4300000", "4300000", "4300000"])]);
        assert_eq!(table(&Exhibit::Note("n".to_owned())), None);
    }

    #[test]
    fn numbers_are_known() {
        assert!(["3", "-4", "1.5 M", "0.3 (0.2 .. 0.4)", "-", "<1"].iter().all(|cell| is_number(cell)));
        assert!(!["", "tiny", "a 1", "2 (1 .. 3) times memcached"].iter().any(|cell| is_number(cell)));
        assert_eq!(shown("1234567.891"), "1.23 M");
        assert_eq!(shown("tiny items"), "tiny items");
        assert_eq!(shown("12.5"), "12.5");
    }
}
