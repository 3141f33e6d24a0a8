//! GETs of keys that exist, and of keys that do not, as figure 3.5 of the dissertation.

use micanite_workload::{Keys, Random};

use super::super::load::requests::{Drawn, Kind as RequestKind, NUMBERS, Ring};
use super::super::servers::{Kind, Server};
use super::super::sides::{METRIC, Side, UNIT, measure};
use super::super::{Bench, Options, mixes, tiny};
use super::CASE;
use crate::Result;
use crate::results::measurement::Measurement;

const SEED: u64 = 74;
const KINDS: [Kind; 3] = [Kind::Memcached, Kind::Udp, Kind::KernelGet];
const LOADS: [&str; 2] = ["hits", "misses"];

pub(super) fn run(options: &Options, bench: &mut Bench, report: &mut Measurement) -> Result<()> {
    let case = format!("{CASE}/misses");
    if !options.common.wants(&case) {
        return Ok(());
    }
    let mut servers = bench.start(&KINDS, mixes::MEMORY_MIB, report)?;
    let mut sides = Vec::new();
    for (at, server) in servers.iter_mut().enumerate() {
        mixes::fill(server)?;
        for (load, name) in LOADS.iter().enumerate() {
            // Items from here on were not stored.
            let ring = requests(server, load as u64 * mixes::ITEMS)?;
            sides.push(Side::new(at, &format!("{}, {name}", server.kind.name()), ring));
        }
        server.process.pause();
    }
    measure(&case, &mut servers, &mut sides, tiny::rounds(options))?;
    for side in &sides {
        side.report(&case, report);
    }
    let is_ours = |side: &&Side| servers[side.server].kind == Kind::KernelGet;
    for (ours, name) in sides.iter().filter(is_ours).zip(LOADS) {
        for other in sides.iter().filter(|side| side.name.ends_with(name) && !is_ours(side)) {
            let case = format!("{case}, {name}");
            let peer = servers[other.server].kind.name();
            report.beside((&case, METRIC, UNIT), &ours.per_core_second(), peer, &other.per_core_second());
            report.beside((&case, "peak", "requests/s"), &ours.peaks(), peer, &other.peaks());
        }
    }
    Ok(())
}

fn requests(server: &mut Server, first: u64) -> Result<Ring> {
    let (keys, mut key) = (Keys::new(mixes::KEY_BYTES), [0; mixes::KEY_BYTES]);
    let mut random = Random::new(SEED);
    let (mut maker, mut ring) = (server.maker()?, Ring::new(server.protocol()));
    for _ in 0..NUMBERS {
        let item = first + random.below(mixes::ITEMS);
        keys.write(item, &mut key);
        let drawn = Drawn { kind: RequestKind::Get, item, key: &key, value_bytes: mixes::VALUE_BYTES };
        ring.push(&mut maker, &drawn)?;
    }
    Ok(ring)
}
