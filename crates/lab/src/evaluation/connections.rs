//! Throughput by the number of connections, with one request in flight on each and with pipelines.

use super::Options;
use super::load::{Client, Data};
use super::rounds::{RATES, in_turns};
use super::sides::{self, Wanted};
use crate::Result;
use crate::harness::system;
use crate::results::measurement::Measurement;

const NUMBERS: [&str; 6] = ["1", "4", "16", "64", "256", "1024"];
const NUMBERS_QUICK: [&str; 4] = ["1", "16", "128", "1024"];
const PIPELINES: [(&str, &str); 2] = [("one in flight", "1"), ("pipelines of 16", "16")];
const ITEM_BYTES: usize = 80;

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let numbers: &[&str] = match options.common.quick {
        true => &NUMBERS_QUICK,
        false => &NUMBERS,
    };
    let mut cases = Vec::new();
    for (pipeline, batch) in PIPELINES {
        for number in numbers {
            let name = format!("connections, {number}, {pipeline}");
            if options.common.wants(&name) {
                cases.push((name, (*number, batch)));
            }
        }
    }
    if cases.is_empty() {
        return Ok(());
    }
    system::raise_file_limit();
    let wanted =
        Wanted { native: false, all_memcacheds: true, memcached_udp: false, redis: true, elsewhere: true };
    let mut sides = sides::start(options, wanted, ITEM_BYTES, cpus[0], report)?;
    sides.retain(|side| !side.url.starts_with("native") && !side.url.contains("+udp"));
    let data = Data { set: "small", items: options.items() / 4 };
    let client = Client::filled(options, cpus, data, &sides)?;
    let turns = (&sides[..], options.common.rounds());
    in_turns(turns, &cases, &RATES, report, |(number, batch), side| {
        let flags = ["--connections", number, "--batch", batch, "--get", "95"];
        client.slice(side, &flags)
    })
}
