//! Latencies: by command in full, by worker with fewer buckets.

use std::fmt::Display;

use super::super::exposition::Exposition;
use super::families;
use crate::shared::Shared;
use crate::telemetry::latency::{BUCKETS, Class, HistogramSum, Transport, bound_ns};

/// Every so many buckets there is one of a worker.
const COARSE: usize = 4;

pub(super) fn write(shared: &Shared, to: &mut Exposition) {
    to.family(&families::REQUEST_DURATION);
    for transport in transports(shared) {
        for class in Class::ALL {
            let mut sum = HistogramSum::default();
            for worker in &shared.latency {
                worker.of(transport, class).add_to(&mut sum);
            }
            let labels: [(&str, &dyn Display); 2] =
                [("command", &class.name()), ("transport", &transport.name())];
            histogram(to, &labels, &sum, 1);
        }
    }
    to.family(&families::WORKER_REQUEST_DURATION);
    for (number, worker) in shared.latency.iter().enumerate() {
        let mut sum = HistogramSum::default();
        for transport in transports(shared) {
            for class in Class::ALL {
                worker.of(transport, class).add_to(&mut sum);
            }
        }
        histogram(to, &[("worker", &number)], &sum, COARSE);
    }
}

/// Returns the transports that the server has.
pub(in crate::telemetry::admin) fn transports(shared: &Shared) -> impl Iterator<Item = Transport> {
    let is_there = |transport: &Transport| match transport {
        Transport::Stream => true,
        Transport::Native => shared.native.is_some(),
        Transport::Udp => shared.udp.is_some(),
        Transport::Fabric => shared.fabric.is_some(),
    };
    Transport::ALL.into_iter().filter(is_there)
}

/// A histogram; of each `step` buckets, the last names the bound.
fn histogram(to: &mut Exposition, labels: &[(&str, &dyn Display)], of: &HistogramSum, step: usize) {
    let (bounded, above) = of.buckets.split_at(BUCKETS);
    // The first bucket is alone, as what follows comes in powers of two.
    let (first, rest) = bounded.split_at(1);
    let groups = std::iter::once(first).chain(rest.chunks(step));
    let mut last = 0;
    let bounds = groups.map(|group| {
        last += group.len();
        (bound_ns(last - 1) as f64 / 1e9, group.iter().sum())
    });
    to.histogram(labels, bounds, above[0], of.sum_ns as f64 / 1e9);
}
