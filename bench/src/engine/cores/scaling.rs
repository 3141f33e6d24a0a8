//! The engine on one, two, four ... and all cores (MICA, figure 14 without its network): exclusive
//! partitions, requests directed to their owners.

use std::time::Duration;

use micanite_engine::Access;

use super::team::Team;
use super::threads::{Draw, Span};
use crate::Result;
use crate::engine::Options;
use crate::engine::contenders::config_of;
use crate::harness::popularity::Popularity;
use crate::results::measurement::Measurement;

/// Operations for each core.
const OPERATIONS: usize = 1 << 20;

/// One, two, four ... and all.
fn numbers(cpus: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1), |number| Some(number * 2));
    let mut numbers: Vec<_> = doubled.take_while(|number| *number < cpus).collect();
    numbers.push(cpus);
    numbers
}

pub(crate) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let name_of = |number: usize| format!("cores of the engine, {number}");
    let numbers = numbers(cpus.len());
    if !numbers.iter().any(|number| options.common.wants(&name_of(*number))) {
        return Ok(());
    }
    eprintln!("cores: filling {} items", options.items);
    let mut team = Team::new(&config_of::<8, 8>(options.items, cpus.len()), cpus)?;
    team.fill::<8, 8>(options.items)?;
    for popularity in [Popularity::Uniform, Popularity::Zipf] {
        for get_percent in [50, 95] {
            let draw = |number: usize| Draw {
                popularity,
                items: options.items,
                get_percent,
                count: OPERATIONS * number,
                seed: 1,
            };
            let of = |number: &usize| team.direct::<8>(*number, Access::Erew, &draw(*number));
            let lists: Vec<_> = numbers.iter().map(of).collect();
            let mut rates = vec![Vec::new(); numbers.len()];
            for _ in 0..options.common.rounds() {
                for ((number, lists), rates) in numbers.iter().zip(&lists).zip(&mut rates) {
                    team.share(*number, Access::Erew)?;
                    let span = if options.common.quick { 150 } else { 300 };
                    let span = Span::For(Duration::from_millis(span));
                    rates.push(team.run::<8, 8>(lists, span)? * 1e6);
                }
            }
            let load = format!("{}, {get_percent} % GET", popularity.name());
            for (number, of_it) in numbers.iter().zip(&rates) {
                let (name, metric) = (name_of(*number), format!("throughput, {load}"));
                report.value(&name, &metric, "operations/s", of_it);
                if *number > 1 {
                    let metric = format!("throughput at {load}");
                    let what = (name.as_str(), metric.as_str(), "operations/s");
                    report.beside(what, of_it, "one core", &rates[0]);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn numbers_of_cores_include_one_and_all() {
        assert_eq!(numbers(1), [1]);
        assert_eq!(numbers(2), [1, 2]);
        assert_eq!(numbers(6), [1, 2, 4, 6]);
        assert_eq!(numbers(16), [1, 2, 4, 8, 16]);
    }
}
