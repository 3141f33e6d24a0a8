//! Routes of partitions: reading and changing them, and the right to write for a moment.

use micanite_memory::sync::Ordering;

use crate::access::{Access, Route};
use crate::cache::Cache;
use crate::writer::Writer;

impl Cache {
    /// Returns mode and owner of a partition as they were set last; `None` if there is no such partition.
    pub fn route(&self, partition: usize) -> Option<Route> {
        self.partitions.get(partition).map(|partition| partition.route.load())
    }

    /// Returns the requests that a worker has executed for a partition since the start. One worker
    /// has no counters, because its load needs no balance.
    pub fn load(&self, worker: usize, partition: usize) -> u64 {
        let loads = self.loads.get(worker);
        let load = loads.and_then(|loads| loads.get(partition));
        load.map_or(0, |load| load.load(Ordering::Relaxed))
    }

    /// Returns the number of route changes. A later [`Cache::route`] reflects all of them.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Changes mode and owner of a partition while requests run; returns when it is done. Do not
    /// call it from a [`crate::ReplySink`], nor on the thread of a worker that others may be
    /// waiting for.
    ///
    /// # Errors
    /// The partition or the worker does not exist, or the worker has ended.
    pub fn set_route(&self, partition: usize, route: Route) -> Result<(), RouteError> {
        let workers = self.handles_free.len();
        if route.owner >= workers {
            return Err(RouteError::NoSuchWorker { workers });
        }
        let partitions = self.partitions.len();
        let Some(of) = self.partitions.get(partition) else {
            return Err(RouteError::NoSuchPartition { partitions });
        };
        let _changing = self.changing.wait(|| {});
        if route.access != Access::Crcw && self.ended[route.owner].load(Ordering::Acquire) {
            let worker = route.owner;
            return Err(RouteError::WorkerEnded { worker });
        }
        of.route.change(route, &self.epochs, || {});
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Runs `run` with the right to write a partition, whoever owns it: shares the partition for
    /// the moment, and leaves the route as it is. Calls `idle` while it waits.
    pub(crate) fn with_writer<R>(
        &self,
        partition: usize,
        now_s: u32,
        mut idle: impl FnMut(),
        run: impl FnOnce(&Writer<'_>) -> R,
    ) -> R {
        let partition = &self.partitions[partition];
        let _changing = self.changing.wait(&mut idle);
        partition.route.share_while(&self.epochs, &mut idle, || run(&partition.writer(now_s)))
    }

    /// Shares the partitions of a worker that ends.
    pub(crate) fn share_partitions_of(&self, worker: usize, mut idle: impl FnMut()) {
        let _changing = self.changing.wait(&mut idle);
        self.ended[worker].store(true, Ordering::Release);
        for partition in &self.partitions {
            let route = partition.route.load();
            if route.owner == worker && route.access != Access::Crcw {
                let access = Access::Crcw;
                let shared = Route { access, ..route };
                partition.route.change(shared, &self.epochs, &mut idle);
                self.generation.fetch_add(1, Ordering::Release);
            }
        }
    }
}

/// A route that cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// Partitions are numbered from 0 to one less than this.
    NoSuchPartition {
        /// Number of partitions.
        partitions: usize,
    },
    /// Workers are numbered from 0 to one less than this.
    NoSuchWorker {
        /// Number of workers.
        workers: usize,
    },
    /// The worker has ended, so the partition would have no owner that answers.
    WorkerEnded {
        /// The number of the worker.
        worker: usize,
    },
}

impl std::fmt::Display for RouteError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSuchPartition { partitions } => {
                write!(formatter, "no such partition: they are 0 to {}", partitions - 1)
            }
            Self::NoSuchWorker { workers } => {
                write!(formatter, "no such worker: they are 0 to {}", workers - 1)
            }
            Self::WorkerEnded { worker } => write!(formatter, "worker {worker} has ended"),
        }
    }
}

impl std::error::Error for RouteError {}
