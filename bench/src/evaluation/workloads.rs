//! Published workloads over TCP: InnerCache's nine (its figure 3, without RDMA), and YCSB's.

use super::Options;
use super::load::{Client, Data};
use super::rounds::{Metric, RATES, in_turns};
use super::sides::{self, Wanted};
use crate::Result;
use crate::results::measurement::Measurement;

/// Workloads with the same items, so that servers are filled once.
struct Family {
    workloads: &'static [&'static str],
    /// Bytes of a key and a value.
    item_bytes: usize,
    items: fn(&Options) -> u64,
}

const FAMILIES: [Family; 2] = [
    Family {
        workloads: &[
            "innercache-uniform-50",
            "innercache-uniform-90",
            "innercache-uniform-10",
            "innercache-latest-50",
            "innercache-latest-90",
            "innercache-latest-10",
            "innercache-zipf-50",
            "innercache-zipf-90",
            "innercache-zipf-10",
        ],
        item_bytes: 1124,
        // 500 MB, as published.
        items: |_| 500_000_000 / 1124,
    },
    Family {
        workloads: &["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-f"],
        item_bytes: 1023,
        items: |options| options.items() / 4,
    },
];

const P99: Metric = ("99th percentile of latency", "us", |figures| figures.p99_us);

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    for family in FAMILIES {
        let mut cases = Vec::new();
        for workload in family.workloads {
            let name = format!("workload, {workload}");
            if options.common.wants(&name) {
                cases.push((name, *workload));
            }
        }
        if !cases.is_empty() {
            one(options, cpus, &family, &cases, report)?;
        }
    }
    Ok(())
}

/// All contenders, all workloads of a family, in turns.
fn one(
    options: &Options,
    cpus: &[usize],
    family: &Family,
    cases: &[(String, &str)],
    report: &mut Measurement,
) -> Result<()> {
    let wanted = Wanted {
        // Values of a kibibyte with such keys do not fit datagrams beside others.
        native: false,
        all_memcacheds: !options.common.quick,
        memcached_udp: false,
        redis: true,
        elsewhere: true,
    };
    let sides = sides::start(options, wanted, family.item_bytes, cpus[0], report)?;
    let client = |workload| Client {
        options,
        cpus: &cpus[cpus.len() - 1..],
        data: Data { set: workload, items: (family.items)(options) },
    };
    for side in &sides {
        client(cases[0].1).fill(side)?;
    }
    let items = (family.items)(options);
    report.note(format!("{}: {items} items", family.workloads[0]));
    let turns = (&sides[..], options.common.rounds());
    let [per_core, per_second, energy] = RATES;
    let metrics = [per_core, per_second, energy, P99];
    in_turns(turns, cases, &metrics, report, |workload, side| client(workload).slice(side, side.busy))
}
