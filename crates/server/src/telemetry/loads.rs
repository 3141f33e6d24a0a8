//! Requests by worker and partition: the input of balancing.
//!
//! The engine counts what a worker executes by itself. What it has the owner of a partition
//! execute (EREW) is counted here, by the worker that asks.

use std::sync::atomic::{AtomicBool, Ordering};

use micanite_engine::{Access, Cache, Request};

use crate::telemetry::table::Counter;

/// Requests that workers have other workers execute.
#[derive(Debug)]
pub struct Loads {
    /// By asking worker, then by partition; a worker writes its own alone.
    delegated: Box<[Box<[Counter]>]>,
    /// There is, or was, a partition that only its owner reads.
    has_exclusive: AtomicBool,
}

impl Loads {
    /// Nothing was counted yet.
    pub fn new(workers: usize, cache: &Cache) -> Self {
        let partitions = cache.layout().partitions;
        let of_worker = |_| (0..partitions).map(|_| Counter::default()).collect();
        let loads =
            Self { delegated: (0..workers).map(of_worker).collect(), has_exclusive: AtomicBool::new(false) };
        let mut routes = (0..partitions).filter_map(|partition| cache.route(partition));
        if workers > 1 && routes.any(|route| route.access == Access::Erew) {
            loads.expect_exclusive();
        }
        loads
    }

    /// Notes that a partition becomes one that only its owner reads.
    pub fn expect_exclusive(&self) {
        self.has_exclusive.store(true, Ordering::Relaxed);
    }

    /// Counts requests that a worker has just executed, if the engine did not.
    #[inline]
    pub fn count(&self, cache: &Cache, worker: usize, requests: &[Request<'_>]) {
        if self.has_exclusive.load(Ordering::Relaxed) {
            self.count_delegated(cache, worker, requests);
        }
    }

    fn count_delegated(&self, cache: &Cache, worker: usize, requests: &[Request<'_>]) {
        for request in requests {
            let partition = cache.partition_of(request.hash);
            let is_elsewhere = cache
                .route(partition)
                .is_some_and(|route| route.access == Access::Erew && route.owner != worker);
            if is_elsewhere {
                self.delegated[worker][partition].add(1);
            }
        }
    }

    /// Requests so far, by asking worker, then by partition.
    pub fn now(&self, cache: &Cache) -> Vec<Vec<u64>> {
        let of = |worker: usize, partition: usize| {
            self.delegated[worker][partition].get() + cache.load(worker, partition)
        };
        let partitions = cache.layout().partitions;
        (0..self.delegated.len())
            .map(|worker| (0..partitions).map(|partition| of(worker, partition)).collect())
            .collect()
    }
}
