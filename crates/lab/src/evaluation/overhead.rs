//! Memory beyond key and value, per item, from outside: servers with the same `-m` are given more tiny
//! items than fit, then asked for all of them at random.

use super::Options;
use super::load::{Client, Data};
use super::sides::Side;
use crate::Result;
use crate::harness::peers;
use crate::results::measurement::Measurement;

const CASE: &str = "overhead 8/8, -m 64";
const MEMORY_BYTES: u64 = 64 << 20;
const MEMORY: [&str; 2] = ["-m", "64"];
/// More than twice what would fit without any overhead but ours.
const DATA: Data<'_> = Data { set: "tiny", items: 4 << 20 };
const ITEM_BYTES: f64 = 16.0;

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    if !options.common.wants(CASE) {
        return Ok(());
    }
    let client = Client { options, cpus: &cpus[cpus.len() - 1..], data: DATA };
    let own_flags = [&MEMORY[..], &["--item-size", "16"]].concat();
    let ours = overhead_bytes(&client, &Side::tcp(options, &own_flags, cpus[0])?)?;
    let metric = (CASE, "memory beyond key and value", "bytes/item");
    for binary in &peers::memcacheds_or_none(&options.binaries.memcached, report)? {
        let side = Side::memcached(binary, &MEMORY, cpus[0])?;
        let theirs = overhead_bytes(&client, &side)?;
        report.beside(metric, &[ours], &side.name, &[theirs]);
    }
    Ok(())
}

fn overhead_bytes(client: &Client<'_>, side: &Side) -> Result<f64> {
    // A full memcached refuses a few: what it holds counts.
    if let Err(error) = client.fill(side) {
        eprintln!("{}: {error}", side.name);
    }
    let flags = ["--connections", "4", "--multiget", "64", "--get", "100"];
    let found = client.any_slice(side, &flags)?.hit_ratio;
    if found == 0.0 || found == 1.0 {
        return Err(format!("{}: {found} of the items found: nothing to count", side.name).into());
    }
    Ok(MEMORY_BYTES as f64 / (found * DATA.items as f64) - ITEM_BYTES)
}
