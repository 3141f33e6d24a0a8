//! Miss ratios: which eviction policy, with which parameters, keeps the most.
//!
//! Each policy is simulated twice: on payload bytes alone with a perfect index, which is how
//! figures are published; and in a model of the engine where item headers and the index, too,
//! take their bytes out of the capacity. `docs/benchmarks/engine.md` has the results.

mod log;
mod model;
mod one_log;
mod policy;
mod real;
mod reference;
mod simulate;
mod sweep;
mod synthetic;
mod trace;
mod two_logs;

use std::path::{Path, PathBuf};

use clap::Args;
use micanite_engine::Eviction;
use serde::Serialize;

use self::model::Parameters;
use self::policy::{Outcome, Policy};
use self::simulate::{Modelled, S3_FIFO, hashes, modelled, payload_only};
use self::synthetic::Scale;
use self::trace::Trace;
use micanite_trace::simulate::on_all_cores;

use crate::Result;

/// The policies that are compared.
const POLICIES: [&str; 7] = [
    "fifo",
    "lru",
    "alru:0.5",
    "clock:1",
    "clock:2",
    "s3w:0.1,1",
    "s3w:0.1,2",
];
/// The capacities, in percent of the footprint.
const CAPACITIES: [f64; 5] = [1.0, 5.0, 10.0, 25.0, 50.0];
/// Requests of each trace that `--quick` replays.
const QUICK_REQUESTS: usize = 1_000_000;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// At most a million requests of each trace
    #[arg(long)]
    quick: bool,
    /// A trace: CSV 'time, object, size' or oracleGeneral, also compressed by zstd [default:
    /// those that scripts/fetch-traces fetched, and synthetic ones]
    #[arg(long, value_name = "PATH")]
    trace: Vec<PathBuf>,
    /// fifo, lru, alru:SHARE, clock:BITS or clock:BITS:REAPPENDS, s3:SMALL,THRESHOLD, s3w:SMALL,THRESHOLD
    /// [default: a choice of them]
    #[arg(long)]
    policy: Vec<Policy>,
    /// Percent of the footprint [default: 1 5 10 25 50]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    capacity: Vec<f64>,
    /// Where only payload bytes count, count so many more per item
    #[arg(long, value_name = "N", default_value_t = 0)]
    header_bytes: u32,
    /// Vary one parameter of the engine's model at a time, and write no file
    #[arg(long)]
    sweep: bool,
    #[command(flatten)]
    engine: EngineOptions,
}

/// Parameters of the engine's model.
#[derive(Args, Debug)]
struct EngineOptions {
    /// Live items per index entry at which the index grows
    #[arg(long, default_value_t = Parameters::default().load, value_parser = load)]
    load: f64,
    /// Do not grow the index when an insertion finds no spare bucket
    #[arg(long)]
    grow_by_load_only: bool,
    /// One spare bucket for so many buckets
    #[arg(long, value_name = "N", default_value_t = Parameters::default().buckets_per_spare as u16,
        value_parser = clap::value_parser!(u16).range(1..))]
    buckets_per_spare: u16,
    /// The index begins with one bucket for so many bytes of the capacity
    #[arg(long, value_name = "BYTES", default_value_t = Parameters::default().bytes_per_bucket,
        value_parser = clap::value_parser!(u64).range(256..))]
    bytes_per_bucket: u64,
    /// Bytes appended to the small log for which an entry is a ghost, in units of the main log
    #[arg(long, value_name = "SHARE", default_value_t = Parameters::default().ghost_window)]
    ghost_window: f64,
    /// Ghosts in a table of their own that costs nothing
    #[arg(long)]
    perfect_ghosts: bool,
    /// Items that the main log appends again per insertion, at most
    #[arg(long, value_name = "N", default_value_t = Parameters::default().reappends_max)]
    reappends: u32,
    /// Divide the capacity among two to the power of this many partitions
    #[arg(long, value_name = "BITS", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=10))]
    partition_bits: u32,
}

impl EngineOptions {
    fn parameters(&self) -> Parameters {
        Parameters {
            load: self.load,
            grow_on_shortage: !self.grow_by_load_only,
            buckets_per_spare: usize::from(self.buckets_per_spare),
            bytes_per_bucket: self.bytes_per_bucket,
            ghost_window: self.ghost_window,
            perfect_ghosts: self.perfect_ghosts,
            reappends_max: self.reappends,
            partition_bits: self.partition_bits,
        }
    }
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    let percent = text.parse::<f64>().map_err(|error| error.to_string())?;
    (percent > 0.0 && percent <= 100.0)
        .then_some(percent)
        .ok_or_else(|| "not above 0 and at most 100".to_owned())
}

fn load(text: &str) -> std::result::Result<f64, String> {
    let load = text.parse::<f64>().map_err(|error| error.to_string())?;
    (0.05..=2.0)
        .contains(&load)
        .then_some(load)
        .ok_or_else(|| "not in 0.05 to 2".to_owned())
}

/// A line of `target/bench/misses.json`.
#[derive(Debug, Serialize)]
struct Record {
    trace: String,
    /// `payload` or `engine`.
    frame: &'static str,
    policy: String,
    capacity_percent: f64,
    capacity_bytes: u64,
    object_miss: f64,
    byte_miss: f64,
    moves_per_request: f64,
    /// To the object miss ratio of S3-FIFO on payload bytes.
    ratio_to_s3_fifo: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut records = Vec::new();
    let requests_max = if options.quick {
        QUICK_REQUESTS
    } else {
        usize::MAX
    };
    let files = if options.trace.is_empty() {
        fetched_traces(options.quick)
    } else {
        options.trace.clone()
    };
    for path in &files {
        let trace = Trace::read(path, requests_max)?;
        if reference::covers(&trace) && options.header_bytes == 0 {
            reference::check(&trace)?;
        }
        one_trace(options, &trace, &mut records)?;
    }
    if options.trace.is_empty() {
        let scale = if options.quick {
            Scale::QUICK
        } else {
            Scale::FULL
        };
        for trace in synthetic::all(scale) {
            one_trace(options, &trace, &mut records)?;
        }
    }
    if !records.is_empty() {
        let json = Path::new("target/bench/misses.json");
        std::fs::create_dir_all("target/bench")?;
        std::fs::write(json, serde_json::to_string_pretty(&records)? + "\n")?;
        println!("written: {}", json.display());
    }
    Ok(())
}

/// The folder of `scripts/fetch-traces`: below cargo's target directory of this workspace.
fn traces_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| {
        let here = std::env::current_dir().unwrap_or_default();
        let root = here.ancestors().find(|at| at.join("Cargo.lock").exists());
        root.unwrap_or(&here).join("target")
    });
    target.join("traces")
}

fn fetched_traces(quick: bool) -> Vec<PathBuf> {
    let names = ["twitter_cluster52.csv", "twitter_cluster52_10m.csv.zst"];
    let wanted = if quick { &names[..1] } else { &names };
    let paths = wanted.iter().map(|name| traces_folder().join(name));
    let (there, absent): (Vec<_>, Vec<_>) = paths.partition(|path| path.exists());
    for path in absent {
        eprintln!(
            "note: {} is not there: run scripts/fetch-traces",
            path.display()
        );
    }
    there
}

fn one_trace(options: &Options, trace: &Trace, records: &mut Vec<Record>) -> Result<()> {
    println!(
        "## {}: {} requests, {} objects, footprint {} bytes\n",
        trace.name,
        trace.requests.len(),
        trace.sizes.len(),
        trace.footprint_bytes()
    );
    let capacities = if options.capacity.is_empty() {
        CAPACITIES.to_vec()
    } else {
        options.capacity.clone()
    };
    let s3_fifo = on_all_cores(&capacities, |&percent| {
        payload_only(trace, S3_FIFO, trace.share_bytes(percent), 0).object_miss
    });
    let subject = Subject {
        trace,
        hashes: hashes(trace),
        capacities,
        s3_fifo,
    };
    if options.sweep {
        sweep::sweep(&subject, options.engine.parameters());
    } else {
        compare(options, &subject, records);
        engine_itself(&subject)?;
    }
    Ok(())
}

/// The engine's own policies, on the engine.
fn engine_itself(subject: &Subject) -> Result<()> {
    println!("Everything counted (the engine itself):\n");
    subject.print_header("--eviction");
    for eviction in Eviction::ALL {
        let replayed = on_all_cores(&subject.capacities, |&percent| {
            let capacity = subject.trace.share_bytes(percent);
            real::replay(subject.trace, eviction, capacity).map_err(|error| error.to_string())
        });
        print!("| {} |", eviction.name());
        for (replayed, s3_fifo) in replayed.into_iter().zip(&subject.s3_fifo) {
            match replayed? {
                None => print!(" below the least memory |"),
                Some(of) => print!(
                    " {:.4} x{:.3} ({:.2}, {:.2} % lost) |",
                    of.object_miss,
                    of.object_miss / s3_fifo,
                    of.moves_per_request,
                    of.lost_share * 100.0
                ),
            }
        }
        println!();
    }
    println!();
    Ok(())
}

/// A trace with what all its simulations share.
struct Subject<'a> {
    trace: &'a Trace,
    hashes: Vec<micanite_engine::IndexHash>,
    /// In percent of the footprint.
    capacities: Vec<f64>,
    /// The object miss ratio of S3-FIFO on payload bytes at each.
    s3_fifo: Vec<f64>,
}

impl Subject<'_> {
    fn modelled(&self, policy: Policy, percent: f64, parameters: Parameters) -> Modelled {
        let capacity = self.trace.share_bytes(percent);
        modelled(self.trace, &self.hashes, policy, capacity, parameters)
    }

    fn print_header(&self, first: &str) {
        let names = self.capacities.iter();
        let names: Vec<_> = names.map(|percent| format!("{percent} %")).collect();
        println!("| {first} | {} |", names.join(" | "));
        println!("|---|{}", "--:|".repeat(names.len()));
    }
}

/// Both frames, policy by policy.
fn compare(options: &Options, subject: &Subject, records: &mut Vec<Record>) {
    let policies = if options.policy.is_empty() {
        let names = POLICIES.iter();
        names.map(|name| name.parse().expect("a policy")).collect()
    } else {
        options.policy.clone()
    };
    let parameters = options.engine.parameters();
    for frame in ["payload", "engine"] {
        let jobs: Vec<(Policy, usize)> = policies
            .iter()
            .flat_map(|&policy| (0..subject.capacities.len()).map(move |at| (policy, at)))
            .collect();
        let outcomes = on_all_cores(&jobs, |&(policy, at)| {
            let percent = subject.capacities[at];
            if frame == "payload" {
                let capacity = subject.trace.share_bytes(percent);
                payload_only(subject.trace, policy, capacity, options.header_bytes)
            } else {
                subject.modelled(policy, percent, parameters).outcome
            }
        });
        println!(
            "{}, object miss ratio x its ratio to S3-FIFO on payload (moves per request):\n",
            if frame == "payload" {
                "Payload bytes only"
            } else {
                "Everything counted (model of the engine)"
            }
        );
        subject.print_header("policy");
        for (of_policy, outcomes) in jobs
            .chunks(subject.capacities.len())
            .zip(outcomes.chunks(subject.capacities.len()))
        {
            print!("| {} |", of_policy[0].0);
            for (&(policy, at), outcome) in of_policy.iter().zip(outcomes) {
                records.push(record(subject, frame, policy, at, *outcome));
                print!(" {} |", cell(outcome, subject.s3_fifo[at]));
            }
            println!();
        }
        println!();
    }
}

fn cell(outcome: &Outcome, s3_fifo: f64) -> String {
    format!(
        "{:.4} x{:.3} ({:.2})",
        outcome.object_miss,
        outcome.object_miss / s3_fifo,
        outcome.moves_per_request
    )
}

fn record(
    subject: &Subject,
    frame: &'static str,
    policy: Policy,
    at: usize,
    outcome: Outcome,
) -> Record {
    let percent = subject.capacities[at];
    Record {
        trace: subject.trace.name.clone(),
        frame,
        policy: policy.to_string(),
        capacity_percent: percent,
        capacity_bytes: subject.trace.share_bytes(percent),
        object_miss: outcome.object_miss,
        byte_miss: outcome.byte_miss,
        moves_per_request: outcome.moves_per_request,
        ratio_to_s3_fifo: outcome.object_miss / subject.s3_fifo[at],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_policies_are_policies() {
        assert!(POLICIES.iter().all(|name| name.parse::<Policy>().is_ok()));
        assert_eq!(POLICIES[6].parse(), Ok(S3_FIFO));
    }

    #[test]
    fn capacities_and_loads_out_of_range_are_refused() {
        assert_eq!(percent("12.5"), Ok(12.5));
        assert!(["0", "101", "x", "NaN"].iter().all(|t| percent(t).is_err()));
        assert_eq!(load("0.8"), Ok(0.8));
        assert!(["0", "3", "x", "NaN"].iter().all(|t| load(t).is_err()));
    }
}
