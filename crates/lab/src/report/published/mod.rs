//! Numbers that papers state in their text or tables, on their authors' machines. What is only to
//! be read off a figure's bars is not here.

mod billion_rps;
mod hippos;
mod mica;

use crate::report::section::Table;

/// A published number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// Name of the system.
    pub system: &'static str,
    /// Under what.
    pub setting: &'static str,
    /// The least that is stated.
    pub low: f64,
    /// The greatest; the same where one is stated.
    pub high: f64,
    /// Unit of both.
    pub unit: &'static str,
    /// Where it says so.
    pub source: &'static str,
}

const fn one(
    system: &'static str,
    setting: &'static str,
    value: f64,
    unit: &'static str,
    source: &'static str,
) -> Number {
    between(system, setting, [value, value], unit, source)
}

const fn between(
    system: &'static str,
    setting: &'static str,
    [low, high]: [f64; 2],
    unit: &'static str,
    source: &'static str,
) -> Number {
    Number { system, setting, low, high, unit, source }
}

const RATE: &str = "requests/s";
const LATENCY: &str = "us";

/// All of them.
pub(crate) fn numbers() -> impl Iterator<Item = &'static Number> {
    let all = [mica::NUMBERS, billion_rps::NUMBERS, hippos::NUMBERS];
    all.into_iter().flatten()
}

/// As a table of the page.
pub(crate) fn table() -> Table {
    let row = |number: &Number| {
        [
            number.system.to_owned(),
            number.setting.to_owned(),
            value(number),
            number.unit.to_owned(),
            number.source.to_owned(),
        ]
        .to_vec()
    };
    Table {
        title: "Published, not measured here".to_owned(),
        columns: ["system", "setting", "value", "unit", "source"].map(str::to_owned).to_vec(),
        rows: numbers().map(row).collect(),
    }
}

fn value(number: &Number) -> String {
    use micanite_workload::figure::short;
    let high = short(number.high);
    if number.low == 0.0 {
        format!("< {high}")
    } else if number.low < number.high {
        format!("{} to {high}", short(number.low))
    } else {
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_source_and_an_order() {
        for number in numbers() {
            assert!(number.low <= number.high && number.high > 0.0, "{number:?}");
            let papers = ["MICA (NSDI 2014), ", "billion-rps (TOCS 2016), ", "Hippos (dissertation, 2014), "];
            assert!(papers.iter().any(|paper| number.source.starts_with(paper)), "{number:?}");
        }
        let rows = table().rows;
        assert!(rows.iter().all(|row| row.iter().all(|cell| !cell.is_empty())));
        assert!(
            rows.iter().any(|row| row[2] == "75.5 M to 76.9 M") && rows.iter().any(|row| row[2] == "< 6.1 M")
        );
    }
}
