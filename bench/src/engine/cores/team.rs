//! A thread on each of several cores, with the workers of one cache; requests come to them as clients
//! would direct them.

use std::sync::Arc;

use micanite_engine::{Access, Cache, Config, Route, Worker};

use super::threads::{Draw, Span, alone, run_members};
use crate::Result;
use crate::engine::contenders::{SET, bytes, run_worker};
use crate::harness::popularity::Random;

/// A cache with a worker for each core.
pub(crate) struct Team {
    cache: Arc<Cache>,
    workers: Vec<Worker>,
    cpus: Vec<usize>,
}

impl Team {
    /// `config` for as many workers as cores.
    pub fn new(config: &Config, cpus: &[usize]) -> Result<Self> {
        let cache = Arc::new(Cache::new(config)?);
        let worker = |number| cache.worker(number).ok_or("no worker");
        let workers = (0..cpus.len()).map(worker).collect::<std::result::Result<_, _>>()?;
        // All threads run all the time, so none has to be woken.
        cache.set_waker(|_| {});
        cache.populate();
        Ok(Self { cache, workers, cpus: cpus.to_vec() })
    }

    /// Stores items `0..items`, by the first worker: it owns everything until [`Team::share`].
    pub fn fill<const K: usize, const V: usize>(&mut self, items: u64) -> Result<()> {
        self.share(1, Access::Erew)?;
        let step = 1 << 20;
        for first in (0..items).step_by(step) {
            let end = items.min(first + step as u64);
            let list: Vec<_> = (first..end).map(|item| item as u32 | SET).collect();
            run_worker::<K, V>(&mut self.workers[0], &list);
        }
        Ok(())
    }

    /// Gives the partitions to the first `members` in turn.
    pub fn share(&self, members: usize, access: Access) -> Result<()> {
        for partition in 0..self.cache.layout().partitions {
            let owner = partition % members;
            let set = self.cache.set_route(partition, Route { access, owner });
            set.map_err(|error| format!("cannot set a route: {error:?}"))?;
        }
        Ok(())
    }

    /// Draws operations and directs each to one of the first `members`: exclusive partitions to their
    /// owners (EREW); writes to those and reads to whoever has the least (CREW); all to whoever has the
    /// least (CRCW).
    pub fn direct<const K: usize>(&self, members: usize, access: Access, of: &Draw) -> Vec<Vec<u32>> {
        let mut lists = vec![Vec::new(); members];
        let mut random = Random::new(of.seed + 100);
        for item in of.popularity.draw(of.items, of.count, of.seed) {
            let hash = self.cache.hash(&bytes::<K>(item));
            let is_set = random.below(100) >= of.get_percent;
            let owned = access == Access::Erew || (access == Access::Crew && is_set);
            let member = match owned {
                true => self.cache.partition_of(hash) % members,
                false => shortest(&lists),
            };
            lists[member].push(if is_set { item | SET } else { item });
        }
        lists
    }

    /// Million operations per second of all together, if each gets the part of the load that its list
    /// is: the one with the most to do says how much.
    pub fn run<const K: usize, const V: usize>(&mut self, lists: &[Vec<u32>], span: Span) -> Result<f64> {
        Ok(whole(&self.rates::<K, V>(lists, span)?, lists))
    }

    /// Million operations per second of each, all at the same time.
    pub fn rates<const K: usize, const V: usize>(
        &mut self,
        lists: &[Vec<u32>],
        span: Span,
    ) -> Result<Vec<f64>> {
        let mut of_each: Vec<&[u32]> = lists.iter().map(Vec::as_slice).collect();
        of_each.resize(self.workers.len(), &[]);
        let mut rates = run_members::<K, V>(&mut self.workers, &of_each, &self.cpus, span, alone)?;
        rates.truncate(lists.len());
        Ok(rates)
    }
}

/// Rate of the whole load, from the rates of [`Team::run`]: the core with the most of it limits it.
pub(crate) fn whole(rates: &[f64], lists: &[Vec<u32>]) -> f64 {
    let all: usize = lists.iter().map(Vec::len).sum();
    let whole = |(rate, list): (&f64, &Vec<u32>)| rate * all as f64 / list.len() as f64;
    rates.iter().zip(lists).filter(|(_, list)| !list.is_empty()).map(whole).fold(f64::INFINITY, f64::min)
}

fn shortest(lists: &[Vec<u32>]) -> usize {
    let lengths = lists.iter().map(Vec::len).enumerate();
    lengths.min_by_key(|(_, length)| *length).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::contenders::config_of;
    use crate::harness::popularity::Popularity;

    const ITEMS: u64 = 1 << 12;

    fn draw(get_percent: u64) -> Draw {
        Draw { popularity: Popularity::Uniform, items: ITEMS, get_percent, count: 1 << 12, seed: 3 }
    }

    #[test]
    fn requests_go_where_the_mode_wants_them() {
        let cpu = micanite_control::cores::allowed()[0];
        let mut team = Team::new(&config_of::<8, 8>(ITEMS, 2), &[cpu, cpu]).unwrap();
        team.fill::<8, 8>(ITEMS).unwrap();
        for access in [Access::Erew, Access::Crew, Access::Crcw] {
            team.share(2, access).unwrap();
            let lists = team.direct::<8>(2, access, &draw(50));
            assert_eq!(lists.iter().map(Vec::len).sum::<usize>(), 1 << 12);
            let of_others = |member: usize, list: &Vec<u32>| {
                let owner =
                    |item: &u32| team.cache.partition_of(team.cache.hash(&bytes::<8>(item & !SET))) % 2;
                list.iter().any(|item| owner(item) != member && (access == Access::Erew || item & SET != 0))
            };
            let strays = (0..2).any(|member| of_others(member, &lists[member]));
            assert_eq!(strays, access == Access::Crcw, "{access:?}");
            let span = Span::For(Duration::from_millis(5));
            assert!(team.run::<8, 8>(&lists, span).unwrap() > 0.0);
            assert_eq!(whole(&[3.0, 4.0], &[vec![0; 3], vec![0; 1]]), 4.0);
        }
    }
}
