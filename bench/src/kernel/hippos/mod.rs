//! The experiments that Hippos' design is argued from (dissertation, chapter 3): where in the stack a GET is
//! answered, what a lock costs, misses alone, the packet of the reply, and what latency consists of.

mod latencies;
mod misses;
mod packets;
mod places;
mod runs;
pub(super) mod sink;

use super::{Bench, Options};
use crate::results::measurement::Measurement;

pub(super) use sink::Place;
pub(crate) use sink::{Options as SinkOptions, run as run_sink};

/// Name that all of these cases begin with.
pub(super) const CASE: &str = "kernel/hippos";

pub(super) fn run(options: &Options, bench: &mut Bench, report: &mut Measurement) {
    let experiments = [places::run, runs::run, misses::run, packets::run, latencies::run] as [Experiment; 5];
    for experiment in experiments {
        // A failure keeps the measurements before it.
        let done = experiment(options, bench, report);
        report.part(done);
    }
}

type Experiment = fn(&Options, &mut Bench, &mut Measurement) -> crate::Result<()>;
