//! Latency against throughput (MICA, figure 13; billion-rps, figure 9): each server at parts of its own
//! peak, requests due by a schedule that does not wait for it.

use super::Options;
use super::load::{Client, Data, Figures};
use super::rounds::{Metric, in_turns};
use super::sides::{self, Side, Wanted};
use crate::Result;
use crate::results::measurement::Measurement;
use crate::results::statistics::median;

/// Parts of the peak, in hundredths.
const PARTS: [u32; 9] = [5, 10, 20, 35, 50, 65, 80, 90, 95];
const PARTS_QUICK: [u32; 5] = [10, 30, 50, 70, 90];
const PEAK_ROUNDS: usize = 3;
const ITEM_BYTES: usize = 16;

const METRICS: [Metric; 6] = [
    ("throughput", "requests/s", |figures| figures.per_second),
    ("p50", "us", |figures| figures.p50_us),
    ("p95", "us", |figures| figures.p95_us),
    ("p99", "us", |figures| figures.p99_us),
    ("not answered", "%", |figures| figures.loss * 100.0),
    ("energy", "J/M requests", |figures| figures.joules_per_million),
];

/// Requests in flight and sockets by which each is asked: no batches anywhere.
fn ways(side: &Side) -> &'static [&'static str] {
    match side.url.starts_with("native") || side.url.starts_with("memcached+udp") {
        true => &["--connections", "1"],
        false => &["--connections", "16"],
    }
}

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let parts: &[u32] = match options.common.quick {
        true => &PARTS_QUICK,
        false => &PARTS,
    };
    let name_of = |part: u32| format!("latency at {part} % of the peak");
    let parts = parts.iter().map(|part| (name_of(*part), *part));
    let parts: Vec<_> = parts.filter(|(name, _)| options.common.wants(name)).collect();
    if parts.is_empty() {
        return Ok(());
    }
    let wanted =
        Wanted { native: true, all_memcacheds: false, memcached_udp: true, redis: false, elsewhere: true };
    let sides = sides::start(options, wanted, ITEM_BYTES, cpus[0], report)?;
    let data = Data { set: "tiny", items: options.items() };
    let client = Client::filled(options, cpus, data, &sides)?;
    let mut peaks = vec![Vec::new(); sides.len()];
    for _ in 0..PEAK_ROUNDS {
        for (side, peaks) in sides.iter().zip(&mut peaks) {
            peaks.push(client.slice(side, &peak_flags(side))?.per_second);
        }
    }
    let peaks: Vec<_> = peaks.iter().map(|peaks| median(peaks)).collect();
    let turns = (&sides[..], options.common.rounds());
    in_turns(turns, &parts, &METRICS, report, |part, side| {
        let peak = sides.iter().zip(&peaks).find(|(of, _)| of.url == side.url);
        let peak = peak.map_or(f64::NAN, |(_, peak)| *peak);
        at_rate(&client, side, peak * f64::from(*part) / 100.0)
    })
}

/// Returns flags for a closed loop: four requests in flight on each stream, 64 on a socket of datagrams.
fn peak_flags(side: &Side) -> Vec<&'static str> {
    let pipeline = match ways(side).last() {
        Some(&"1") => "64",
        _ => "4",
    };
    [ways(side), &["--get", "50", "--pipeline", pipeline]].concat()
}

fn at_rate(client: &Client<'_>, side: &Side, rate: f64) -> Result<Figures> {
    let rate = format!("{rate:.0}");
    let load = ["--get", "50", "--rate", &rate];
    client.slice(side, &[&load[..], ways(side)].concat())
}
