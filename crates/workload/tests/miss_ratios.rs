//! Miss ratios of a real trace: the references are those that libCacheSim computes, and the default policy of
//! the engine keeps up with the best.
//!
//! `testdata` has the beginning of the trace; `scripts/fetch-traces` fetches a million requests of it.

use std::path::Path;

use micanite_engine::Eviction;
use micanite_workload::trace::open;
use micanite_workload::trace::simulate::{Accounting, Bounds, Case, Compact, Policy, Rules, Simulation};

const DEFAULT: Policy = Policy::Engine(Eviction::S3Fifo);
/// The best of these is what the default policy is compared with.
const OTHERS: [&str; 5] = ["sieve", "s3fifo", "twoq", "arc", "wtinylfu"];

/// A policy, bytes, and the object miss ratio that libCacheSim computes.
type Row = (&'static str, u64, f64);

fn rows(table: &'static str) -> Vec<Row> {
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    let row = |line: &'static str| {
        let mut fields = line.split(',');
        let mut next = || fields.next().expect("three fields");
        let (policy, bytes, ratio) = (next(), next(), next());
        let bytes = bytes.parse().expect("bytes");
        (policy, bytes, ratio.parse().expect("a ratio"))
    };
    lines.map(row).collect()
}

fn read(path: &Path) -> Compact {
    let mut opened = open(path, None).expect("a trace");
    let trace = Compact::read(&mut *opened.reader, Bounds::default(), |_| ());
    trace.expect("it is read to its end")
}

fn simulated(trace: &Compact, cases: &[Case]) -> Vec<f64> {
    let rules = Rules { accounting: Accounting::Payload, ..Rules::default() };
    let policies: Vec<_> = cases.iter().map(|case| case.policy).collect();
    let simulation = Simulation::new(trace, rules, &policies);
    let ratios = simulation.run(cases, |_| ()).expect("simulated");
    ratios.iter().map(|ratio| ratio.objects).collect()
}

/// Proves that fifo, lru and belady agree to three digits at each size in these rows.
fn check_references(trace: &Compact, rows: &[Row]) {
    let case = |row: &Row| Some((Case { policy: row.0.parse().ok()?, bytes: row.1 }, row.2));
    let (cases, expected): (Vec<_>, Vec<_>) = rows.iter().filter_map(case).unzip();
    assert!(cases.len() >= 17, "{}", cases.len());
    for ((case, expected), measured) in cases.iter().zip(expected).zip(simulated(trace, &cases)) {
        let off = (measured - expected).abs();
        assert!(off < 0.0005, "{case:?}: {measured} against {expected}");
    }
}

/// Proves that the default policy beats LRU at all sizes, and from 1 to 25 % of the footprint misses at most
/// 3 % more than the best.
fn check_default(trace: &Compact, rows: &[Row]) {
    let of_lru: Vec<_> = rows.iter().filter(|row| row.0 == "lru").collect();
    let cases: Vec<_> = of_lru.iter().map(|row| Case { policy: DEFAULT, bytes: row.1 }).collect();
    assert_eq!(cases.len(), 6);
    for (number, (measured, (_, bytes, lru))) in simulated(trace, &cases).into_iter().zip(of_lru).enumerate()
    {
        assert!(measured < *lru, "{bytes}: {measured}, LRU {lru}");
        let others = rows.iter().filter(|row| row.1 == *bytes && OTHERS.contains(&row.0));
        let best = others.map(|row| row.2).fold(1.0, f64::min);
        let off = measured / best - 1.0;
        let is_compared = (1..5).contains(&number);
        assert!(!is_compared || off <= 0.03, "{bytes}: {measured} is {off} above {best}");
    }
}

mod sample {
    use super::*;

    const TABLE: &str = include_str!("../testdata/miss_ratios_twitter_sample.csv");

    fn trace() -> Compact {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
        let trace = read(&folder.join("twitter_cluster52_sample.csv.zst"));
        assert_eq!((trace.requests, trace.objects()), (130_000, 27_952));
        assert_eq!(trace.footprint_bytes(), 5_892_996);
        trace
    }

    #[test]
    fn references_agree_with_libcachesim_to_three_digits() {
        // libCacheSim's MIN makes room even for an object that is never read again. Where some thirty items
        // fit, that costs it 0.0039.
        let is_compared = |row: &Row| row.0 != "belady" || row.1 > 10_000;
        check_references(&trace(), &rows(TABLE).into_iter().filter(is_compared).collect::<Vec<_>>());
    }

    #[test]
    fn the_default_policy_beats_lru_and_keeps_up_with_the_best() {
        check_default(&trace(), &rows(TABLE));
    }
}

mod whole_trace {
    use super::*;
    use micanite_test_skip::skip;
    use std::path::PathBuf;

    const TABLE: &str = include_str!("../testdata/miss_ratios_twitter_1m.csv");

    fn trace() -> Option<Compact> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let path = target.unwrap_or_else(|| root.join("target")).join("traces/twitter_cluster52.csv");
        if !path.exists() {
            skip(format_args!("{} is not there (scripts/fetch-traces)", path.display()));
            return None;
        }
        let trace = read(&path);
        assert_eq!((trace.requests, trace.objects()), (1_000_000, 143_542));
        assert_eq!(trace.footprint_bytes(), 29_227_218);
        Some(trace)
    }

    #[test]
    fn references_agree_with_libcachesim_to_three_digits() {
        if let Some(trace) = trace() {
            check_references(&trace, &rows(TABLE));
        }
    }

    #[test]
    fn the_default_policy_beats_lru_and_keeps_up_with_the_best() {
        if let Some(trace) = trace() {
            check_default(&trace, &rows(TABLE));
        }
    }
}
