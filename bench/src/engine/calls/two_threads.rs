//! The look-aside load of two threads, each on a core of its own, that share one cache.

use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use micanite_engine::{Access, Config, Route};

use super::look_aside::{COUNT, ITEMS_SHARE, SharedLookAside, in_batches, rounds_to_fill};
use crate::Result;
use crate::engine::Options;
use crate::engine::contenders::{Done, config_of};
use crate::engine::cores::threads::{Pair, meet};
use crate::engine::peers::{Foyer, Moka, QuickCache};
use crate::harness::popularity::Popularity;
use crate::harness::system;
use crate::results::measurement::Measurement;

/// Asks for a list of items on a thread.
type Asker<'a> = Box<dyn FnMut(&[u32]) -> Done + Send + 'a>;

pub(crate) fn run(options: &Options, cpus: [usize; 2], report: &mut Measurement) -> Result<()> {
    let room = options.items / 16;
    of_size::<8, 8>("8/8", room, options, cpus, report)?;
    of_size::<16, 64>("16/64", room / 2, options, cpus, report)?;
    of_size::<16, 400>("16/400", room / 4, options, cpus, report)
}

fn of_size<const K: usize, const V: usize>(
    name: &str,
    room: u64,
    options: &Options,
    cpus: [usize; 2],
    report: &mut Measurement,
) -> Result<()> {
    let case = format!("two threads, look-aside, {name}, zipf 0.99 over {ITEMS_SHARE} times {room} items");
    if !options.common.wants(&case) {
        return Ok(());
    }
    let eviction = options.eviction.unwrap_or_default();
    let mut ours = Pair::new(&Config { eviction, ..config_of::<K, V>(room, 2) }, cpus)?;
    ours.set_routes(|_| Route { access: Access::Crcw, owner: 0 })?;
    ours.cache.populate();
    let items = room * ITEMS_SHARE;
    let requests = |seed: u64| Popularity::Zipf.draw(items, COUNT, seed);
    // Until all memory of ours is used: then the others get room for as many items.
    for seed in 0..rounds_to_fill(items) {
        in_batches::<K, V>(&mut ours.workers[0], &requests(1000 + seed));
    }
    let there = ours.cache.stats().items_live;
    let (quick_cache, moka, foyer) =
        (QuickCache::<K, V>::of_room(there), Moka::<K, V>::new(there), Foyer::<K, V>::new(there));
    let peers: [&dyn SharedLookAside; 3] = [&quick_cache, &moka, &foyer];
    for seed in 0..rounds_to_fill(items) {
        let requests = requests(1000 + seed);
        for peer in peers {
            peer.ask(&requests);
        }
    }
    let mut rates = [const { Vec::new() }; 4];
    for round in 0..options.common.rounds() as u64 {
        let lists = [requests(2 * round), requests(2 * round + 1)];
        let [first, second] = &mut ours.workers;
        let both: [Asker<'_>; 2] = [
            Box::new(|items| in_batches::<K, V>(first, items)),
            Box::new(|items| in_batches::<K, V>(second, items)),
        ];
        rates[0].push(rate_of("micanite", both, &lists, cpus)?);
        for (peer, rates) in peers.iter().zip(&mut rates[1..]) {
            let ask = || -> Asker<'_> { Box::new(|items| peer.ask(items)) };
            rates.push(rate_of(peer.name(), [ask(), ask()], &lists, cpus)?);
        }
    }
    for (peer, rates_of_peer) in peers.iter().zip(&rates[1..]) {
        report.beside((&case, "requests of both", "M/s"), &rates[0], peer.name(), rates_of_peer);
    }
    Ok(())
}

/// Both threads go through their lists at the same time. Returns million requests per second of both.
fn rate_of(name: &str, both: [Asker<'_>; 2], lists: &[Vec<u32>; 2], cpus: [usize; 2]) -> Result<f64> {
    let ready = &AtomicUsize::new(0);
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (both.into_iter().zip(lists).zip(cpus))
            .map(|((mut ask, list), cpu)| {
                scope.spawn(move || {
                    let pinned = system::pin(cpu).map_err(|error| error.to_string());
                    meet(ready, 2);
                    let began = Instant::now();
                    let done = ask(list);
                    pinned.map(|()| (list.len() as f64 / began.elapsed().as_secs_f64() / 1e6, done))
                })
            })
            .collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut rate = 0.0;
    for result in results {
        let (own, done) = result.map_err(|_| "a thread of the benchmark died")??;
        if done.wrong > 0 {
            return Err(format!("{name}: {} wrong values", done.wrong).into());
        }
        rate += own;
    }
    Ok(rate)
}
