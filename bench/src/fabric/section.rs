//! The section of the report on one-sided reads.

use crate::report::section::{Command, Exhibit, Form, Headline, Results, Table};
use crate::results::charts;
use crate::results::measurement::{Record, number};

pub(crate) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick("fabric --quick --provider net;ofi_rxm", "fabric --rounds 1 --scale 4");
    let command = Command::lab("fabric", words);
    match cfg!(feature = "libfabric") {
        true => vec![command],
        false => vec![command.lacking("built without libfabric")],
    }
}

pub(crate) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("fabric")?;
    let mut shown = Vec::new();
    for (size, title) in [("/1k/", "1 KiB"), ("/512k/", "512 KiB")] {
        for kind in ["GET", "SET"] {
            let title = format!("{kind}, values of {title} on average");
            let prefix = format!("{kind} mean, ");
            shown.push(Exhibit::Bars(charts::values((&title, "mean (us)"), &records, |record| {
                let way = record.metric.strip_prefix(&prefix)?;
                record.case.contains(size).then_some((record.case.as_str(), way))
            })));
        }
    }
    shown.push(Exhibit::Table(table(&records)));
    shown.extend(headline(&records));
    Ok(shown)
}

/// All figures that are no means by themselves.
fn table(records: &[Record]) -> Table {
    let is_shown = |record: &&Record| {
        record.unit == "x"
            || record.unit == "%"
            || record.case.contains("/bare/")
            || record.case.contains("/cpu/")
    };
    let row = |record: &Record| {
        let spread = format!("{} .. {}", number(record.spread.min), number(record.spread.max));
        vec![record.case.clone(), record.metric.clone(), number(record.value), record.unit.clone(), spread]
    };
    Table {
        title: "Ratios, shares, bare transfers, CPU time".to_owned(),
        columns: ["case", "metric", "median", "unit", "spread"].map(str::to_owned).to_vec(),
        rows: records.iter().filter(is_shown).map(row).collect(),
    }
}

/// Summarizes the gain over messages.
fn headline(records: &[Record]) -> Option<Exhibit> {
    let is_it = |record: &&Record| {
        record.metric == "GET, two-sided / innercache" && record.case.ends_with("/512k/zipf-90/own")
    };
    let found = records.iter().find(is_it)?;
    let (low, high) = (number(found.spread.min), number(found.spread.max));
    let provider = found.case.split('/').next().unwrap_or_default();
    Some(Exhibit::Headline(Headline {
        what: format!("GETs of 512 KiB by messages beside InnerCache, {provider}, Zipf, 90 % GET"),
        ours: format!("{} ({low} .. {high}) times as long", number(found.value)),
        published: "InnerCache over InfiniBand: 1.5 times".to_owned(),
    }))
}
