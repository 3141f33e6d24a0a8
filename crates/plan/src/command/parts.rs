//! The parts of a plan that stand alone.

use micanite_workload::trace::Failure;
use serde::Serialize;

use super::options::{BatchingOptions, HottestOptions, PaperOptions};
use super::output::{json, say};
use super::progress::Progress;
use crate::law::Law;
use crate::model::batching::delay_us;
use crate::model::hottest::Hottest;
use crate::paper;

/// More partitions are no plan.
const PARTITIONS_MAX: u64 = 1 << 16;
const ITEMS_MAX: u64 = 1 << 50;

/// Fewer give no percentiles, and more take hours.
const REQUESTS: std::ops::RangeInclusive<u64> = 1_000..=10_000_000_000;

/// Refuses a number of simulated requests that makes no sense.
pub fn check_requests(requests: u64) -> Result<(), Failure> {
    if REQUESTS.contains(&requests) {
        return Ok(());
    }
    let (least, most) = (REQUESTS.start(), REQUESTS.end());
    Err(Failure::usage(format!("--requests is {requests}: it must be {least} to {most}")))
}

/// `micanite plan hottest`.
pub fn hottest(options: &HottestOptions) -> Result<(), Failure> {
    if options.partitions == 0 || options.partitions > PARTITIONS_MAX {
        let said = format!("--partitions is {}: it must be 1 to {PARTITIONS_MAX}", options.partitions);
        return Err(Failure::usage(said));
    }
    if options.items == 0 || options.items > ITEMS_MAX {
        return Err(Failure::usage(format!("--items is {}: it must be 1 to 2^50", options.items)));
    }
    if options.zipf > 3.0 {
        return Err(Failure::usage(format!("--zipf is {}: it must be 0 to 3", options.zipf)));
    }
    let found = Hottest::new(options.partitions, &Law::new(options.items, options.zipf), options.seed);
    if options.json {
        return say(&json(&found)?);
    }
    let maximum = &found.maximum;
    say(&format!(
        "hottest of {} partitions over the mean: {:.3} expected (the hottest key gets {:.3} % of all)\n\
         maximum over {} random hashes: mean {:.3}, least {:.3}, 5 % {:.3}, median {:.3}, 95 % {:.3}, \
         greatest {:.3}\n",
        found.partitions,
        found.expected_over_mean,
        found.top_key_share * 100.0,
        maximum.hashes,
        maximum.mean,
        maximum.least,
        maximum.p5,
        maximum.p50,
        maximum.p95,
        maximum.greatest
    ))
}

/// Delay of batching, and what it is computed from.
#[derive(Serialize)]
struct Delay {
    client_rate: f64,
    fan_out: f64,
    partitions: f64,
    batch: u32,
    delay_us: f64,
}

/// `micanite plan batching`.
pub fn batching(options: &BatchingOptions) -> Result<(), Failure> {
    let BatchingOptions { client_rate, fan_out, partitions, batch, .. } = *options;
    let positive = [("--client-rate", client_rate), ("--fan-out", fan_out), ("--partitions", partitions)];
    for (name, value) in positive {
        if !(value > 0.0 && value <= 1e15) {
            return Err(Failure::usage(format!("{name} is {value}: it must be above 0, and at most 10^15")));
        }
    }
    if batch == 0 {
        return Err(Failure::usage("--batch is 0: a datagram has at least one request"));
    }
    let delay = Delay {
        client_rate,
        fan_out,
        partitions,
        batch,
        delay_us: delay_us(client_rate, fan_out, partitions, batch),
    };
    if options.json {
        return say(&json(&delay)?);
    }
    say(&format!("a request waits {:.3} us at the client for the others of its datagram\n", delay.delay_us))
}

/// `micanite plan paper`.
pub fn paper(options: &PaperOptions) -> Result<(), Failure> {
    check_requests(options.requests)?;
    let mut progress = Progress::new(options.json);
    let checks = paper::all(options.requests, &mut |done| progress.at("latency", done));
    drop(progress);
    if options.json {
        return say(&json(&checks)?);
    }
    say(&paper::text(&checks))
}
