//! Two of our servers, one with its prefetching off, under multi-gets of far more items than the
//! caches of the CPU hold.

use super::Options;
use super::load::{Client, Data};
use super::sides::Side;
use crate::Result;
use crate::results::measurement::Measurement;
use crate::results::statistics::{median, ratios};

const CASE: &str = "multi-get of 100 over 16 Mi items, prefetch";
const DATA: Data<'_> = Data { set: "16/8", items: 16 << 20 };
const FLAGS: [&str; 4] = ["-m", "2048", "--item-size", "24"];
const LOAD: [&str; 6] = ["--connections", "4", "--multiget", "100", "--get", "100"];

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    if !options.common.wants(CASE) {
        return Ok(());
    }
    let off_flags = [&FLAGS[..], &["--no-prefetch"]].concat();
    let sides = [Side::tcp(options, &FLAGS, cpus[0])?, Side::tcp(options, &off_flags, cpus[0])?];
    let client = Client::filled(options, cpus, DATA, &sides)?;
    let mut per_core_second = [Vec::new(), Vec::new()];
    for round in 0..options.common.rounds() {
        eprint!("\r{CASE}, round {}   ", round + 1);
        for (side, rates) in sides.iter().zip(&mut per_core_second) {
            rates.push(client.slice(side, &LOAD)?.per_core_second);
        }
    }
    eprintln!();
    let [on, off] = &per_core_second;
    let what = (CASE, "keys per server-core-second", "ops");
    report.beside(what, on, "prefetch off", off);
    let ratio = median(&ratios(on, off));
    if ratio < 1.05 {
        return Err(format!("prefetching does nothing in the server ({ratio:.2} x)").into());
    }
    Ok(())
}
