//! Throughput by the number of connections, with one request in flight on each, with pipelines, and with GETs
//! of many keys.

use super::Options;
use super::load::{Client, Data};
use super::rounds::{RATES, in_turns};
use super::sides::{self, Wanted};
use crate::Result;
use crate::harness::system;
use crate::results::measurement::Measurement;

const NUMBERS: [&str; 6] = ["1", "4", "16", "64", "256", "1024"];
const NUMBERS_QUICK: [&str; 4] = ["1", "16", "128", "1024"];
/// Names of what is in flight on each connection, and options of `micanite load`.
const WAYS: [(&str, [&str; 4]); 2] = [
    ("one in flight", ["--batch", "1", "--get", "95"]),
    ("pipelines of 16", ["--batch", "16", "--get", "95"]),
];
const MULTI_GETS: (&str, [&str; 4]) = ("4, multi-gets of 100", ["--multiget", "100", "--get", "100"]);
const ITEM_BYTES: usize = 80;

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let numbers: &[&'static str] = match options.common.quick {
        true => &NUMBERS_QUICK,
        false => &NUMBERS,
    };
    let mut cases = Vec::new();
    for (way, flags) in WAYS {
        let case = |number: &&'static str| (format!("connections, {number}, {way}"), (*number, flags));
        cases.extend(numbers.iter().map(case));
    }
    cases.push((format!("connections, {}", MULTI_GETS.0), ("4", MULTI_GETS.1)));
    cases.retain(|(name, _)| options.common.wants(name));
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
    in_turns(turns, &cases, &RATES, report, |(number, flags), side| {
        client.slice(side, &[&["--connections", number], &flags[..]].concat())
    })
}
