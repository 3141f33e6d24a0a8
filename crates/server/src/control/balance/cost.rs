//! Time that the requests of a period took: their number, times what a sample of them took.

use micanite_engine::{Access, Route};

use crate::telemetry::costs::Samples;

/// Timed requests and their nanoseconds.
type Timed = (u64, u64);

/// Returns nanoseconds by asking worker, then by partition, as the numbers of requests are given. A
/// request costs what its partition's did on the worker that executes it, and its part of the rest of all
/// workers. Where none was timed it costs what any of that worker did, or else of any worker; without any
/// sample, a nanosecond, so that numbers count.
pub fn costs(requests: &[Vec<u64>], routes: &[Route], samples: &[Samples]) -> Vec<Vec<u64>> {
    let of_workers: Vec<Timed> = samples.iter().map(|of| sum(of.partitions.iter())).collect();
    let of_all = sum(of_workers.iter());
    let rest = samples.iter().fold((0, 0), |rest, of| (rest.0 + of.requests, rest.1 + of.rest_ns));
    let price = |worker: usize, partition: usize| {
        let known = [samples[worker].partitions[partition], of_workers[worker], of_all];
        let timed = known.into_iter().find(|(requests, _)| *requests > 0);
        timed.map_or(0.0, mean_ns) + mean_ns(rest)
    };
    let cost = |asking: usize, partition: usize| {
        let route = routes[partition];
        let worker = if route.access == Access::Erew { route.owner } else { asking };
        // Even what takes no measurable time is a request.
        (requests[asking][partition] as f64 * price(worker, partition).max(1.0)) as u64
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
