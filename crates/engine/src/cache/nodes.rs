//! NUMA: partitions in the memory of their owners' nodes.
//!
//! A partition that one worker owns (EREW, CREW) prefers the node of that worker. One that every worker uses
//! (CRCW) is interleaved over the nodes of all workers. The whole partition has one policy: items, and the
//! index, which grows from its end.

use std::io;

use micanite_memory::numa::{Moved, NodeSet, Policy, with_policy};

use crate::access::{Access, Route};
use crate::cache::Cache;
use crate::cache::config::Config;
use crate::partition::Partition;

/// The NUMA nodes of the workers' CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerNodes {
    /// None for a worker whose node gives this process no memory.
    nodes: Box<[Option<u16>]>,
    all: NodeSet,
}

impl WorkerNodes {
    /// Takes the node of each worker, in order.
    pub fn new(nodes: Vec<Option<u16>>) -> Self {
        let all = nodes.iter().flatten().copied().collect();
        Self { nodes: nodes.into(), all }
    }

    /// Returns the node of a worker, if it has one with memory.
    pub fn of(&self, worker: usize) -> Option<u16> {
        self.nodes.get(worker).copied().flatten()
    }

    /// Returns the nodes of all workers.
    pub fn all(&self) -> NodeSet {
        self.all
    }

    /// Returns the policy for a partition with this route. None leaves the choice to the kernel.
    pub fn policy(&self, route: Route) -> Option<Policy> {
        match route.access {
            Access::Crcw if self.all.len() > 1 => Some(Policy::Interleave(self.all)),
            Access::Crcw => self.all.iter().next().map(Policy::Prefer),
            Access::Erew | Access::Crew => self.of(route.owner).map(Policy::Prefer),
        }
    }
}

/// Result of binding all partitions at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Partitions that have a policy now.
    pub partitions: usize,
    /// Partitions that could not be bound, each with the number of the kernel's error.
    pub failed: Vec<(usize, i32)>,
}

impl Config {
    /// Returns the route of a partition at the start.
    pub(crate) fn first_route(&self, partition: usize) -> Route {
        let access = if self.workers == 1 { Access::Erew } else { self.access };
        Route { access, owner: partition % self.workers }
    }

    fn first_policy(&self, partition: usize) -> Option<Policy> {
        self.nodes.as_ref()?.policy(self.first_route(partition))
    }

    /// Makes the memory of a partition: what `make` touches comes from the nodes that the partition will
    /// have.
    pub(crate) fn on_nodes_of<R>(&self, partition: usize, make: impl FnOnce() -> R) -> R {
        match self.first_policy(partition) {
            Some(policy) => with_policy(&policy, make),
            None => make(),
        }
    }

    /// Binds new partitions. Memory of maps is the kernel's, which has chosen its node already.
    pub(super) fn bind_all(&self, partitions: &[Partition]) -> Bound {
        let mut bound = Bound::default();
        if self.maps.is_some() {
            return bound;
        }
        for (number, partition) in partitions.iter().enumerate() {
            let Some(policy) = self.first_policy(number) else {
                continue;
            };
            match partition.region.bind(Some(&policy)) {
                Ok(()) => bound.partitions += 1,
                Err(error) => bound.failed.push((number, error.raw_os_error().unwrap_or(0))),
            }
        }
        bound
    }
}

impl Cache {
    /// Returns the nodes of the workers ([`Config::nodes`]).
    pub fn worker_nodes(&self) -> Option<&WorkerNodes> {
        self.config.nodes.as_deref()
    }

    /// Returns what became of binding at the start.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Lets pages of a partition that are touched from now on come by a policy, or by that of the thread
    /// which touches them. No such partition: does nothing.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn bind(&self, partition: usize, policy: Option<&Policy>) -> io::Result<()> {
        self.partitions.get(partition).map_or(Ok(()), |partition| partition.region.bind(policy))
    }

    /// Moves pages of a part of a partition to where a policy wants them, while requests run
    /// (`Region::move_by_policy`).
    ///
    /// # Errors
    /// Returns the kernel's error, if it moves nothing at all.
    pub fn move_memory(
        &self,
        partition: usize,
        first_byte: usize,
        bytes: usize,
        policy: &Policy,
    ) -> io::Result<Moved> {
        let Some(of) = self.partitions.get(partition) else {
            return Ok(Moved::default());
        };
        // It touches pages that it has found present.
        let _pin = of.pages.pin();
        match of.region.move_by_policy(first_byte, bytes, policy, self.config.readers) {
            // Without the right to move pages of several processes, those of this one move.
            Err(error) if self.config.readers && error.kind() == io::ErrorKind::PermissionDenied => {
                of.region.move_by_policy(first_byte, bytes, policy, false)
            }
            moved => moved,
        }
    }

    /// Returns the nodes of a sample of a partition's pages, as far as they are present.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn sample_nodes(&self, partition: usize, samples: usize) -> io::Result<Vec<u16>> {
        let of = self.partitions.get(partition);
        of.map_or(Ok(Vec::new()), |partition| partition.region.nodes_of_samples(samples))
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;
    use crate::tests::support::Client;
    use crate::{Outcome, Semantics};
    use micanite_memory::numa::nodes_allowed;
    use std::sync::Arc;

    const EINVAL: i32 = 22;

    fn route(access: Access, owner: usize) -> Route {
        Route { access, owner }
    }

    /// Gives all partitions to worker 0, and returns it.
    fn owner_of_all(cache: &Arc<Cache>) -> Client {
        let partitions = 0..cache.layout().partitions;
        partitions.for_each(|number| cache.set_route(number, route(Access::Erew, 0)).unwrap());
        Client::new(cache, 0)
    }

    #[test]
    fn a_partition_follows_its_owner_and_a_shared_one_is_interleaved() {
        let nodes = WorkerNodes::new(vec![Some(0), Some(2), None]);
        for access in [Access::Erew, Access::Crew] {
            assert_eq!(nodes.policy(route(access, 1)), Some(Policy::Prefer(2)));
            assert_eq!(nodes.policy(route(access, 2)), None);
            assert_eq!(nodes.policy(route(access, 9)), None);
        }
        let both = Policy::Interleave([0, 2].into_iter().collect());
        assert_eq!(nodes.policy(route(Access::Crcw, 2)), Some(both));
        let one = WorkerNodes::new(vec![Some(1), Some(1)]);
        assert_eq!(one.policy(route(Access::Crcw, 0)), Some(Policy::Prefer(1)));
        assert_eq!(WorkerNodes::new(vec![None, None]).policy(route(Access::Crcw, 0)), None);
    }

    /// Memory of every kind is bound to this machine's node by the real calls, holds items, and moves there.
    #[test]
    fn memory_of_every_kind_is_bound() {
        let here = nodes_allowed().unwrap().iter().next().unwrap();
        let directory = std::env::temp_dir().join(format!("micanite-nodes-{}", std::process::id()));
        for (semantics, readers, image) in [
            (Semantics::Cache, false, None),
            (Semantics::Store, true, None),
            (Semantics::Cache, false, Some(&directory)),
            (Semantics::Cache, true, Some(&directory)),
        ] {
            let config = Config {
                memory_bytes: 64 << 20,
                workers: 2,
                access: Access::Erew,
                semantics,
                readers,
                image: image.cloned(),
                nodes: Some(Arc::new(WorkerNodes::new(vec![Some(here), Some(here)]))),
                ..Config::default()
            };
            let cache = Arc::new(Cache::new(&config).unwrap());
            let partitions = cache.layout().partitions;
            assert_eq!(*cache.bound(), Bound { partitions, failed: Vec::new() });
            let mut client = owner_of_all(&cache);
            assert_eq!(client.set(b"key", b"value"), Outcome::Stored);
            for partition in 0..partitions {
                let bytes = cache.layout().partition_bytes;
                let moved = cache.move_memory(partition, 0, bytes, &Policy::Prefer(here)).unwrap();
                assert!(moved.in_place > 0 && moved.moved + moved.failed() == 0, "{moved:?}");
                let sampled = cache.sample_nodes(partition, 64).unwrap();
                assert!(!sampled.is_empty() && sampled.iter().all(|node| *node == here));
            }
            assert_eq!(client.get(b"key"), Some(b"value".to_vec()));
            cache.close().unwrap();
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    /// A node that the kernel does not have leaves the partition unbound, and the cache works.
    #[test]
    fn a_cache_works_without_its_nodes() {
        let allowed = nodes_allowed().unwrap();
        let missing = (0..1024).rev().find(|node| !allowed.contains(*node));
        let here = allowed.iter().next();
        let nodes = Some(Arc::new(WorkerNodes::new(vec![here, missing])));
        let config =
            Config { memory_bytes: 64 << 20, workers: 2, access: Access::Erew, nodes, ..Config::default() };
        let cache = Arc::new(Cache::new(&config).unwrap());
        assert_eq!(*cache.bound(), Bound { partitions: 1, failed: vec![(1, EINVAL)] });
        let mut client = owner_of_all(&cache);
        assert_eq!(client.set(b"key", b"value"), Outcome::Stored);
        let policy = Policy::Prefer(missing.unwrap());
        assert!(cache.move_memory(0, 0, 1 << 20, &policy).is_err());
        assert_eq!(client.get(b"key"), Some(b"value".to_vec()));
    }
}
