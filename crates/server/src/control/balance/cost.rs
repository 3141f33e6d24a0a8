//! Time that the requests of a period took: their number, times what a sample of them took.

use micanite_engine::{Access, Route};

use crate::telemetry::costs::Samples;

/// Timed requests and their nanoseconds.
type Timed = (u64, u64);

/// Returns nanoseconds by asking worker, then by partition, as the numbers of requests are given. A request
/// costs what its partition's did on the worker that executes it. Where none was timed it costs what any of
/// that worker did, or else of any worker; without any sample, a nanosecond, so that numbers count.
pub fn costs(requests: &[Vec<u64>], routes: &[Route], samples: &[Samples]) -> Vec<Vec<u64>> {
    let of_workers: Vec<Timed> = samples.iter().map(|of| sum(of.partitions.iter())).collect();
    let of_all = sum(of_workers.iter());
    let rests: Vec<f64> =
        samples.iter().zip(&of_workers).map(|(of, (requests, _))| ratio(of.rest_ns, *requests)).collect();
    let rest_of_all = ratio(samples.iter().map(|of| of.rest_ns).sum(), of_all.0);
    let price = |worker: usize, partition: usize| {
        let (own, of_worker) = (samples[worker].partitions[partition], of_workers[worker]);
        match (own, of_worker, of_all) {
            ((1.., _), ..) => ratio(own.1, own.0) + rests[worker],
            (_, (1.., _), _) => ratio(of_worker.1, of_worker.0) + rests[worker],
            (_, _, (1.., _)) => ratio(of_all.1, of_all.0) + rest_of_all,
            _ => 1.0,
        }
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

fn ratio(ns: u64, requests: u64) -> f64 {
    if requests == 0 { 0.0 } else { ns as f64 / requests as f64 }
}
