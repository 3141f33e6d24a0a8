//! Routes that change while two threads read and write everything, beside none that change.
//!
//! At normal priority: the thread that changes routes shares a core with a worker, and must not
//! wait for the end of its real-time slice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use micanite_engine::{Access, Cache, Route};

use super::threads::{Draw, Pair, Span, alone};
use crate::Result;
use crate::engine::Options;
use crate::engine::contenders::config_of;
use crate::harness::popularity::Popularity;
use crate::harness::system;
use crate::results::measurement::Measurement;

const ITEMS: u64 = 1 << 20;

/// Kinds of changes.
#[derive(Clone, Copy)]
enum Change {
    /// The owner of one partition after the other, which all share.
    Owner,
    /// The mode of the first partition: shared, read by all, shared, exclusive, ...
    Mode,
}

pub(crate) fn run(options: &Options, cpus: [usize; 2], report: &mut Measurement) -> Result<()> {
    let cases = [
        ("another owner under CRCW every second", Change::Owner, 1000),
        ("another owner under CRCW every 10 ms", Change::Owner, 10),
        ("another mode of one partition every second", Change::Mode, 1000),
        ("another mode of one partition every 10 ms", Change::Mode, 10),
    ];
    let wanted = |case: &&(&str, Change, u64)| options.common.wants(case.0);
    let cases: Vec<_> = cases.iter().filter(wanted).collect();
    if cases.is_empty() {
        return Ok(());
    }
    let mut pair = Pair::new(&config_of::<8, 8>(ITEMS, 2), cpus)?;
    pair.cache.populate();
    pair.fill::<8, 8>(ITEMS);
    let draw =
        |seed| Draw { popularity: Popularity::Uniform, items: ITEMS, get_percent: 50, count: 1 << 20, seed };
    let lists = [1, 2].map(|seed| pair.draw::<8>(|_| true, &draw(seed)));
    let real_time = !options.common.no_real_time && system::make_normal();
    for (case, change, pause_ms) in cases {
        let span = Duration::from_millis((2 * pause_ms).max(500)) + Duration::from_millis(500);
        let (mut without, mut with, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..options.common.rounds() {
            eprint!("\r{case} round {}   ", round + 1);
            without.push(rate(&mut pair, &lists, span, alone)?);
            let cache = std::sync::Arc::clone(&pair.cache);
            let before = cache.generation();
            let pause = Duration::from_millis(*pause_ms);
            let beside = |over: &AtomicBool| keep_changing(&cache, *change, pause, over);
            with.push(rate(&mut pair, &lists, span, beside)?);
            changes.push((cache.generation() - before) as f64);
            share(&pair)?;
        }
        eprintln!();
        report.beside((case, "operations", "M/s"), &with, "no change", &without);
        report.value(case, "changes in a round", "changes", &changes);
    }
    if real_time {
        system::favour_session(false);
        system::make_real_time();
    }
    Ok(())
}

/// Shares both partitions as at the start.
fn share(pair: &Pair) -> Result<()> {
    pair.set_routes(|partition| Route { access: Access::Crcw, owner: partition % 2 })
}

fn rate(
    pair: &mut Pair,
    lists: &[Vec<u32>; 2],
    span: Duration,
    beside: impl FnOnce(&AtomicBool) -> Result<()>,
) -> Result<f64> {
    let lists = [lists[0].as_slice(), lists[1].as_slice()];
    let rates = pair.run::<8, 8>(lists, Span::For(span), beside)?;
    Ok(rates[0] + rates[1])
}

fn keep_changing(cache: &Cache, change: Change, pause: Duration, over: &AtomicBool) -> Result<()> {
    let (start, partitions) = (Instant::now(), cache.layout().partitions);
    for number in 1.. {
        // The first change after half a pause, so that a round has as many as it has pauses.
        let due = pause * number - pause / 2;
        while let Some(left) = due.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left.min(Duration::from_millis(20)));
            if over.load(Ordering::Acquire) {
                return Ok(());
            }
        }
        let number = number as usize;
        let (partition, access, owner) = match change {
            Change::Owner => {
                let partition = number % partitions;
                (partition, Access::Crcw, (number / partitions + partition + 1) % 2)
            }
            Change::Mode => {
                let modes = [Access::Crcw, Access::Crew, Access::Crcw, Access::Erew];
                (0, modes[number % 4], 0)
            }
        };
        let set = cache.set_route(partition, Route { access, owner });
        set.map_err(|error| format!("cannot change a route: {error:?}"))?;
        if over.load(Ordering::Acquire) {
            return Ok(());
        }
    }
    Ok(())
}
