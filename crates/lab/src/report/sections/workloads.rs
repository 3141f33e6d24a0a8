//! Published workloads over TCP: YCSB's, and InnerCache's nine.

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results, Section};

pub(super) const YCSB: Section = Section {
    id: "ycsb",
    title: "YCSB's workloads over TCP",
    question: "How many operations does a server's core do under the mixes and key choosers of YCSB?",
    source: "YCSB (Cooper and others, SoCC 2010), core workloads A, B, C, D and F",
    published: "YCSB defines loads, not results: A half reads, half updates; B 95 % reads; C reads; D reads of the latest, 5 % inserts; F reads and read-modify-writes. E scans ranges, which a cache does not have.",
    differs: "micanite load sends what YCSB's client would: keys of 23 bytes, records of 1,000 (ten fields of 100), the scrambled Zipfian chooser with YCSB's constant (its hottest key gets 3.78 %). A SET writes the whole record where YCSB's update writes one field. Pipelines of 32 on four connections, a closed loop.",
    commands: ycsb,
    draw,
};

pub(super) const INNERCACHE: Section = Section {
    id: "innercache",
    title: "InnerCache's nine workloads over TCP",
    question: "How much do popularity and the share of SETs matter with keys of 100 bytes and values of 1 KiB?",
    source: "InnerCache, figures 3 and 4",
    published: "Over RDMA, latency almost the same as that of a memcached with one-sided reads, and 1.5 times better than that of one with two-sided operations; with values of 512 KiB, 12 % slower than one-sided when most operations are SETs.",
    differs: "TCP over loopback instead of InfiniBand, so throughput of one core is compared with servers of today instead of the latency of a single client; the same nine mixes over 500 MB of items with keys of 100 bytes and values of 1 KiB on average (evenly from half of it to one and a half).",
    commands: innercache,
    draw,
};

fn ycsb(form: Form) -> Vec<Command> {
    let words = form.pick(
        "evaluation --case ycsb --quick --rounds 3 --seconds 0.2 --items 1048576",
        "evaluation --case ycsb --rounds 5 --seconds 0.4",
    );
    vec![Command::lab("evaluation", words).with_peers()]
}

fn innercache(form: Form) -> Vec<Command> {
    let words = form.pick(
        "evaluation --case innercache --quick --rounds 2 --seconds 0.15",
        "evaluation --case innercache --rounds 5 --seconds 0.3",
    );
    vec![Command::lab("evaluation", words).with_peers()]
}

fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    const PREFIX: &str = "workload, ";
    let records = results.records("evaluation")?;
    let per_core = ("per server-core-second", "operations per server-core-second");
    let title = "Operations per second of a server's core";
    Ok(vec![
        Exhibit::Bars(grid::bars(&records, title, per_core, PREFIX)),
        Exhibit::Table(grid::table(
            &records,
            "Operations per second, median and spread",
            "throughput",
            PREFIX,
        )),
        Exhibit::Table(grid::table(
            &records,
            "99th percentile of latency (us), every connection with 32 requests in flight",
            "99th percentile of latency",
            PREFIX,
        )),
        Exhibit::Table(grid::ratios(&records, "Micanite beside the others")),
    ])
}
