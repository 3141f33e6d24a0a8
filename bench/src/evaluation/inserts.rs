//! New keys through whole servers whose memory is full: each SET brings a key that was never there, and an
//! item has to go. No figure of a paper: production does little else with a cache under pressure.

use super::Options;
use super::load::{Client, Data};
use super::rounds::{RATES, in_turns};
use super::sides::{NO_REDIS, Side};
use crate::Result;
use crate::harness::peers;
use crate::harness::servers::{Program, Transport};
use crate::results::measurement::Measurement;

const MEMORY_MB: &str = "256";
/// Bytes of keys and values, and a length for our index.
const DATA_SETS: [(&str, &str); 3] = [("16/16", "32"), ("16/100", "116"), ("16/400", "416")];
/// A draw among so many is a new key: the memory holds a thousandth of them.
const KEYS: u64 = 1 << 32;
/// Slices until every server is full.
const FILLING_SLICES: u32 = 12;

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    for (set, item_bytes) in DATA_SETS {
        let name = format!("new keys, {set} bytes");
        if !options.common.wants(&name) {
            continue;
        }
        let sides = start(options, item_bytes, cpus[0], report)?;
        let client = Client { options, cpus: &cpus[cpus.len() - 1..], data: Data { set, items: KEYS } };
        let insert = |side: &Side| {
            let load = ["--get", "0", "--popularity", "uniform"];
            client.any_slice(side, &[&load[..], side.busy].concat())
        };
        for side in &sides {
            eprint!("\rfilling {}   ", side.name);
            for _ in 0..FILLING_SLICES {
                insert(side)?;
            }
        }
        let cases = [(name, ())];
        in_turns((&sides, options.common.rounds()), &cases, &RATES, report, |(), side| insert(side))?;
    }
    Ok(())
}

/// Starts the servers with the same memory, ours first.
fn start(options: &Options, item_bytes: &str, cpu: usize, report: &mut Measurement) -> Result<Vec<Side>> {
    let binaries = peers::memcacheds_or_none(&options.binaries.memcached, report)?;
    let ours = ["-m", MEMORY_MB, "--item-size", item_bytes];
    let mut sides = vec![Side::native(options, &ours, cpu)?, Side::tcp(options, &ours, cpu)?];
    for binary in &binaries {
        // Pipelines as long as ours before it turns to the next connection.
        sides.push(Side::memcached(binary, &["-m", MEMORY_MB, "-R", "64"], cpu)?);
    }
    if options.redis.exists() {
        let bytes = format!("{MEMORY_MB}mb");
        let flags = ["--maxmemory", &bytes, "--maxmemory-policy", "allkeys-lru"];
        sides.push(Side::stream((Program::Redis(&options.redis), Transport::Tcp), None, &flags, cpu)?);
    } else {
        report.note_once(NO_REDIS);
    }
    Ok(sides)
}
