//! Divides the workers among the interfaces, each worker to one only: as a running server has divided them,
//! or in blocks, as a server will.

use std::net::IpAddr;

use super::options::Worker;

/// Interface at which a running server has a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the interface, or an address, as the server was told.
    pub name: String,
    /// Addresses of the interface that the server answers at.
    pub addresses: Vec<IpAddr>,
}

/// The workers of each interface, and the order of the interfaces in which a server makes the same blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    pub of: Vec<Vec<Worker>>,
    pub order: Vec<usize>,
}

/// Blocks of workers, as even as can be, the larger ones first. A block goes to an interface of the NUMA node
/// of its first worker, if one is left.
pub fn share(workers: &[Worker], nodes: &[Option<usize>]) -> Shares {
    let (each, over) = (workers.len() / nodes.len(), workers.len() % nodes.len());
    let mut of = vec![Vec::new(); nodes.len()];
    let mut order: Vec<usize> = Vec::new();
    let mut rest = workers;
    for number in 0..nodes.len() {
        let (block, others) = rest.split_at(each + usize::from(number < over));
        rest = others;
        let node = block.first().and_then(|worker| worker.node);
        let left = |interface: &usize| !order.contains(interface);
        let near = (0..nodes.len()).filter(left).find(|at| node.is_some() && nodes[*at] == node);
        let far = || (0..nodes.len()).find(left);
        if let Some(interface) = near.or_else(far) {
            of[interface] = block.to_vec();
            order.push(interface);
        }
    }
    Shares { of, order }
}

/// The workers that a server has at each of these interfaces, which have names and addresses.
pub fn of_server(workers: &[Worker], places: &[Place], interfaces: &[(&str, Vec<IpAddr>)]) -> Shares {
    let is_at = |place: &Place, (name, addresses): &(&str, Vec<IpAddr>)| {
        let named = place.name.strip_prefix("xdp:").unwrap_or(&place.name);
        named == *name || place.addresses.iter().any(|ip| addresses.contains(ip))
    };
    let its = |interface| {
        let here = workers.iter().filter(|worker| {
            let place = places.get(worker.number);
            place.is_some_and(|place| is_at(place, interface))
        });
        here.copied().collect::<Vec<_>>()
    };
    let of: Vec<_> = interfaces.iter().map(its).collect();
    let mut order: Vec<_> = (0..of.len()).collect();
    order.sort_by_key(|at| of[*at].first().map_or(usize::MAX, |worker| worker.number));
    Shares { of, order }
}
