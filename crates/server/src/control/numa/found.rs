//! The NUMA nodes of the machine and of the workers, as they are found at the start.

use std::io;
use std::sync::Arc;

use micanite_control::Numa;
use micanite_control::nodes::Nodes;
use micanite_engine::WorkerNodes;
use micanite_memory::numa::{NodeSet, nodes_allowed, policy_of_thread};

/// Result of the look at the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// One node, or the kernel does not tell: there is nothing to choose.
    #[default]
    One,
    /// Several nodes, and memory comes from those of the threads that touch it first.
    Unbound { nodes: usize, reason: String, is_refused: bool },
    /// Several nodes, and partitions are to be bound to those of their owners.
    Bound { nodes: usize, workers: Arc<WorkerNodes> },
}

impl Found {
    /// Looks at this machine, for workers at these CPUs. On one node it makes no system call beyond reading a
    /// file.
    pub fn here(choice: Numa, cpus: &[usize]) -> Self {
        Self::of(choice, &Nodes::here(), cpus, policy_of_thread, nodes_allowed)
    }

    /// `policy` and `allowed` ask the kernel for the policy of this process and for its nodes.
    pub(super) fn of(
        choice: Numa,
        nodes: &Nodes,
        cpus: &[usize],
        policy: impl FnOnce() -> io::Result<Option<&'static str>>,
        allowed: impl FnOnce() -> io::Result<NodeSet>,
    ) -> Self {
        let count = nodes.count();
        if count < 2 {
            return Self::One;
        }
        match workers(choice, nodes, cpus, policy, allowed) {
            Ok(workers) => Self::Bound { nodes: count, workers: Arc::new(workers) },
            Err(NotBound { reason, is_refused }) => Self::Unbound { nodes: count, reason, is_refused },
        }
    }

    /// Returns the nodes of the workers, if partitions are to be bound.
    pub fn workers(&self) -> Option<Arc<WorkerNodes>> {
        match self {
            Self::Bound { workers, .. } => Some(Arc::clone(workers)),
            Self::One | Self::Unbound { .. } => None,
        }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        match self {
            Self::One => 1,
            Self::Unbound { nodes, .. } | Self::Bound { nodes, .. } => *nodes,
        }
    }
}

/// Reason why partitions are not bound.
struct NotBound {
    reason: String,
    /// The kernel refuses a system call.
    is_refused: bool,
}

impl From<String> for NotBound {
    fn from(reason: String) -> Self {
        Self { reason, is_refused: false }
    }
}

fn workers(
    choice: Numa,
    nodes: &Nodes,
    cpus: &[usize],
    policy: impl FnOnce() -> io::Result<Option<&'static str>>,
    allowed: impl FnOnce() -> io::Result<NodeSet>,
) -> Result<WorkerNodes, NotBound> {
    if choice == Numa::Off {
        return Err("--numa off".to_owned().into());
    }
    let refused = |error: io::Error| {
        let reason = super::refused("get_mempolicy", &error);
        NotBound { reason, is_refused: true }
    };
    if let Some(policy) = policy().map_err(refused)? {
        let reason = format!("the process was started with a policy of its own ({policy}; numactl?)");
        return Err(reason.into());
    }
    let allowed = allowed().map_err(refused)?;
    let node = |cpu: &usize| nodes.of_cpu(*cpu).filter(|node| allowed.contains(*node));
    let workers = WorkerNodes::new(cpus.iter().map(node).collect());
    if workers.all().is_empty() {
        let reason = format!("this process gets memory of nodes {allowed} only, and no worker runs there");
        return Err(reason.into());
    }
    Ok(workers)
}
