//! Clients that read one-sided.

use std::sync::atomic::Ordering;
use std::thread;

use micanite_client::{Completion, FabricCounters, FabricLink, FabricOptions, Operation, Outcome};
use micanite_workload::{Popularity, Random, Sampler};

use super::{AWAY, Shared, count};

/// Reads in flight.
const WINDOW: usize = 8;
const WAIT_NS: u64 = 1_000_000;

/// A read that is under way.
#[derive(Clone, Copy)]
struct Reading {
    key: u32,
    /// The oldest number that it may find.
    oldest: u32,
}

/// Reads until the run is over.
pub(super) fn read(shared: &Shared, number: u32) {
    let mut random = Random::of_stream(shared.options.seed, 1_000 + u64::from(number));
    // Few keys are hot, so that most reads meet writes.
    let sampler = Sampler::new(Popularity::Zipf(0.99), u64::from(shared.keys.len()));
    while !shared.is_over() {
        let Some(mut link) = connect(shared) else {
            continue;
        };
        serve(shared, &mut link, || sampler.item(&mut random) as u32);
        let FabricCounters { refused, reconnects, .. } = link.counters();
        shared.tally.refused.fetch_add(refused.iter().sum(), Ordering::Relaxed);
        shared.tally.reconnects.fetch_add(*reconnects, Ordering::Relaxed);
    }
}

/// Connects, unless the server is away.
pub(super) fn connect(shared: &Shared) -> Option<FabricLink> {
    let connected =
        FabricLink::connect(std::slice::from_ref(&shared.options.fabric), &FabricOptions::default());
    match connected {
        Ok(link) => Some(link),
        Err(error) => {
            if !matches!(error, micanite_client::Error::Unreachable { .. }) {
                shared.wrong(format!("a client cannot connect: {error}"));
            }
            thread::sleep(AWAY);
            None
        }
    }
}

/// Keeps reads in flight until the run is over, or the link fails.
fn serve(shared: &Shared, link: &mut FabricLink, mut next: impl FnMut() -> u32) {
    let mut window = [None; WINDOW];
    while !shared.is_over() || window.iter().any(Option::is_some) {
        let now_ns = link.now_ns();
        for (token, place) in window.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
            if shared.is_over() {
                break;
            }
            let key = next();
            let reading = Reading { key, oldest: shared.keys.oldest(key) };
            let name = shared.keys.name(key);
            if link.submit(now_ns, &Operation::get(&name), token as u64).is_err() {
                // Full, or the server is away.
                count(&shared.tally.lost);
                break;
            }
            *place = Some(reading);
        }
        link.flush();
        let polled = link.poll(now_ns, |completion| {
            if let Some(reading) = window[completion.token as usize].take() {
                judge(shared, reading, &completion);
            }
        });
        match polled {
            Ok(0) if link.pending() == 0 => thread::sleep(AWAY),
            Ok(0) => drop(link.wait(WAIT_NS)),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

fn judge(shared: &Shared, reading: Reading, completion: &Completion<'_>) {
    let tally = &shared.tally;
    match completion.outcome {
        Outcome::Ok => {
            let judged = shared.keys.judge(reading.key, completion.value, reading.oldest);
            if let Err(verdict) = judged {
                let way = if completion.one_sided { "one-sided" } else { "by message" };
                shared.wrong(format!("{verdict}, {way}"));
            }
            count(if completion.one_sided { &tally.one_sided } else { &tally.two_sided });
        }
        Outcome::NotFound => count(&tally.misses),
        _ => count(&tally.lost),
    }
}
