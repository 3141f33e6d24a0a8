//! GETs of tiny items, uniform: a set within the last-level cache, and one far beyond.

use std::time::Duration;

use micanite_workload::{Keys, Popularity, Random, Sampler};

use super::load::requests::{Drawn, Kind as RequestKind, NUMBERS, Ring};
use super::servers::{Kind, Server};
use super::sides::{METRIC, Side, UNIT, measure};
use super::{Bench, Options};
use crate::Result;
use crate::generator::packets::{KEY_BYTES, VALUE_BYTES};
use crate::results::measurement::Measurement;

const SEED: u64 = 71;
/// 40 bytes each with their index: some 5 MiB.
const ITEMS_CACHED: u64 = 1 << 17;
const KINDS: [Kind; 6] =
    [Kind::Memcached, Kind::Udp, Kind::KernelGet, Kind::KernelNative, Kind::Xdp, Kind::Reflect];

pub(super) fn run(options: &Options, bench: &mut Bench, report: &mut Measurement) {
    let many = if options.common.quick { 1 << 22 } else { 1 << 24 };
    let many = options.items.unwrap_or(many);
    let cases = [("kernel/tiny", ITEMS_CACHED, NUMBERS), ("kernel/tiny-16m", many, 16 * NUMBERS)];
    for (case, items, requests) in cases {
        if options.common.wants(case) {
            // A failure keeps the measurements before it.
            let done = one(case, (items, requests), options, bench, report);
            report.part(done);
        }
    }
}

fn one(
    case: &str,
    (items, requests): (u64, usize),
    options: &Options,
    bench: &mut Bench,
    report: &mut Measurement,
) -> Result<()> {
    let memory_mib = ((items * 128) >> 20).max(64);
    let mut servers = bench.start(&KINDS, memory_mib, report)?;
    let mut sides = Vec::new();
    for (at, server) in servers.iter_mut().enumerate() {
        fill(server, items)?;
        let ring = gets(server, items, requests)?;
        server.process.pause();
        sides.push(Side::new(at, server.kind.name(), ring));
    }
    measure(case, &mut servers, &mut sides, rounds(options))?;
    super::record(case, (METRIC, UNIT), &servers, &sides, report);
    super::kernel_share(case, &servers, report)
}

pub(super) fn rounds(options: &Options) -> (usize, Duration) {
    let slice_ms = if options.common.quick { 300 } else { 700 };
    (options.common.rounds(), Duration::from_millis(slice_ms))
}

pub(super) fn fill(server: &mut Server, items: u64) -> Result<()> {
    let Some(mut filler) = server.filler()? else {
        return Ok(());
    };
    let (keys, mut key) = (Keys::new(KEY_BYTES), [0; KEY_BYTES]);
    for item in 0..items {
        keys.write(item, &mut key);
        filler.push(&key, item, VALUE_BYTES)?;
    }
    filler.finish()
}

pub(super) fn gets(server: &mut Server, items: u64, requests: usize) -> Result<Ring> {
    let (keys, mut key) = (Keys::new(KEY_BYTES), [0; KEY_BYTES]);
    let sampler = Sampler::new(Popularity::Uniform, items);
    let mut random = Random::new(SEED);
    let (mut maker, mut ring) = (server.maker()?, Ring::new(server.protocol()));
    for _ in 0..requests {
        let item = sampler.item(&mut random);
        keys.write(item, &mut key);
        let drawn = Drawn { kind: RequestKind::Get, item, key: &key, value_bytes: VALUE_BYTES };
        ring.push(&mut maker, &drawn)?;
    }
    Ok(ring)
}
