//! Parts of a latency: cable and client alone, what the server adds, and what it costs that the server's core
//! has gone to sleep. The same load on each server, alone and beside a loop of the lowest priority, which
//! keeps the core awake.

use std::time::Duration;

use micanite_workload::Pool;

use super::super::account::Spinner;
use super::super::latency::slice;
use super::super::load::requests::Kind as RequestKind;
use super::super::servers::Kind;
use super::super::sides::{Round, Side};
use super::super::{Bench, Options, pools, tiny};
use super::CASE;
use crate::Result;
use crate::results::measurement::Measurement;

const POOLS: [Pool; 3] = [Pool::Usr, Pool::Etc, Pool::Sys];
const KINDS: [Kind; 4] = [Kind::Memcached, Kind::Udp, Kind::KernelGet, Kind::Reflect];
const ITEMS: u64 = 1 << 16;
/// Requests per second: about a quarter, a half and most of memcached's peak.
const RATES: [f64; 3] = [30e3, 70e3, 120e3];

pub(super) fn run(options: &Options, bench: &mut Bench, report: &mut Measurement) -> Result<()> {
    for pool in POOLS {
        let case = format!("{CASE}/latency/{pool}");
        if options.common.wants(&case) {
            one(&case, pool, options, bench, report)?;
        }
    }
    Ok(())
}

fn one(case: &str, pool: Pool, options: &Options, bench: &mut Bench, report: &mut Measurement) -> Result<()> {
    let quick = options.common.quick;
    let keys = options.keys.unwrap_or(if quick { 1 << 16 } else { 1 << 18 });
    let mut servers = bench.start(&KINDS, 512, report)?;
    let mut sides = Vec::new();
    for (at, server) in servers.iter_mut().enumerate() {
        let ring = match server.kind {
            // It stores nothing: GETs alone.
            Kind::Reflect => tiny::gets(server, ITEMS, 1 << 16)?,
            _ => pools::prepare(server, pool, keys)?.0,
        };
        server.process.pause();
        sides.push(Side::new(at, server.kind.name(), ring));
    }
    let spinner = Spinner::start(bench.cpus[0])?;
    let (rounds, slice_ms) = if quick { (3, 80) } else { (5, 150) };
    for rate in RATES {
        let mut measured = vec![[const { Vec::<Round>::new() }; 2]; sides.len()];
        for round in 0..rounds {
            eprint!("\r{case} {:.0} k/s, round {} of {rounds}   ", rate / 1000.0, round + 1);
            for (side, measured) in sides.iter_mut().zip(&mut measured) {
                for (is_beside, rounds) in measured.iter_mut().enumerate() {
                    if is_beside == 1 {
                        spinner.resume();
                    }
                    let done = slice(&mut servers[side.server], side, rate, Duration::from_millis(slice_ms));
                    spinner.pause();
                    rounds.push(done?);
                }
            }
        }
        for (side, measured) in sides.iter().zip(&measured) {
            let case = format!("{case}, {:.0} k/s/{}", rate / 1000.0, side.name);
            enter(&case, measured, report);
        }
    }
    eprintln!();
    Ok(())
}

fn enter(case: &str, measured: &[Vec<Round>; 2], report: &mut Measurement) {
    for (rounds, place) in measured.iter().zip(["", "_awake"]) {
        let mut value = |name: &str, of: &dyn Fn(&Round) -> f64| {
            let values: Vec<_> = rounds.iter().map(of).collect();
            if values.iter().all(|value| value.is_finite()) {
                report.value(case, &format!("{name}{place}"), "us", &values);
            }
        };
        value("get_mean", &|round| round.tally.mean_us(RequestKind::Get));
        value("get_median", &|round| round.tally.quantile_us(RequestKind::Get, 0.5));
        value("get_p99", &|round| round.tally.quantile_us(RequestKind::Get, 0.99));
        value("update_median", &|round| round.tally.quantile_us(RequestKind::Update, 0.5));
    }
}
