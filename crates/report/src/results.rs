//! What the commands of a section gave.

use std::collections::BTreeMap;

use micanite_figure::Bar;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A line of what the lab writes: docs/benchmarks/README.md describes the fields.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// What was done.
    pub case: String,
    /// What was measured.
    pub metric: String,
    /// The median of the rounds.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// What it stands beside.
    pub peer: Option<String>,
    /// The median of the rounds' ratios to that.
    pub ratio: Option<f64>,
    /// Of the ratio if there is one, else of the value.
    pub spread: Spread,
}

/// The least and the greatest of the rounds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Record {
    /// The value with its spread; that of a ratio says nothing about the value.
    pub fn bar(&self) -> Bar {
        match self.ratio {
            None => Bar {
                value: self.value,
                low: self.spread.min,
                high: self.spread.max,
            },
            Some(_) => Bar::new(self.value),
        }
    }

    /// The ratio to the peer with its spread, if there is a peer.
    pub fn ratio_bar(&self) -> Option<Bar> {
        self.ratio.map(|value| Bar {
            value,
            low: self.spread.min,
            high: self.spread.max,
        })
    }
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
