//! Miss ratios of a real trace: the references are those that are published, and the default policy of
//! the engine keeps up with the best.
//!
//! `scripts/fetch-traces` fetches the trace.

use std::path::{Path, PathBuf};

use micanite_engine::Eviction;
use micanite_workload::trace::open;
use micanite_workload::trace::simulate::{Accounting, Bounds, Case, Compact, Policy, Rules, Simulation};

/// Computed by libCacheSim.
const PUBLISHED: &str = include_str!("../testdata/miss_ratios_twitter_1m.csv");
const DEFAULT: Policy = Policy::Engine(Eviction::S3Fifo);

fn trace(name: &str) -> Option<Compact> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let folder = target.unwrap_or_else(|| root.join("target")).join("traces");
    let path = folder.join(name);
    if !path.exists() {
        let path = path.display();
        println!("skipped: {path} is not there (scripts/fetch-traces)");
        return None;
    }
    let mut opened = open(&path, None).expect("a trace");
    let trace = Compact::read(&mut *opened.reader, Bounds::default(), |_| ());
    Some(trace.expect("it is read to its end"))
}

/// Policy, bytes, object miss ratio.
fn published() -> Vec<(&'static str, u64, f64)> {
    let lines = PUBLISHED.lines().skip(2);
    let row = |line: &'static str| {
        let mut fields = line.split(',');
        let mut next = || fields.next().expect("three fields");
        let (policy, bytes, ratio) = (next(), next(), next());
        let bytes = bytes.parse().expect("bytes");
        (policy, bytes, ratio.parse().expect("a ratio"))
    };
    lines.map(row).collect()
}

fn simulated(trace: &Compact, cases: &[Case]) -> Vec<f64> {
    let rules = Rules { accounting: Accounting::Payload, ..Rules::default() };
    let policies: Vec<_> = cases.iter().map(|case| case.policy).collect();
    let simulation = Simulation::new(trace, rules, &policies);
    let ratios = simulation.run(cases, |_| ()).expect("simulated");
    ratios.iter().map(|ratio| ratio.objects).collect()
}

#[test]
fn references_agree_with_the_published_figures_to_three_digits() {
    let Some(trace) = trace("twitter_cluster52.csv") else {
        return;
    };
    assert_eq!((trace.requests, trace.objects()), (1_000_000, 143_542));
    assert_eq!(trace.footprint_bytes(), 29_227_218);
    let rows: Vec<_> = published()
        .into_iter()
        .filter_map(|(name, bytes, ratio)| {
            let policy = name.parse().ok()?;
            Some((Case { policy, bytes }, ratio))
        })
        .collect();
    assert_eq!(rows.len(), 18, "fifo, lru, belady at six sizes");
    let cases: Vec<_> = rows.iter().map(|(case, _)| *case).collect();
    for ((case, published), measured) in rows.iter().zip(simulated(&trace, &cases)) {
        let off = (measured - published).abs();
        assert!(off < 0.0005, "{case:?}: {measured} against {published}");
    }
}

#[test]
fn the_default_policy_beats_lru_and_keeps_up_with_the_best() {
    let Some(trace) = trace("twitter_cluster52.csv") else {
        return;
    };
    let published = published();
    let of = |name: &str, bytes: u64| {
        let row = published.iter().find(|row| (row.0, row.1) == (name, bytes));
        row.expect("a row").2
    };
    let sizes = [29_227, 292_272, 1_461_360, 2_922_721, 7_306_804, 14_613_609];
    let cases = sizes.map(|bytes| Case { policy: DEFAULT, bytes });
    let measured = simulated(&trace, &cases);
    for (bytes, measured) in sizes.into_iter().zip(&measured) {
        let lru = of("lru", bytes);
        assert!(*measured < lru, "{bytes}: {measured}, LRU {lru}");
    }
    for (bytes, measured) in sizes.into_iter().zip(&measured).skip(1).take(4) {
        let others = ["sieve", "s3fifo", "twoq", "arc", "wtinylfu"];
        let best = others.map(|name| of(name, bytes)).into_iter();
        let best = best.fold(1.0, f64::min);
        let off = measured / best - 1.0;
        assert!(off <= 0.03, "{bytes}: {measured} is {off} above {best}");
    }
}
