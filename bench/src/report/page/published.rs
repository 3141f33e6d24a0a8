//! The numbers of `published.toml` as a table.

use serde::Deserialize;

use crate::report::section::Table;

#[derive(Deserialize)]
struct Published {
    source: Vec<Source>,
}

#[derive(Deserialize)]
struct Source {
    name: String,
    /// System, setting, the least value and the greatest, unit.
    numbers: Vec<(String, String, Vec<f64>, String)>,
}

pub(crate) fn table() -> Result<Table, String> {
    let published: Published =
        toml::from_str(include_str!("published.toml")).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for source in published.source {
        for (system, setting, values, unit) in source.numbers {
            rows.push(vec![system, setting, range(&values), unit, source.name.clone()]);
        }
    }
    Ok(Table {
        title: "Published, not measured here".to_owned(),
        columns: ["system", "setting", "value", "unit", "source"].map(str::to_owned).to_vec(),
        rows,
    })
}

fn range(values: &[f64]) -> String {
    use micanite_workload::figure::short;
    match *values {
        [0.0, high] => format!("< {}", short(high)),
        [low, high] => format!("{} to {}", short(low), short(high)),
        [value] => short(value),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_source_and_an_order() {
        let published: Published = toml::from_str(include_str!("published.toml")).unwrap();
        let papers = ["MICA (NSDI 2014), ", "billion-rps (TOCS 2016), ", "Hippos (dissertation, 2014), "];
        for source in &published.source {
            assert!(papers.iter().any(|paper| source.name.starts_with(paper)), "{}", source.name);
            assert!(source.numbers.iter().all(|(_, _, values, _)| values.is_sorted() && values.len() <= 2));
        }
        let rows = table().unwrap().rows;
        assert!(rows.iter().all(|row| row.iter().all(|cell| !cell.is_empty())));
        for expected in ["75.5 M to 76.9 M", "< 6.1 M"] {
            assert!(rows.iter().any(|row| row[2] == expected), "{expected}");
        }
    }
}
