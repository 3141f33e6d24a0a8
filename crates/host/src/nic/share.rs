//! Divides the workers among the interfaces, each worker to one only.

use super::options::Worker;

/// The workers of each interface. Every interface gets as many as every other, give or take one;
/// within that, a worker goes to an interface of its own NUMA node.
pub fn share(workers: &[Worker], nodes: &[Option<usize>]) -> Vec<Vec<Worker>> {
    let mut shares = vec![Vec::new(); nodes.len()];
    let (each, over) = (workers.len() / nodes.len(), workers.len() % nodes.len());
    let mut room: Vec<_> = (0..nodes.len()).map(|interface| each + usize::from(interface < over)).collect();
    let mut far = Vec::new();
    for worker in workers {
        let near = |interface: usize| worker.node.is_some() && nodes[interface] == worker.node;
        match roomiest(&room, near) {
            Some(interface) => take(&mut shares, &mut room, interface, worker),
            None => far.push(worker),
        }
    }
    for worker in far {
        // There is as much room as there are workers.
        if let Some(interface) = roomiest(&room, |_| true) {
            take(&mut shares, &mut room, interface, worker);
        }
    }
    for share in &mut shares {
        share.sort_by_key(|worker| worker.number);
    }
    shares
}

/// The first of the interfaces in question that have the most room left.
fn roomiest(room: &[usize], in_question: impl Fn(usize) -> bool) -> Option<usize> {
    let candidates = (0..room.len()).filter(|at| room[*at] > 0 && in_question(*at));
    candidates.rev().max_by_key(|at| room[*at])
}

fn take(shares: &mut [Vec<Worker>], room: &mut [usize], interface: usize, worker: &Worker) {
    shares[interface].push(*worker);
    room[interface] -= 1;
}
