//! Chooses the queues of an interface for workers, and for everything else.

use super::options::Worker;
use crate::machine::cpus::Cpus;
use crate::machine::facts::{InterfaceFacts, MachineFacts};

/// The queues of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Receive queues in all.
    pub queues: usize,
    /// Queues below this number are left to everything else; 0: all queues serve both.
    pub others: usize,
    /// Each worker and its queue.
    pub workers: Vec<(Worker, usize)>,
    /// The CPUs for the interrupts of the queues that are left to everything else.
    pub other_cpus: Vec<usize>,
}

impl Layout {
    /// Chooses. `spare` are the CPUs without a worker.
    pub fn choose(facts: &InterfaceFacts, workers: &[Worker], spare: &Cpus, machine: &MachineFacts) -> Self {
        let other_cpus = near(spare, facts.node, machine);
        let (queues, others) = divide(facts, workers.len(), other_cpus.len());
        // Fewer queues than workers: some share one.
        let own = (queues - others).max(1);
        Self {
            queues,
            others,
            workers: workers.iter().enumerate().map(|(at, worker)| (*worker, others + at % own)).collect(),
            other_cpus,
        }
    }

    /// Queues that have a worker, with the CPUs of their workers.
    pub fn queues_of_workers(&self) -> impl Iterator<Item = (usize, Cpus)> {
        let queues: Cpus = self.workers.iter().map(|(_, queue)| *queue).collect();
        queues.into_iter().map(|queue| (queue, self.cpus_of(queue)))
    }

    /// The queues for everything else, with the CPU for the interrupts of each.
    pub fn queues_of_others(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.others).zip(self.other_cpus.iter().copied().cycle())
    }

    /// The queues for everything else, with the CPUs that send through each: all that have no
    /// worker of this interface.
    pub fn senders_of_others(&self, machine: &MachineFacts) -> Vec<(usize, Cpus)> {
        let mut senders: Vec<_> = (0..self.others).map(|queue| (queue, Cpus::new())).collect();
        let taken: Cpus = self.workers.iter().map(|(worker, _)| worker.cpu).collect();
        let free = machine.online.difference(&taken);
        for (at, cpu) in free.enumerate().take_while(|_| self.others > 0) {
            senders[at % self.others].1.insert(*cpu);
        }
        senders.retain(|(_, cpus)| !cpus.is_empty());
        senders
    }

    fn cpus_of(&self, queue: usize) -> Cpus {
        let own = self.workers.iter().filter(|(_, found)| *found == queue);
        own.map(|(worker, _)| worker.cpu).collect()
    }
}

/// Chooses the number of queues, and how many of them are for everything else.
///
/// Everything else gets queues of its own only where that is better: with flow rules (without
/// them, the workers' datagrams are spread like the rest), with a table that keeps the rest away,
/// and with CPUs that have no worker. It gets no more queues than the workers have: each costs
/// cache.
fn divide(facts: &InterfaceFacts, workers: usize, spare_cpus: usize) -> (usize, usize) {
    let may_part = facts.rules.is_ok() && facts.rss.is_ok() && spare_cpus > 0;
    match &facts.channels {
        Ok(channels) => {
            let left = channels.queues_max.saturating_sub(workers);
            let others = match may_part {
                true => left.min(spare_cpus).min(workers),
                false => 0,
            };
            (channels.queues_max.min(workers + others), others)
        }
        Err(_) => {
            let queues = facts.queues.max(1);
            let left = queues.saturating_sub(workers);
            (queues, if may_part { left } else { 0 })
        }
    }
}

/// The CPUs that are near to a node, or all where none is or the node is not known.
fn near(cpus: &Cpus, node: Option<usize>, machine: &MachineFacts) -> Vec<usize> {
    let own = node.and_then(|node| machine.nodes.get(&node));
    let near: Vec<_> = own.map_or_else(Vec::new, |own| cpus.intersection(own).copied().collect());
    match near.is_empty() {
        true => cpus.iter().copied().collect(),
        false => near,
    }
}
