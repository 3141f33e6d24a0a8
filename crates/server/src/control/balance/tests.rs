//! Simulated loads: what is skewed settles, what has settled stays, what moves is followed.

use micanite_engine::{Access, Route};

use super::{Balancer, Change, PartitionState, Period, Situation, costs, decide};
use crate::telemetry::costs::Samples;

/// Workers that ask for partitions; all alike.
struct Machine {
    workers: usize,
    routes: Vec<Route>,
    balancer: Balancer,
    noise: u64,
}

impl Machine {
    fn new(workers: usize, partitions: usize, access: Access) -> Self {
        Self::with_noise(workers, partitions, access, 1)
    }

    fn with_noise(workers: usize, partitions: usize, access: Access, noise: u64) -> Self {
        let route = |partition| Route { access, owner: partition % workers };
        Self {
            workers,
            routes: (0..partitions).map(route).collect(),
            balancer: Balancer::new(partitions),
            noise,
        }
    }

    /// A number within 10 % of another.
    fn noisy(&mut self, load: u64) -> u64 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        load * (900 + self.noise % 201) / 1000
    }

    /// A period with these requests for the partitions, from all workers alike.
    fn period(&mut self, partitions: &[u64]) -> Option<Change> {
        let workers = self.workers as u64;
        let loads: Vec<Vec<u64>> = (0..self.workers)
            .map(|_| partitions.iter().map(|load| self.noisy(load / workers)).collect())
            .collect();
        let period = Period { requests: partitions.iter().sum(), loads };
        let change = self.balancer.period(period, &self.routes)?;
        let route = &mut self.routes[change.partition()];
        *route = change.apply(*route);
        Some(change)
    }

    fn changes(&mut self, periods: usize, partitions: &[u64]) -> Vec<Change> {
        (0..periods).filter_map(|_| self.period(partitions)).collect()
    }

    /// The busiest worker's load over the mean.
    fn imbalance(&self, partitions: &[u64]) -> f64 {
        let mut workers = vec![0.0; self.workers];
        for (route, load) in self.routes.iter().zip(partitions) {
            match route.access {
                Access::Erew => workers[route.owner] += *load as f64,
                _ => workers.iter_mut().for_each(|worker| *worker += *load as f64 / self.workers as f64),
            }
        }
        let sum: f64 = workers.iter().sum();
        workers.iter().fold(0.0, |most: f64, load| most.max(*load)) * self.workers as f64 / sum
    }
}

fn zipf(partitions: usize) -> Vec<u64> {
    (1..=partitions as u64).map(|rank| 1_000_000 / rank).collect()
}

#[test]
fn a_skewed_load_settles_and_then_nothing_changes() {
    for (workers, partitions) in [(4, 16), (3, 8), (2, 2)] {
        for noise in 1..=40 {
            let mut machine = Machine::with_noise(workers, partitions, Access::Erew, noise << 32 | 9);
            let loads = zipf(partitions);
            let before = machine.imbalance(&loads);
            let changes = machine.changes(30, &loads);
            let what = format!("{workers} workers, noise {noise}: {changes:?}");
            assert!(changes.len() <= partitions, "{what}");
            let after = machine.imbalance(&loads);
            assert!(after < 1.35 && after <= before, "{after} of {before}, {what}");
            assert_eq!(machine.changes(100, &loads), [], "{what}");
        }
    }
}

/// These loads lie so close to a threshold that noise alone decides when it is crossed: no partition gets
/// a route that it has had.
#[test]
fn close_to_a_threshold_nothing_goes_back_and_forth() {
    for (workers, partitions) in [(2, 8), (8, 32), (16, 64)] {
        for noise in 1..=40 {
            let mut machine = Machine::with_noise(workers, partitions, Access::Erew, noise << 32 | 9);
            let loads = zipf(partitions);
            let before = machine.routes.clone();
            let changes = machine.changes(500, &loads);
            let what = format!("{workers} workers, noise {noise}: {changes:?}");
            let after = machine.imbalance(&loads);
            assert!(after < 1.35, "{after}, {what}");
            assert!(changes.len() <= partitions, "{what}");
            for (partition, route) in before.into_iter().enumerate() {
                let mut had = vec![route];
                for change in changes.iter().filter(|change| change.partition() == partition) {
                    let next = change.apply(had[had.len() - 1]);
                    assert!(!had.contains(&next), "{what}");
                    had.push(next);
                }
            }
        }
    }
}

#[test]
fn neighbours_of_one_owner_spread() {
    let mut machine = Machine::new(4, 16, Access::Erew);
    // All the load is on partitions of worker 1.
    let loads: Vec<u64> = (0..16).map(|p| if p % 4 == 1 { 100_000 } else { 1000 }).collect();
    let changes = machine.changes(10, &loads);
    assert!(changes.iter().all(|change| matches!(change, Change::Move { .. })), "{changes:?}");
    assert!(machine.imbalance(&loads) < 1.25, "{changes:?}");
    assert_eq!(machine.changes(100, &loads), []);
}

#[test]
fn an_even_load_stays_as_it_is() {
    for access in [Access::Erew, Access::Crew, Access::Crcw] {
        let mut machine = Machine::new(4, 16, access);
        assert_eq!(machine.changes(100, &[10_000; 16]), []);
    }
}

#[test]
fn one_hot_partition_is_shared_and_given_back_when_it_cools_down() {
    let mut machine = Machine::new(4, 16, Access::Erew);
    let mut loads = vec![10_000; 16];
    loads[5] = 500_000;
    let changes = machine.changes(5, &loads);
    assert_eq!(changes, [Change::Share { partition: 5 }]);
    assert_eq!(machine.changes(100, &loads), []);
    // Half as hot is still hot enough to stay.
    loads[5] = 70_000;
    assert_eq!(machine.changes(30, &loads), []);
    loads[5] = 10_000;
    assert_eq!(machine.changes(30, &loads), [Change::Own { partition: 5 }]);
    assert_eq!(machine.routes[5].access, Access::Erew);
    assert_eq!(machine.changes(100, &loads), []);
}

#[test]
fn what_a_person_changed_rests_and_a_mode_that_a_person_chose_stays() {
    let mut loads = vec![10_000; 16];
    loads[5] = 500_000;
    for mode in [false, true] {
        let mut machine = Machine::new(4, 16, Access::Erew);
        assert_eq!(machine.changes(5, &loads), [Change::Share { partition: 5 }]);
        machine.changes(20, &loads);
        machine.balancer.changed_by_hand(5, mode);
        assert_eq!(machine.changes(9, &[10_000; 16]), [], "rests");
        let given_back = if mode { vec![] } else { vec![Change::Own { partition: 5 }] };
        assert_eq!(machine.changes(30, &[10_000; 16]), given_back);
    }
}

#[test]
fn a_shared_partition_of_few_cools_down_to_an_even_load() {
    let mut machine = Machine::new(2, 4, Access::Erew);
    assert_eq!(machine.changes(10, &[900_000, 10_000, 10_000, 10_000]), [Change::Share { partition: 0 }]);
    assert_eq!(machine.changes(30, &[50_000; 4]), [Change::Own { partition: 0 }]);
    assert_eq!(machine.changes(100, &[50_000; 4]), []);
}

#[test]
fn a_hot_spot_that_moves_is_followed() {
    let mut machine = Machine::new(4, 16, Access::Erew);
    for hot in [3, 9, 14, 3] {
        let mut loads = vec![10_000; 16];
        loads[hot] = 400_000;
        let changes = machine.changes(15, &loads);
        assert!(changes.contains(&Change::Share { partition: hot }), "{hot}: {changes:?}");
        assert!(machine.imbalance(&loads) < 1.25);
        let shared = |route: &&Route| route.access == Access::Crew;
        machine.changes(15, &loads);
        assert_eq!(machine.routes.iter().filter(shared).count(), 1, "{hot}");
    }
}

#[test]
fn one_change_at_a_time_and_then_a_rest() {
    let mut machine = Machine::new(2, 8, Access::Erew);
    let loads = |hot: usize| (0..8).map(|p| if p == hot { 500_000 } else { 10_000 }).collect::<Vec<u64>>();
    let mut last = [None::<usize>; 8];
    // The load jumps about faster than anything could follow.
    for period in 0..300 {
        if let Some(change) = machine.period(&loads(period / 4 % 8)) {
            let before = last[change.partition()].replace(period);
            assert!(before.is_none_or(|before| period - before >= 10), "{change:?}");
        }
    }
    assert!(last.iter().any(Option::is_some));
}

#[test]
fn little_load_and_other_modes_are_left_alone() {
    let mut machine = Machine::new(2, 4, Access::Erew);
    assert_eq!(machine.changes(20, &[400, 2, 2, 2]), []);
    let mut machine = Machine::new(2, 4, Access::Crcw);
    assert_eq!(machine.changes(20, &[400_000, 2, 2, 2]), []);
    // A person has chosen CREW: it stays.
    let mut machine = Machine::new(2, 4, Access::Crew);
    assert_eq!(machine.changes(20, &[400_000, 2, 2, 2]), []);
}

#[test]
fn partitions_that_only_their_owner_uses_are_not_shared() {
    let routes = [0, 1].map(|owner| Route { access: Access::Erew, owner });
    let fresh = [PartitionState::default(); 2];
    let decide = |loads: &[Vec<u64>], states: &[PartitionState]| {
        decide(Situation { requests: 100_000, loads, routes: &routes, states, is_moving: false })
    };
    let alone = [vec![90_000, 0], vec![0, 10_000]];
    assert_eq!(decide(&alone, &fresh), None);
    let both = [vec![60_000, 0], vec![30_000, 10_000]];
    let shared = Some(Change::Share { partition: 0 });
    assert_eq!(decide(&both, &fresh), shared);
    let resting = [PartitionState { resting: true, shared: false }; 2];
    assert_eq!(decide(&both, &resting), None);
}

/// Samples of a worker with these prices, so many requests of each partition.
fn samples(requests: &[u64], prices_ns: &[u64], rest_ns: u64) -> Samples {
    let of = |(requests, price): (&u64, &u64)| (*requests, requests * price);
    let all: u64 = requests.iter().sum();
    let rest_ns = all * rest_ns;
    Samples { datagram_requests: all, partitions: requests.iter().zip(prices_ns).map(of).collect(), rest_ns }
}

/// Requests of random numbers, prices and routes cost what adding up each single one says.
#[test]
fn costs_are_those_of_requests_one_by_one() {
    let mut noise = Machine::new(2, 1, Access::Erew);
    let mut random = move |below: u64| noise.noisy(1_000_000) / 7 % below;
    for _ in 0..200 {
        let (workers, partitions) = (1 + random(3) as usize, 1 + random(6) as usize);
        let mut draw = |below: u64| (0..partitions).map(|_| random(below)).collect::<Vec<_>>();
        let requests: Vec<_> = (0..workers).map(|_| draw(50)).collect();
        let (timed, prices): (Vec<_>, Vec<_>) = (0..workers).map(|_| (draw(3), draw(900))).unzip();
        let owners = draw(workers as u64);
        let accesses = draw(3);
        let route = |partition: usize| Route {
            access: [Access::Erew, Access::Crew, Access::Crcw][accesses[partition] as usize],
            owner: owners[partition] as usize,
        };
        let routes: Vec<_> = (0..partitions).map(route).collect();
        let rest_ns = 100;
        let samples: Vec<_> =
            timed.iter().zip(&prices).map(|(timed, prices)| samples(timed, prices, rest_ns)).collect();
        // All requests of some workers, none of others, and half of them.
        let halves: Vec<_> = (0..workers).map(|_| random(3)).collect();
        let sums = requests.iter().map(|of: &Vec<u64>| of.iter().sum::<u64>());
        let datagrams: Vec<_> = sums.zip(&halves).map(|(all, halves)| all * halves / 2).collect();
        let found = costs(&requests, &datagrams, &routes, &samples);
        for (asking, of_worker) in requests.iter().enumerate() {
            for (partition, count) in of_worker.iter().enumerate() {
                let worker = match routes[partition].access {
                    Access::Erew => routes[partition].owner,
                    _ => asking,
                };
                let share = datagrams[asking] as f64 / requests[asking].iter().sum::<u64>().max(1) as f64;
                let single_ns = naive_price(worker, partition, &timed, &prices, rest_ns as f64 * share);
                let all: f64 = (0..*count).map(|_| single_ns).sum();
                let difference = (found[asking][partition] as f64 - all).abs();
                assert!(difference <= 1.0 + all * 1e-9, "{} of {all}", found[asking][partition]);
            }
        }
    }
}

/// Mean of the timed requests that say most of one: those of its partition on its worker, those of its
/// worker, or all.
fn naive_price(
    worker: usize,
    partition: usize,
    timed: &[Vec<u64>],
    prices: &[Vec<u64>],
    rest_ns: f64,
) -> f64 {
    let all = |of: &dyn Fn(usize, usize) -> bool| {
        let mut each = Vec::new();
        for (worker, counts) in timed.iter().enumerate() {
            for (partition, count) in counts.iter().enumerate() {
                if of(worker, partition) {
                    each.extend((0..*count).map(|_| prices[worker][partition] as f64));
                }
            }
        }
        each
    };
    let same = |w: usize, p: usize| (w, p) == (worker, partition);
    let candidates = [all(&same), all(&|w, _| w == worker), all(&|_, _| true)];
    let known = candidates.iter().find(|each| !each.is_empty());
    known.map_or(0.0, |each| each.iter().sum::<f64>() / each.len() as f64 + rest_ns).max(1.0)
}

/// One worker has datagrams and another one streams, of which a timed round brings far more. A third one has
/// both.
#[test]
fn streams_do_not_dilute_the_rest_of_datagrams() {
    let routes = [0, 1, 2].map(|owner| Route { access: Access::Erew, owner });
    let of = |partition: usize, timed: u64, datagram_requests: u64| {
        let mut partitions = vec![(0, 0); 3];
        partitions[partition] = (timed, timed * 100);
        Samples { partitions, datagram_requests, rest_ns: datagram_requests * 900 }
    };
    let samples = [of(0, 10, 10), of(1, 100_000, 0), of(2, 50_000, 10)];
    let requests = [vec![5000, 0, 0], vec![0, 5000, 0], vec![0, 0, 5000]];
    let found = costs(&requests, &[5000, 0, 2500], &routes, &samples);
    assert_eq!(found, [vec![5_000_000, 0, 0], vec![0, 500_000, 0], vec![0, 0, 2_750_000]]);
    // Datagrams that were refused, and came to no partition, do not make the others dearer.
    let found = costs(&requests, &[9000, 0, 2500], &routes, &samples);
    assert_eq!(found[0], [5_000_000, 0, 0]);
}

/// The same number of requests everywhere, but those of worker 0's partitions take ten times as long:
/// numbers find nothing to do, times spread the load.
#[test]
fn expensive_partitions_spread_where_numbers_are_even() {
    let requests = vec![vec![10_000; 8]; 2];
    let price = |partition: usize| if partition.is_multiple_of(2) { 1000 } else { 100 };
    let prices: Vec<u64> = (0..8).map(price).collect();
    for (by_cost, changes_wanted) in [(false, false), (true, true)] {
        let mut machine = Machine::new(2, 8, Access::Erew);
        let mut changes = 0;
        for _ in 0..60 {
            let loads = match by_cost {
                true => {
                    let samples = vec![samples(&[100; 8], &prices, 50); 2];
                    costs(&requests, &[80_000; 2], &machine.routes, &samples)
                }
                false => requests.clone(),
            };
            let change = machine.balancer.period(Period { requests: 160_000, loads }, &machine.routes);
            if let Some(change) = change {
                let route = &mut machine.routes[change.partition()];
                *route = change.apply(*route);
                changes += 1;
            }
        }
        assert_eq!(changes > 0, changes_wanted);
        let imbalance = machine.imbalance(&prices);
        assert_eq!(imbalance < 1.25, by_cost, "{imbalance}");
    }
}
