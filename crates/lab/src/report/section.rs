//! A section of the report: a question, the commands that answer it, and what is drawn of their
//! results.

use std::collections::BTreeMap;

use micanite_workload::figure::{BarChart, LineChart};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::results::measurement::Record;

/// How much is measured.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// All sections together in ten minutes.
    Short,
    /// With more rounds, larger data sets and more points.
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

/// A section of the report.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its anchor in the page, and its folder among the raw data.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What it answers, in one sentence.
    pub question: &'static str,
    /// The published figure that it stands beside: `MICA (NSDI 2014), figure 10`.
    pub source: &'static str,
    /// What was published, with its own numbers.
    pub published: &'static str,
    /// What differs here from how that was measured.
    pub differs: &'static str,
    /// What is run, in order.
    pub commands: fn(Form) -> Vec<Command>,
    /// What is shown of the results; a sentence says what is missing where a command failed or was
    /// left out.
    pub draw: fn(&Results) -> Result<Vec<Exhibit>, String>,
}

/// A command of `micanite-lab`, as a person would type it: it prints a table and writes JSON to the
/// folder that it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The name that the results go by.
    pub result: &'static str,
    /// Why it cannot be run on this machine, if so: a sentence that the page shows with the command.
    pub lacks: Option<String>,
    /// Whether it understands `--peer NAME=ADDRESS`, which those of the report are then passed on by.
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

    /// With an argument that may have blanks in it.
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

/// What a section shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Exhibit {
    /// Values over an axis.
    Lines(LineChart),
    /// Values beside each other.
    Bars(BarChart),
    /// Rows and columns.
    Table(Table),
    /// What the figures say, or what is to be known when reading them.
    Note(String),
    /// A row of the summary that the page begins with.
    Headline(Headline),
}

/// A row of the summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// What was measured, in plain words: `GETs per second of one core, tiny items`.
    pub what: String,
    /// What came out, with its unit or the peer and the spread: `3.9 (3.6 .. 4.1) times memcached 1.6.18`.
    pub ours: String,
    /// What was published, or nothing.
    pub published: String,
}

/// A table: cells are text, numbers among them aligned to the right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// With units.
    pub columns: Vec<String>,
    /// As many cells as columns each.
    pub rows: Vec<Vec<String>>,
}

/// The results of a section's commands by their names.
#[derive(Clone, Debug)]
pub struct Results {
    /// What each command wrote.
    pub json: BTreeMap<String, Value>,
}

impl Results {
    /// The records that a command of the lab wrote.
    ///
    /// # Errors
    /// When there are none: a sentence.
    pub fn records(&self, result: &str) -> Result<Vec<Record>, String> {
        let json = self
            .json
            .get(result)
            .ok_or_else(|| format!("'{result}' was not measured"))?;
        serde_json::from_value(json.clone())
            .map_err(|error| format!("'{result}' has no records: {error}"))
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
        let results = Results {
            json: BTreeMap::from([("x".to_owned(), json)]),
        };
        let records = results.records("x").unwrap();
        assert_eq!(records[0].ratio_bar().map(|bar| bar.high), Some(2.5));
        assert_eq!(records[0].bar().high, 4.0);
        assert!(results.records("y").is_err());
    }
}
