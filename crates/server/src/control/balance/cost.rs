//! Time that the requests of a period took: their number, times what a sample of them took.

use micanite_engine::{Access, Route};

use crate::telemetry::costs::Samples;

/// Timed requests and their nanoseconds.
type Timed = (u64, u64);

/// Returns nanoseconds by asking worker, then by partition, as the numbers of requests are given.
/// `datagrams`: how many of these came in datagrams of the native protocol, by asking worker. A request costs
/// what its partition's did on the worker that executes it, and one of a datagram its part of the rest, too,
/// which is the same for all workers. A worker's datagrams are taken to ask for its partitions as all of its
/// requests do. Where no request was timed it costs what any of that worker did, or else of any worker;
/// without any sample, a nanosecond, so that numbers count.
pub fn costs(
    requests: &[Vec<u64>],
    datagrams: &[u64],
    routes: &[Route],
    samples: &[Samples],
) -> Vec<Vec<u64>> {
    let of_workers: Vec<Timed> = samples.iter().map(|of| sum(of.partitions.iter())).collect();
    let of_all = sum(of_workers.iter());
    let rest = samples.iter().fold((0, 0), |rest, of| (rest.0 + of.datagram_requests, rest.1 + of.rest_ns));
    let rests: Vec<f64> = requests
        .iter()
        .zip(datagrams)
        .map(|(requests, datagrams)| {
            // Refused requests of datagrams count among these alone.
            let share = (*datagrams as f64 / requests.iter().sum::<u64>().max(1) as f64).min(1.0);
            share * mean_ns(rest)
        })
        .collect();
    let price = |worker: usize, partition: usize| {
        let known = [samples[worker].partitions[partition], of_workers[worker], of_all];
        let timed = known.into_iter().find(|(requests, _)| *requests > 0);
        timed.map_or(0.0, mean_ns)
    };
    let cost = |asking: usize, partition: usize| {
        let route = routes[partition];
        let worker = if route.access == Access::Erew { route.owner } else { asking };
        // Even what takes no measurable time is a request.
        (requests[asking][partition] as f64 * (price(worker, partition) + rests[asking]).max(1.0)) as u64
    };
    let of_worker = |asking| (0..routes.len()).map(|partition| cost(asking, partition)).collect();
    (0..requests.len()).map(of_worker).collect()
}

fn sum<'a>(timed: impl Iterator<Item = &'a Timed>) -> Timed {
    timed.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn mean_ns((requests, ns): Timed) -> f64 {
    if requests == 0 { 0.0 } else { ns as f64 / requests as f64 }
}
