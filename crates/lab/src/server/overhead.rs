//! Memory beyond key and value, per item, from outside: both servers with the same `-m` are given
//! more tiny items than fit, then asked for all of them.

use std::sync::Arc;

use super::peers::{self, Peer};
use super::{Options, fill};
use crate::Result;
use crate::client::{Client, Mix, Workload};
use crate::measurement::Measurement;

const CASE: &str = "overhead 8/8, -m 64";
const MEMORY_BYTES: u64 = 64 << 20;
const MEMORY: [&str; 2] = ["-m", "64"];
/// More than twice what would fit without any overhead but ours.
const ITEMS: u64 = 4 << 20;
const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 8;

pub(crate) fn run(options: &Options, cpu: usize, report: &mut Measurement) -> Result<()> {
    if !options.common.wants(CASE) {
        return Ok(());
    }
    let own_flags = [&MEMORY[..], &["--item-size", "16"]].concat();
    let ours = overhead_bytes(&Peer::micanite(&options.server, &own_flags, cpu)?)?;
    for binary in &peers::memcacheds(&options.memcached)? {
        let peer = Peer::memcached(binary, &MEMORY, cpu)?;
        let theirs = overhead_bytes(&peer)?;
        let what = (CASE, "memory beyond key and value", "bytes/item");
        report.beside(what, &[ours], &peer.version, &[theirs]);
    }
    Ok(())
}

fn overhead_bytes(peer: &Peer) -> Result<f64> {
    fill(peer, ITEMS, KEY_BYTES, VALUE_BYTES)?;
    let workload = Workload {
        mix: Mix::MultiGet,
        pipeline: 64,
        key_bytes: KEY_BYTES,
        value_bytes: VALUE_BYTES,
        items: Arc::new((0..ITEMS as u32).collect()),
    };
    let tally = Client::connect(peer.address, 1, &workload)?.run_operations(ITEMS)?;
    let found = tally.operations - tally.misses;
    if found == 0 || tally.misses == 0 {
        let (name, asked) = (peer.name, tally.operations);
        return Err(format!("{name}: {found} of {asked} items found: nothing to count").into());
    }
    Ok(MEMORY_BYTES as f64 / found as f64 - (KEY_BYTES + VALUE_BYTES) as f64)
}
