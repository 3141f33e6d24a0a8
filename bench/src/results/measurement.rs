//! Results: a table for people, JSON for programs, a figure.

use std::path::PathBuf;

use micanite_workload::figure::{Bar, aligned};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::results::charts;
use crate::results::statistics::{Spread, median, ratios, spread};

/// One measured figure; the fields are documented in `docs/benchmarks/README.md`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Record {
    pub case: String,
    pub metric: String,
    pub value: f64,
    pub unit: String,
    pub peer: Option<String>,
    pub ratio: Option<f64>,
    pub spread: Spread,
}

impl Record {
    /// The value with its spread; that of a ratio says nothing about the value.
    pub fn bar(&self) -> Bar {
        match self.ratio {
            None => self.with_spread(self.value),
            Some(_) => Bar::new(self.value),
        }
    }

    /// The ratio to the peer with its spread, if there is a peer.
    pub fn ratio_bar(&self) -> Option<Bar> {
        self.ratio.map(|ratio| self.with_spread(ratio))
    }

    fn with_spread(&self, value: f64) -> Bar {
        Bar { value, low: self.spread.min, high: self.spread.max }
    }
}

/// Start of the note of a part that was not measured.
const FAILED: &str = "failed: ";

/// The results of one target.
#[derive(Debug)]
pub(crate) struct Measurement {
    target: &'static str,
    records: Vec<Record>,
    notes: Vec<String>,
}

impl Measurement {
    pub fn new(target: &'static str) -> Self {
        Self { target, records: Vec::new(), notes: Vec::new() }
    }

    pub fn records(&self) -> &[Record] {
        &self.records
    }

    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Something to know when reading the figures.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        eprintln!("note: {note}");
        self.notes.push(note);
    }

    /// The same, unless it was noted before.
    pub fn note_once(&mut self, note: &str) {
        if self.notes.iter().all(|known| known != note) {
            self.note(note);
        }
    }

    /// Takes the result of a part, or notes its failure: the other parts stay.
    pub fn part<T: Default>(&mut self, measured: Result<T>) -> T {
        measured.unwrap_or_else(|error| {
            self.note(format!("{FAILED}{error}"));
            T::default()
        })
    }

    /// An error if a [`Measurement::part`] was not measured.
    pub fn complete(&self) -> Result<()> {
        match self.notes.iter().any(|note| note.starts_with(FAILED)) {
            true => Err("a part was not measured: the notes say why".into()),
            false => Ok(()),
        }
    }

    /// A figure by itself, from its rounds.
    pub fn value(&mut self, case: &str, metric: &str, unit: &str, rounds: &[f64]) {
        self.push(case, metric, unit, rounds, None);
    }

    /// A figure beside a peer's, from interleaved rounds: the ratio is the median of the rounds'
    /// ratios, the spread is theirs.
    pub fn beside(
        &mut self,
        (case, metric, unit): (&str, &str, &str),
        ours: &[f64],
        peer: &str,
        theirs: &[f64],
    ) {
        self.push(case, metric, unit, ours, Some((peer, &ratios(ours, theirs))));
    }

    fn push(&mut self, case: &str, metric: &str, unit: &str, rounds: &[f64], beside: Option<(&str, &[f64])>) {
        let record = Record {
            case: case.to_owned(),
            metric: metric.to_owned(),
            value: median(rounds),
            unit: unit.to_owned(),
            peer: beside.map(|(peer, _)| peer.to_owned()),
            ratio: beside.map(|(_, ratios)| median(ratios)),
            spread: spread(beside.map_or(rounds, |(_, ratios)| ratios)),
        };
        self.records.push(record);
    }

    /// Prints the table; writes JSON and SVG to `target/bench`.
    ///
    /// # Errors
    /// When nothing was measured: a filter that matches no case must not look like a success.
    pub fn finish(&self) -> Result<()> {
        if self.records.is_empty() {
            return Err("nothing was measured: no case has this name".into());
        }
        print!("{}", self.table());
        let folder = folder();
        std::fs::create_dir_all(&folder)?;
        let json = folder.join(format!("{}.json", self.target));
        std::fs::write(&json, serde_json::to_string_pretty(&self.records)? + "\n")?;
        let figure = folder.join(format!("{}.svg", self.target));
        std::fs::write(&figure, self.figure())?;
        println!("\nwritten: {} and {}", json.display(), figure.display());
        Ok(())
    }

    fn table(&self) -> String {
        let columns = ["case", "metric", "value", "unit", "peer", "ratio", "spread"];
        let mut rows = vec![columns.map(str::to_owned).to_vec()];
        rows.extend(self.records.iter().map(|record| {
            vec![
                record.case.clone(),
                record.metric.clone(),
                number(record.value),
                record.unit.clone(),
                record.peer.clone().unwrap_or_default(),
                record.ratio.map(|ratio| format!("{ratio:.2} x")).unwrap_or_default(),
                format!("{} .. {}", number(record.spread.min), number(record.spread.max)),
            ]
        }));
        let notes = self.notes.iter().map(|note| format!("note: {note}\n"));
        aligned(&rows, |at| at == 2 || at == 5) + &notes.collect::<String>()
    }

    /// A bar for every ratio, with a line at 1.
    fn figure(&self) -> String {
        let title = format!("{}: ratio to the peer", self.target);
        let named = |record: &Record| Record {
            case: format!("{}, {}", record.case, record.metric),
            ..record.clone()
        };
        let records: Vec<_> = self.records.iter().map(named).collect();
        let title = (title.as_str(), "median and spread of interleaved rounds");
        charts::ratios(title, &records, |record| Some((record.case.as_str(), record.peer.as_deref()?))).svg()
    }
}

/// Returns the folder of results: `target/bench`, or where the report wants them.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("MICANITE_BENCH_DIR").map_or_else(|| "target/bench".into(), PathBuf::from)
}

/// Four significant digits or so.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        1000.0.. => {
            let digits = format!("{value:.0}");
            let mut text = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at).is_multiple_of(3) && digit != '-' {
                    text.push(' ');
                }
                text.push(digit);
            }
            text
        }
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_an_error() {
        assert!(Measurement::new("test").finish().is_err());
    }

    #[test]
    fn a_report_says_the_median_of_ratios() {
        let mut report = Measurement::new("test");
        report.beside(("case", "metric", "x/s"), &[10.0, 20.0, 30.0], "peer 1", &[10.0, 10.0, 10.0]);
        report.value("alone", "bytes", "bytes", &[1_234_567.0]);
        let record = &report.records[0];
        assert_eq!((record.value, record.ratio), (20.0, Some(2.0)));
        assert_eq!((record.spread.min, record.spread.max), (1.0, 3.0));
        assert!(report.table().contains("1 234 567"));
        assert!(report.figure().contains("case, metric"));
    }
}
