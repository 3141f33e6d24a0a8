//! Mixes of GET over UDP and SET over TCP by request rate, as Hippos' figure 3.7.

use std::time::Duration;

use micanite_workload::{Keys, Random};

use super::latency::slice;
use super::load::requests::{Drawn, Kind as RequestKind, NUMBERS, Ring};
use super::load::writers::Writers;
use super::pools::CONNECTIONS;
use super::servers::{Kind, Server};
use super::sides::Side;
use super::{Bench, Options};
use crate::Result;
use crate::results::measurement::Measurement;
use crate::results::statistics::median;

const SEED: u64 = 73;
pub(super) const ITEMS: u64 = 1 << 17;
pub(super) const KEY_BYTES: usize = 20;
pub(super) const VALUE_BYTES: usize = 20;
pub(super) const MEMORY_MIB: u64 = 128;
const GET_PERCENT: [u64; 4] = [100, 90, 50, 0];
/// Requests per second; a server whose mean latency is beyond a millisecond is asked for no more.
const RATES: [f64; 8] = [25e3, 50e3, 100e3, 150e3, 200e3, 300e3, 400e3, 500e3];
const QUICK_RATES: [f64; 3] = [50e3, 100e3, 200e3];
const KINDS: [Kind; 3] = [Kind::Memcached, Kind::Udp, Kind::KernelGet];

pub(super) fn run(options: &Options, bench: &mut Bench, report: &mut Measurement) -> Result<()> {
    let case = |get_percent: u64| format!("kernel/mix/{get_percent}");
    let wanted = |get_percent: &u64| options.common.wants(&case(*get_percent));
    let mixes: Vec<_> = GET_PERCENT.into_iter().filter(wanted).collect();
    if mixes.is_empty() {
        return Ok(());
    }
    let mut servers = bench.start(&KINDS, MEMORY_MIB, report)?;
    for server in &mut servers {
        fill(server)?;
        server.process.pause();
    }
    for get_percent in mixes {
        for (at, server) in servers.iter_mut().enumerate() {
            eprint!("\r{} {}   ", case(get_percent), server.kind.name());
            let ring = requests(server, get_percent)?;
            let mut side = Side::new(at, server.kind.name(), ring);
            let case = format!("{}/{}", case(get_percent), side.name);
            curve(&case, options, server, &mut side, report)?;
        }
    }
    eprintln!();
    Ok(())
}

fn curve(
    case: &str,
    options: &Options,
    server: &mut Server,
    side: &mut Side,
    report: &mut Measurement,
) -> Result<()> {
    let quick = options.common.quick;
    let rates: &[f64] = if quick { &QUICK_RATES } else { &RATES };
    let duration = Duration::from_millis(if quick { 100 } else { 200 });
    for rate in rates {
        let mut latencies_us = Vec::new();
        for _ in 0..3 {
            let round = slice(server, side, *rate, duration)?;
            latencies_us.push(round.tally.mean_of_all_us());
        }
        let rate_name = format!("at {:.0} k/s", rate / 1000.0);
        report.value(case, &rate_name, "us", &latencies_us);
        if median(&latencies_us) > 1000.0 {
            break;
        }
    }
    Ok(())
}

pub(super) fn fill(server: &mut Server) -> Result<()> {
    let mut filler = server.filler()?.ok_or("a server that stores nothing")?;
    let (keys, mut key) = (Keys::new(KEY_BYTES), [0; KEY_BYTES]);
    for item in 0..ITEMS {
        keys.write(item, &mut key);
        filler.push(&key, item, VALUE_BYTES)?;
    }
    filler.finish()?;
    server.client.writers = Some(Writers::connect(server.tcp(), CONNECTIONS)?);
    Ok(())
}

fn requests(server: &mut Server, get_percent: u64) -> Result<Ring> {
    let (keys, mut key) = (Keys::new(KEY_BYTES), [0; KEY_BYTES]);
    let mut random = Random::new(SEED);
    let (mut maker, mut ring) = (server.maker()?, Ring::new(server.protocol()));
    for _ in 0..4 * NUMBERS {
        let item = random.below(ITEMS);
        keys.write(item, &mut key);
        let kind = match random.below(100) < get_percent {
            true => RequestKind::Get,
            false => RequestKind::Update,
        };
        ring.push(&mut maker, &drawn(item, kind, &key))?;
    }
    Ok(ring)
}

fn drawn(item: u64, kind: RequestKind, key: &[u8]) -> Drawn<'_> {
    Drawn { kind, item, key, value_bytes: VALUE_BYTES }
}
