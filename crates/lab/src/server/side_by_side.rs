//! The same loads on both servers in turns.

use std::path::Path;
use std::sync::Arc;

use super::cases::{self, Case};
use super::peers::{self, Peer};
use super::rounds::{Rounds, slice_duration};
use super::{Options, fill_long_keys};
use crate::Result;
use crate::client::{Client, KEY_BYTES_MAX, Workload};
use crate::measurement::Measurement;

/// Items of every case; all fit.
fn items(options: &Options) -> u64 {
    if options.common.quick {
        1 << 17
    } else {
        1 << 20
    }
}

const MEMORY: [&str; 2] = ["-m", "2048"];

pub(crate) fn run(options: &Options, cpu: usize, report: &mut Measurement) -> Result<()> {
    let cases = cases::all(&options.common);
    if cases.is_empty() {
        return Ok(());
    }
    for binary in &peers::memcacheds(&options.memcached)? {
        for flags in [vec![], vec!["-R", "64"]] {
            let cases: Vec<_> = cases
                .iter()
                .filter(|case| case.wants_peer(&flags))
                .collect();
            if !cases.is_empty() {
                beside_peer(options, (binary, &flags), &cases, cpu, report)?;
            }
        }
    }
    Ok(())
}

fn beside_peer(
    options: &Options,
    (binary, flags): (&Path, &[&str]),
    cases: &[&Case],
    cpu: usize,
    report: &mut Measurement,
) -> Result<()> {
    let own_flags = [&MEMORY[..], &["--item-size", "48"]].concat();
    let ours = Peer::micanite(&options.server, &own_flags, cpu)?;
    let theirs = Peer::memcached(binary, &[&MEMORY[..], flags].concat(), cpu)?;
    let name = [&[theirs.version.as_str()], flags].concat().join(" ");
    let mut filled_bytes = 0;
    for case in cases {
        if case.value_bytes != filled_bytes {
            for peer in [&ours, &theirs] {
                fill_long_keys(peer, items(options), case.value_bytes)?;
            }
            filled_bytes = case.value_bytes;
        }
        beside(case, [&ours, &theirs], &name, options, report)?;
    }
    Ok(())
}

fn beside(
    case: &Case,
    peers: [&Peer; 2],
    peer_name: &str,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    let workload = Workload {
        mix: case.mix,
        pipeline: case.pipeline,
        key_bytes: KEY_BYTES_MAX,
        value_bytes: case.value_bytes,
        items: Arc::new(case.popularity.draw(items(options), 1 << 20, 3)),
    };
    let connect = |peer: &Peer| Client::connect(peer.address, case.connections, &workload);
    let mut clients = [connect(peers[0])?, connect(peers[1])?];
    let duration = slice_duration(&options.common);
    let mut rounds = [Rounds::default(), Rounds::default()];
    for round in 0..options.common.rounds() {
        for ((peer, client), rounds) in peers.iter().zip(&mut clients).zip(&mut rounds) {
            if round == 0 {
                client.run(duration / 4)?;
            }
            rounds.add(peer, client, duration)?;
        }
        let (name, last) = (case.name, options.common.rounds());
        eprint!(
            "\r{name} beside {peer_name}, round {} of {last}   ",
            round + 1
        );
    }
    eprintln!();
    record(case, peers, peer_name, &rounds, report)
}

fn record(
    case: &Case,
    peers: [&Peer; 2],
    peer_name: &str,
    [ours, theirs]: &[Rounds; 2],
    report: &mut Measurement,
) -> Result<()> {
    let figures = [
        (
            "per server-core-second",
            "ops",
            &ours.per_core_second,
            &theirs.per_core_second,
        ),
        ("throughput", "ops/s", &ours.per_second, &theirs.per_second),
        ("latency p50", "us", &ours.p50_us, &theirs.p50_us),
        ("latency p99", "us", &ours.p99_us, &theirs.p99_us),
    ];
    for (metric, unit, ours, theirs) in figures {
        report.beside((case.name, metric, unit), ours, peer_name, theirs);
    }
    for (peer, rounds) in peers.iter().zip([ours, theirs]) {
        let found_percent = rounds.found_percent(peer)?;
        if found_percent < 100.0 {
            let (case, server) = (case.name, &peer.version);
            report.note(format!("{case}: {server} found {found_percent:.3} %"));
        }
    }
    Ok(())
}
