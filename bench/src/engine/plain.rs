//! GETs of the engine alone, for comparison with a plan.

use std::time::Instant;

use super::contenders::{Contender, Micanite, config_of};
use super::throughput::fill;
use crate::Result;
use crate::harness::popularity::Popularity;

/// Returns the GETs per second of tiny items in each round.
pub(crate) fn gets_per_second(law: Popularity, items: u64, rounds: usize) -> Result<Vec<f64>> {
    let mut engine = Micanite::<8, 8>::new(&config_of::<8, 8>(items, 1))?;
    engine.cache().populate();
    fill(&mut engine, items);
    let list = law.draw(items, 1 << 21, 7);
    // The first warms up.
    let mut per_second = Vec::new();
    for round in 0..=rounds {
        let begin = Instant::now();
        let hits = engine.run(&list).hits;
        let seconds = begin.elapsed().as_secs_f64();
        if hits * 10 < list.len() as u64 * 9 {
            return Err(format!("only {hits} of {} items were found", list.len()).into());
        }
        per_second.extend((round > 0).then_some(list.len() as f64 / seconds));
    }
    Ok(per_second)
}
