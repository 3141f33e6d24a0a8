//! Two of our servers, one with its prefetching off, under multi-gets of far more items than the
//! caches of the CPU hold.

use std::sync::Arc;

use super::peers::Peer;
use super::rounds::{Rounds, slice_duration};
use super::{Options, fill_long_keys};
use crate::Result;
use crate::client::{Client, KEY_BYTES_MAX, Mix, Workload};
use crate::measurement::Measurement;
use crate::popularity::Popularity;
use crate::statistics::{median, ratios};

const CASE: &str = "multi-get of 100 over 16 Mi items, prefetch";
const ITEMS: u64 = 16 << 20;
const VALUE_BYTES: usize = 8;
const FLAGS: [&str; 4] = ["-m", "2048", "--item-size", "24"];

pub(crate) fn run(options: &Options, cpu: usize, report: &mut Measurement) -> Result<()> {
    if !options.common.wants(CASE) {
        return Ok(());
    }
    let on = Peer::micanite(&options.server, &FLAGS, cpu)?;
    let off_flags = [&FLAGS[..], &["--no-prefetch"]].concat();
    let off = Peer::micanite(&options.server, &off_flags, cpu)?;
    for peer in [&on, &off] {
        fill_long_keys(peer, ITEMS, VALUE_BYTES)?;
    }
    let workload = Workload {
        mix: Mix::MultiGet,
        pipeline: 100,
        key_bytes: KEY_BYTES_MAX,
        value_bytes: VALUE_BYTES,
        items: Arc::new(Popularity::Uniform.draw(ITEMS, 4 << 20, 3)),
    };
    let mut with = Client::connect(on.address, 4, &workload)?;
    let mut without = Client::connect(off.address, 4, &workload)?;
    let duration = slice_duration(&options.common);
    let (mut ours, mut theirs) = (Rounds::default(), Rounds::default());
    with.run(duration / 4)?;
    without.run(duration / 4)?;
    for round in 0..options.common.rounds() {
        ours.add(&on, &mut with, duration)?;
        theirs.add(&off, &mut without, duration)?;
        let last = options.common.rounds();
        eprint!("\r{CASE}, round {} of {last}   ", round + 1);
    }
    eprintln!();
    report.value(CASE, "keys found", "%", &[ours.found_percent(&on)?]);
    theirs.found_percent(&off)?;
    let (ours, theirs) = (&ours.per_core_second, &theirs.per_core_second);
    let what = (CASE, "keys per server-core-second", "ops");
    report.beside(what, ours, "prefetch off", theirs);
    let ratio = median(&ratios(ours, theirs));
    if ratio < 1.05 {
        return Err(format!("prefetching does nothing in the server ({ratio:.2} x)").into());
    }
    Ok(())
}
