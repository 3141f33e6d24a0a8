//! State that decisions keep from one period to the next.

use std::collections::VecDeque;

use micanite_engine::{Access, Route};

use super::decide::{Change, PartitionState, Situation, decide};

/// Decisions are made on the sum of so many periods, so that noise evens out.
const WINDOW_PERIODS: usize = 3;
/// A partition that has changed does not change again within so many periods.
const REST_PERIODS: u32 = 10;

/// A period's load.
#[derive(Clone, Debug, Default)]
pub struct Period {
    /// Requests.
    pub requests: u64,
    /// Their load by asking worker, then by partition.
    pub loads: Vec<Vec<u64>>,
}

/// Decides, period by period.
#[derive(Debug)]
pub struct Balancer {
    window: VecDeque<Period>,
    /// Periods for which each partition still rests.
    rests: Vec<u32>,
    /// Partitions that were turned to CREW here.
    shared: Vec<bool>,
    is_moving: bool,
}

impl Balancer {
    /// For so many partitions.
    pub fn new(partitions: usize) -> Self {
        Self {
            window: VecDeque::with_capacity(WINDOW_PERIODS),
            rests: vec![0; partitions],
            shared: vec![false; partitions],
            is_moving: false,
        }
    }

    /// Forgets the loads, after a time in which nobody asked for decisions.
    pub fn pause(&mut self) {
        self.window.clear();
    }

    /// A person has changed the route: it rests as after a change of its own. A mode that a person chose
    /// stays.
    pub fn changed_by_hand(&mut self, partition: usize, mode: bool) {
        self.rests[partition] = REST_PERIODS;
        self.shared[partition] &= !mode;
    }

    /// Takes the load of one more period, and the routes as they are. Returns what to change; it is taken
    /// as changed.
    pub fn period(&mut self, period: Period, routes: &[Route]) -> Option<Change> {
        if self.window.len() == WINDOW_PERIODS {
            self.window.pop_front();
        }
        self.window.push_back(period);
        let mut states = Vec::with_capacity(routes.len());
        for (partition, route) in routes.iter().enumerate() {
            // Another party may have changed the route since.
            self.shared[partition] &= route.access == Access::Crew;
            self.rests[partition] = self.rests[partition].saturating_sub(1);
            states
                .push(PartitionState { resting: self.rests[partition] > 0, shared: self.shared[partition] });
        }
        if self.window.len() < WINDOW_PERIODS {
            return None;
        }
        let Period { requests, loads } = self.mean();
        let is_moving = self.is_moving;
        let change = decide(Situation { requests, loads: &loads, routes, states: &states, is_moving });
        self.is_moving = matches!(change, Some(Change::Move { .. }));
        let change = change?;
        self.rests[change.partition()] = REST_PERIODS;
        self.shared[change.partition()] = matches!(change, Change::Share { .. });
        Some(change)
    }

    fn mean(&self) -> Period {
        let mut sum = self.window[0].clone();
        for period in self.window.iter().skip(1) {
            sum.requests += period.requests;
            for (into, from) in sum.loads.iter_mut().zip(&period.loads) {
                into.iter_mut().zip(from).for_each(|(into, from)| *into += from);
            }
        }
        let periods = self.window.len() as u64;
        sum.requests /= periods;
        sum.loads.iter_mut().flatten().for_each(|load| *load /= periods);
        sum
    }
}
