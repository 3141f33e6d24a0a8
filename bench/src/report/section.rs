//! A section of the report: a question, the commands that answer it, and what is drawn of their
//! results.

use std::collections::BTreeMap;

use micanite_workload::figure::{BarChart, LineChart};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::results::measurement::Record;

/// Amount of measuring.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// All sections together in ten minutes.
    Short,
    /// More rounds, larger data sets and more points.
    Full,
}

impl Form {
    /// The first in the short form, the second in the full one.
    pub fn pick<T>(self, short: T, full: T) -> T {
        match self {
            Self::Short => short,
            Self::Full => full,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Section {
    /// Anchor in the page, and folder among the raw data.
    pub id: &'static str,
    pub text: Text,
    pub commands: Commands,
    /// Draws the results; a sentence says what is missing where a command failed or was left out.
    pub draw: Draw,
}

/// The prose of a section (`sections/texts.toml`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    pub title: String,
    pub question: String,
    pub source: String,
    pub published: String,
    pub differs: String,
}

pub type Commands = fn(Form) -> Vec<Command>;
pub type Draw = fn(&Results) -> Result<Vec<Exhibit>, String>;

/// A command of `micanite-lab`, as a person would type it: it prints a table and writes JSON to the
/// folder that it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub arguments: Vec<String>,
    /// The name that the results go by.
    pub result: &'static str,
    /// Reason why this machine cannot run it: a sentence that the page shows with the command.
    pub lacks: Option<String>,
    /// True if it gets the peers of the report: `--peer NAME=ADDRESS`.
    pub takes_peers: bool,
}

impl Command {
    /// A command whose words are separated by single blanks.
    pub fn lab(result: &'static str, words: &str) -> Self {
        Self {
            arguments: words.split(' ').map(str::to_owned).collect(),
            result,
            lacks: None,
            takes_peers: false,
        }
    }

    /// Adds an argument that may contain blanks.
    #[must_use]
    pub fn with(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// A command that stands beside peers at addresses, too: `--peer NAME=ADDRESS`, any number of times.
    #[must_use]
    pub fn with_peers(mut self) -> Self {
        self.takes_peers = true;
        self
    }

    /// A command that this machine cannot run, with the reason; the page shows both.
    #[must_use]
    pub fn lacking(mut self, reason: impl Into<String>) -> Self {
        self.lacks = Some(reason.into());
        self
    }
}

/// A part of a section on the page.
#[derive(Clone, Debug, PartialEq)]
pub enum Exhibit {
    /// Values over an axis.
    Lines(LineChart),
    /// Values beside each other.
    Bars(BarChart),
    /// Rows and columns.
    Table(Table),
    /// A remark on the figures.
    Note(String),
    /// A row of the summary that the page begins with.
    Headline(Headline),
}

/// A row of the summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// Measurement in plain words: `GETs per second of one core, tiny items`.
    pub what: String,
    /// Result, with its unit or the peer and the spread: `3.9 (3.6 .. 4.1) times memcached 1.6.18`.
    pub ours: String,
    /// Published figure, or nothing.
    pub published: String,
}

/// A table: cells are text, numbers among them aligned to the right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub title: String,
    /// Headings, with units.
    pub columns: Vec<String>,
    /// Rows of as many cells as columns.
    pub rows: Vec<Vec<String>>,
}

/// The results of a section's commands by their names.
#[derive(Clone, Debug)]
pub struct Results {
    pub json: BTreeMap<String, Value>,
}

impl Results {
    /// The records that a command of the lab wrote.
    ///
    /// # Errors
    /// When there are none: a sentence.
    pub fn records(&self, result: &str) -> Result<Vec<Record>, String> {
        let json = self.json.get(result).ok_or_else(|| format!("'{result}' was not measured"))?;
        serde_json::from_value(json.clone()).map_err(|error| format!("'{result}' has no records: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_those_of_the_lab() {
        let json = serde_json::json!([{
            "case": "c", "metric": "m", "value": 4.0, "unit": "ops/s",
            "peer": "memcached", "ratio": 2.0, "spread": {"min": 1.5, "max": 2.5},
        }]);
        let results = Results { json: BTreeMap::from([("x".to_owned(), json)]) };
        let records = results.records("x").unwrap();
        assert_eq!(records[0].ratio_bar().map(|bar| bar.high), Some(2.5));
        assert_eq!(records[0].bar().high, 4.0);
        assert!(results.records("y").is_err());
    }
}
