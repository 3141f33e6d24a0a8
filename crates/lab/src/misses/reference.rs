//! Published figures that the simulator must reproduce: policies on byte-exact circular logs
//! with a perfect index, over one million requests of a real trace.

use super::policy::Policy;
use super::simulate::payload_only;
use super::trace::Trace;
use micanite_trace::simulate::on_all_cores;

use crate::Result;

const ROWS: &str = include_str!("../../testdata/circular_log_miss_ratios_1m.csv");
/// The trace that the rows are about.
const REQUESTS: usize = 1_000_000;
const FOOTPRINT_BYTES: u64 = 29_227_218;
/// How far a miss ratio may be from the published one.
pub(crate) const TOLERANCE: f64 = 0.02;

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub policy: Policy,
    pub capacity: u64,
    pub object_miss: f64,
}

/// The rows of the file: `"policy",log_bytes,object_miss` behind comments and a header.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let lines = ROWS.lines().filter(|line| line.starts_with('"'));
    let row = |line: &str| -> Option<Row> {
        let (policy, figures) = line.strip_prefix('"')?.split_once("\",")?;
        let (capacity, object_miss) = figures.split_once(',')?;
        Some(Row {
            policy: policy.parse().ok()?,
            capacity: capacity.parse().ok()?,
            object_miss: object_miss.parse().ok()?,
        })
    };
    lines
        .map(|line| row(line).ok_or_else(|| format!("not a row: {line}").into()))
        .collect()
}

/// Whether the rows are about this trace.
pub(crate) fn covers(trace: &Trace) -> bool {
    trace.requests.len() == REQUESTS && trace.footprint_bytes() == FOOTPRINT_BYTES
}

/// Every row with the miss ratio measured here.
pub(crate) fn measure(trace: &Trace) -> Result<Vec<(Row, f64)>> {
    let rows = rows()?;
    let measured = on_all_cores(&rows, |row| {
        payload_only(trace, row.policy, row.capacity, 0).object_miss
    });
    Ok(rows.into_iter().zip(measured).collect())
}

/// Prints measured and published figures.
///
/// # Errors
/// When one is further off than the tolerance.
pub(crate) fn check(trace: &Trace) -> Result<()> {
    println!("Object miss ratios, payload bytes only, beside the published ones:\n");
    println!("| policy | bytes | measured | published | difference |\n|---|--:|--:|--:|--:|");
    let mut worst = 0f64;
    for (row, measured) in measure(trace)? {
        let difference = measured / row.object_miss - 1.0;
        worst = worst.max(difference.abs());
        println!(
            "| {} | {} | {measured:.4} | {:.4} | {:+.2} % |",
            row.policy,
            row.capacity,
            row.object_miss,
            difference * 100.0
        );
    }
    println!("\nlargest difference: {:.2} %\n", worst * 100.0);
    if worst > TOLERANCE {
        return Err("a policy does not reproduce its published figures".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_can_be_read() {
        let rows = rows().expect("every row is well formed");
        assert_eq!(rows.len(), 102);
        assert!(rows.iter().all(|row| row.object_miss > 0.1));
    }

    /// Needs the trace, which `scripts/fetch-traces` fetches.
    #[test]
    fn policies_reproduce_their_published_miss_ratios() {
        let path = super::super::traces_folder().join("twitter_cluster52.csv");
        if !path.exists() {
            println!(
                "skipped: {} is not there (scripts/fetch-traces)",
                path.display()
            );
            return;
        }
        let trace = Trace::read(&path, usize::MAX).expect("a readable trace");
        assert!(covers(&trace));
        for (row, measured) in measure(&trace).expect("rows") {
            let off = (measured / row.object_miss - 1.0).abs();
            assert!(off <= TOLERANCE, "{row:?}: {measured}");
        }
    }
}
