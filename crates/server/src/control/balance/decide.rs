//! The decision what to change, from loads alone.

use micanite_engine::{Access, Route};

/// Fewer requests in a period are not worth a change.
const REQUESTS_MIN: u64 = 1000;
/// A partition is too hot if it would bring any owner beyond this many times the mean load of a worker.
const HOT: f64 = 1.25;
/// A hot partition stays hot until its load is below this share of the threshold.
const COOL: f64 = 0.5;
/// A worker is busy from this many times the mean load on. The first of several moves has to relieve the
/// busier of two workers by this share of the mean.
const BUSY: f64 = 1.1;
const GAIN: f64 = 0.05;
/// Once there was one, moves go on beyond what a first one needs, so that noise around one of the
/// thresholds does not bring up another.
const BUSY_ON: f64 = 1.05;
const GAIN_ON: f64 = 0.025;
/// A partition is asked for by several workers when this share comes from others than its owner.
const FOREIGN_SHARE: f64 = 0.1;

/// One change of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The partition is too hot for any one worker: everyone may read it (CREW).
    Share {
        /// Number of the partition.
        partition: usize,
    },
    /// It has cooled down: its owner alone reads it again (EREW).
    Own {
        /// Number of the partition.
        partition: usize,
    },
    /// It goes to another worker.
    Move {
        /// Number of the partition.
        partition: usize,
        /// Number of the new owner.
        owner: usize,
    },
}

impl Change {
    /// Returns the partition that changes.
    pub fn partition(self) -> usize {
        match self {
            Self::Share { partition } | Self::Own { partition } | Self::Move { partition, .. } => partition,
        }
    }

    /// The route after the change of one that was `before`.
    pub fn apply(self, before: Route) -> Route {
        match self {
            Self::Share { .. } => Route { access: Access::Crew, ..before },
            Self::Own { .. } => Route { access: Access::Erew, ..before },
            Self::Move { owner, .. } => Route { owner, ..before },
        }
    }
}

/// State of a partition between two periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionState {
    /// It has changed lately and rests.
    pub resting: bool,
    /// Balancing has turned it to CREW.
    pub shared: bool,
}

/// Input of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// Requests of a period.
    pub requests: u64,
    /// Their load, in any unit, by asking worker, then by partition.
    pub loads: &'a [Vec<u64>],
    /// Mode and owner of each partition.
    pub routes: &'a [Route],
    /// By partition.
    pub states: &'a [PartitionState],
    /// A partition was moved, and there was more to move in every period since.
    pub is_moving: bool,
}

/// The most useful change, if any is worth it.
pub fn decide(situation: Situation<'_>) -> Option<Change> {
    if situation.requests < REQUESTS_MIN {
        return None;
    }
    let view = View::of(situation);
    if view.mean <= 0.0 {
        return None;
    }
    view.too_hot().or_else(|| view.better_owner()).or_else(|| view.cooled_down())
}

/// Loads as the decisions need them.
struct View<'a> {
    of: Situation<'a>,
    /// Load of each partition.
    partitions: Vec<f64>,
    /// Load that each worker executes.
    workers: Vec<f64>,
    /// The mean of those.
    mean: f64,
    /// Load of each worker from partitions that it does not own alone, and cannot give away.
    shares: Vec<f64>,
}

impl<'a> View<'a> {
    fn of(of: Situation<'a>) -> Self {
        let mut partitions = vec![0.0; of.routes.len()];
        let mut workers = vec![0.0; of.loads.len()];
        let mut shares = workers.clone();
        for (worker, loads) in of.loads.iter().enumerate() {
            for (partition, load) in loads.iter().enumerate() {
                let route = of.routes[partition];
                let load = *load as f64;
                partitions[partition] += load;
                if route.access == Access::Erew {
                    workers[route.owner] += load;
                } else {
                    workers[worker] += load;
                    shares[worker] += load;
                }
            }
        }
        let mean = workers.iter().sum::<f64>() / workers.len() as f64;
        Self { of, shares, partitions, workers, mean }
    }

    /// The load from which on no worker could own this partition without being too hot, whatever
    /// else it gave away.
    fn limit(&self, partition: usize) -> f64 {
        let is_shared = self.of.routes[partition].access != Access::Erew;
        let others = |(share, loads): (&f64, &Vec<u64>)| {
            if is_shared { share - loads[partition] as f64 } else { *share }
        };
        let shares = self.shares.iter().zip(self.of.loads).map(others);
        HOT * self.mean - shares.fold(f64::INFINITY, f64::min)
    }

    /// Partitions that may change now.
    fn movable(&self) -> impl Iterator<Item = usize> {
        (0..self.of.routes.len()).filter(|partition| {
            self.of.routes[*partition].access == Access::Erew && !self.of.states[*partition].resting
        })
    }

    /// The hottest partition that would be too much for any owner.
    fn too_hot(&self) -> Option<Change> {
        let is_too_hot = |partition: &usize| {
            let load = self.partitions[*partition];
            let own = self.of.loads[self.of.routes[*partition].owner][*partition] as f64;
            load > self.limit(*partition) && load - own > FOREIGN_SHARE * load
        };
        self.movable()
            .filter(is_too_hot)
            .max_by(|a, b| self.partitions[*a].total_cmp(&self.partitions[*b]))
            .map(|partition| Change::Share { partition })
    }

    /// The partition of the busiest worker that the least busy one should have.
    fn better_owner(&self) -> Option<Change> {
        let load = |worker: &usize| self.workers[*worker];
        let by_load = |a: &usize, b: &usize| load(a).total_cmp(&load(b));
        let busiest = (0..self.workers.len()).max_by(by_load)?;
        let idlest = (0..self.workers.len()).min_by(by_load)?;
        let before = load(&busiest);
        let (threshold, gain) = if self.of.is_moving { (BUSY_ON, GAIN_ON) } else { (BUSY, GAIN) };
        if before <= threshold * self.mean {
            return None;
        }
        let after = |partition: &usize| {
            let load = self.partitions[*partition];
            (before - load).max(self.workers[idlest] + load)
        };
        self.movable()
            .filter(|partition| self.of.routes[*partition].owner == busiest)
            .filter(|partition| before - after(partition) >= gain * self.mean)
            .min_by(|a, b| after(a).total_cmp(&after(b)))
            .map(|partition| Change::Move { partition, owner: idlest })
    }

    /// A partition that was too hot, and is not by far any more.
    fn cooled_down(&self) -> Option<Change> {
        let has_cooled = |partition: &usize| {
            let state = self.of.states[*partition];
            self.of.routes[*partition].access == Access::Crew
                && state.shared
                && !state.resting
                && self.partitions[*partition] < COOL * self.limit(*partition)
        };
        (0..self.of.routes.len()).find(has_cooled).map(|partition| Change::Own { partition })
    }
}
