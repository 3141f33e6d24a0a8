//! Facebook's pools: GETs over UDP, whatever writes over TCP, in the pool's mix.

use std::collections::HashSet;

use micanite_workload::{Pool, PoolItem, PoolOperation};

use super::load::requests::{Drawn, Kind as RequestKind, NUMBERS, Ring};
use super::load::writers::Writers;
use super::servers::{Kind, Server};
use super::sides::{METRIC, Side, UNIT, measure};
use super::tiny::rounds;
use super::{Bench, Options, latency};
use crate::Result;
use crate::results::measurement::Measurement;

const SEED: u64 = 72;
const REQUESTS: usize = 8 * NUMBERS;
const MEMORY_MIB: u64 = 2048;
/// Values longer than that are left out: the datagrams of one reply would fill the cable's ring.
const VALUE_BYTES_MAX: usize = 16 << 10;
/// Connections that write.
pub(super) const CONNECTIONS: usize = 8;
const KINDS: [Kind; 4] = [Kind::Memcached, Kind::Udp, Kind::KernelGet, Kind::Xdp];

pub(super) fn run(options: &Options, bench: &mut Bench, report: &mut Measurement) {
    for pool in Pool::ALL {
        let case = format!("kernel/{pool}");
        if options.common.wants(&case) {
            let done = one(&case, pool, options, bench, report);
            report.part(done);
        }
    }
}

fn one(case: &str, pool: Pool, options: &Options, bench: &mut Bench, report: &mut Measurement) -> Result<()> {
    let mut servers = bench.start(&KINDS, MEMORY_MIB, report)?;
    let mut sides = Vec::new();
    for (at, server) in servers.iter_mut().enumerate() {
        let (ring, before) = prepare(server, pool, options.keys())?;
        server.process.pause();
        let mut side = Side::new(at, server.kind.name(), ring);
        side.before = before;
        sides.push(side);
    }
    measure(case, &mut servers, &mut sides, rounds(options))?;
    super::record(case, (METRIC, UNIT), &servers, &sides, report);
    super::kernel_share(case, &servers, report)?;
    latency::run(case, options, &mut servers, &mut sides, report)
}

/// Fills a server with a pool's items, and makes the requests that it gets. The lines remove what the
/// requests store and the prefilled items are not: a list that is sent again misses what it has
/// missed before.
pub(super) fn prepare(server: &mut Server, pool: Pool, keys: u64) -> Result<(Ring, Vec<u8>)> {
    let mut filler = server.filler()?.ok_or("a server that stores nothing")?;
    let (mut key, mut lines) = (Vec::new(), Vec::new());
    let mut prefilled = HashSet::new();
    for item in pool.prefill(keys).filter(is_measured) {
        key.clear();
        item.push_key(&mut key);
        filler.push(&key, item.number, item.value_bytes())?;
        prefilled.insert(item.number);
    }
    filler.finish()?;
    server.client.writers = Some(Writers::connect(server.tcp(), CONNECTIONS)?);
    let (mut maker, mut ring) = (server.maker()?, Ring::new(server.protocol()));
    let requests = pool.stream(keys, SEED);
    for request in requests.filter(|request| is_measured(&request.item)).take(REQUESTS) {
        let kind = match request.operation {
            PoolOperation::Get => RequestKind::Get,
            PoolOperation::Update => RequestKind::Update,
            PoolOperation::Delete => RequestKind::Delete,
        };
        key.clear();
        request.item.push_key(&mut key);
        ring.push(&mut maker, &drawn(request.item, kind, &key))?;
        if kind == RequestKind::Update && !prefilled.contains(&request.item.number) {
            lines.extend(b"delete ");
            lines.extend(&key);
            lines.extend(b" noreply\r\n");
        }
    }
    Ok((ring, lines))
}

fn is_measured(item: &PoolItem) -> bool {
    item.value_bytes() <= VALUE_BYTES_MAX
}

fn drawn(item: PoolItem, kind: RequestKind, key: &[u8]) -> Drawn<'_> {
    Drawn { kind, item: item.number, key, value_bytes: item.value_bytes() }
}
