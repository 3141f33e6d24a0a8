//! Access modes on two cores: EREW beside one core, CREW beside EREW, CRCW beside one core.

use std::time::Duration;

use micanite_engine::{Access, Route};

use super::threads::{Draw, Pair, Span, alone};
use crate::Result;
use crate::engine::Options;
use crate::engine::contenders::config_of;
use crate::harness::popularity::Popularity;
use crate::results::measurement::Measurement;

const OPERATIONS: usize = 2 << 20;

/// Every partition is the worker's of its parity.
const fn by_parity(partition: usize) -> Route {
    Route { access: Access::Erew, owner: partition % 2 }
}

/// Every partition is the first worker's.
const fn of_the_first(access: Access) -> Route {
    Route { access, owner: 0 }
}

pub(crate) fn run(options: &Options, cpus: [usize; 2], report: &mut Measurement) -> Result<()> {
    let crcw_cases = [
        ("uniform", Popularity::Uniform, false),
        ("zipf 0.99", Popularity::Zipf, false),
        ("uniform, one partition", Popularity::Uniform, true),
        ("zipf 0.99, one partition", Popularity::Zipf, true),
    ];
    let crcw_name = |what: &str| format!("CRCW 50 % GET {what}, 2 threads");
    let erew_name = |get_percent: u64| format!("EREW {get_percent} % GET, 2 threads");
    let crew_name = |get_percent: u64| format!("CREW, reader of an owner at {get_percent} % GET");
    let names = crcw_cases
        .map(|(what, ..)| crcw_name(what))
        .into_iter()
        .chain([100, 50].map(erew_name))
        .chain([100, 50].map(crew_name));
    if !names.into_iter().any(|name| options.common.wants(&name)) {
        return Ok(());
    }
    eprintln!("access modes: filling {} items", options.items);
    let mut pair = Pair::new(&config_of::<8, 8>(options.items, 2), cpus)?;
    pair.cache.populate();
    pair.fill::<8, 8>(options.items);
    for get_percent in [100, 50] {
        erew(&erew_name(get_percent), get_percent, &mut pair, options, report)?;
        crew(&crew_name(get_percent), get_percent, &mut pair, options, report)?;
    }
    for (what, popularity, one_partition) in crcw_cases {
        let case = crcw_name(what);
        if !options.common.wants(&case) {
            continue;
        }
        let wanted = |partition| !one_partition || partition == 0;
        let draw = |seed| Draw::of(options, popularity, 50, seed);
        let lists = [1, 2].map(|seed| pair.draw::<8>(wanted, &draw(seed)));
        crcw(&case, &lists, &mut pair, options, report)?;
    }
    Ok(())
}

impl Draw {
    fn of(options: &Options, popularity: Popularity, get_percent: u64, seed: u64) -> Self {
        Self { popularity, items: options.items, get_percent, count: OPERATIONS, seed }
    }
}

fn span(options: &Options) -> Span {
    Span::For(Duration::from_millis(if options.common.quick { 150 } else { 300 }))
}

/// Each thread asks for keys of its own partitions, beside one thread that does.
fn erew(
    case: &str,
    get_percent: u64,
    pair: &mut Pair,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    if !options.common.wants(case) {
        return Ok(());
    }
    let draw = |seed| Draw::of(options, Popularity::Uniform, get_percent, seed);
    let lists = [0, 1].map(|number| {
        let own = |partition| by_parity(partition).owner == number;
        pair.draw::<8>(own, &draw(number as u64 + 1))
    });
    pair.set_routes(by_parity)?;
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..options.common.rounds() {
        let rates = pair.run::<8, 8>([&lists[0], &[]], span(options), alone)?;
        one.push(rates[0]);
        let rates = pair.run::<8, 8>([&lists[0], &lists[1]], span(options), alone)?;
        two.push(rates[0] + rates[1]);
    }
    report.beside((case, "operations", "M/s"), &two, "one thread", &one);
    Ok(())
}

/// The second thread reads: partitions of its own, or those of the first.
fn crew(
    case: &str,
    get_percent: u64,
    pair: &mut Pair,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    if !options.common.wants(case) {
        return Ok(());
    }
    let draw = |get_percent, seed| Draw::of(options, Popularity::Uniform, get_percent, seed);
    let first = |partition| by_parity(partition).owner == 0;
    let owner = pair.draw::<8>(first, &draw(get_percent, 1));
    let own = pair.draw::<8>(|partition| !first(partition), &draw(100, 2));
    let others = pair.draw::<8>(first, &draw(100, 3));
    let (mut erew, mut crew) = (Vec::new(), Vec::new());
    for _ in 0..options.common.rounds() {
        pair.set_routes(by_parity)?;
        erew.push(pair.run::<8, 8>([&owner, &own], span(options), alone)?[1]);
        pair.set_routes(|_| of_the_first(Access::Crew))?;
        crew.push(pair.run::<8, 8>([&owner, &others], span(options), alone)?[1]);
    }
    let what = (case, "reads of the second thread", "M/s");
    report.beside(what, &crew, "EREW", &erew);
    Ok(())
}

/// Both threads read and write everything, beside one thread that owns everything; and one of the two by
/// itself, which shows what the mode costs without the other.
fn crcw(
    case: &str,
    lists: &[Vec<u32>; 2],
    pair: &mut Pair,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    let (mut owner, mut single, mut two) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.common.rounds() {
        pair.set_routes(|_| of_the_first(Access::Erew))?;
        owner.push(pair.run::<8, 8>([&lists[0], &[]], span(options), alone)?[0]);
        pair.set_routes(|_| of_the_first(Access::Crcw))?;
        single.push(pair.run::<8, 8>([&lists[0], &[]], span(options), alone)?[0]);
        let rates = pair.run::<8, 8>([&lists[0], &lists[1]], span(options), alone)?;
        two.push(rates[0] + rates[1]);
    }
    report.beside((case, "operations", "M/s"), &two, "one thread, EREW", &owner);
    report.beside((case, "operations, the first alone", "M/s"), &single, "one thread, EREW", &owner);
    Ok(())
}
