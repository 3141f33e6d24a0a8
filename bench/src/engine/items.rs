//! Throughput and memory against the number of tiny items, beside hashbrown: from what fits the CPU's
//! caches to MICA's 192 Mi.

use std::time::Instant;

use clap::Args;

use super::contenders::{Contender, Micanite, SET, config_of};
use super::peers::Hashbrown;
use super::throughput::{slice, store};
use crate::harness::popularity::{Popularity, Random};
use crate::results::measurement::Measurement;
use crate::{Common, Result};

/// Bytes of tiny keys and values.
const BYTES: usize = 8;
const SIZES: [u64; 8] = [1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 192 << 20];
const GET_PERCENT: u64 = 95;
/// Bytes of a bucket of the peer: key, value and a byte of its tags.
const PEER_BYTES: u64 = 17;

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    /// The most items (default 192 Mi, quick 16 Mi)
    #[arg(long)]
    pub most: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let (mut report, _) = options.common.begin("items")?;
    let default = if options.common.quick { 16 << 20 } else { 192 << 20 };
    let most = options.most.unwrap_or(default);
    for items in SIZES.into_iter().filter(|items| *items <= most) {
        let needed = memory_of_ours(items) as u64 + buckets_of_peer(items) * PEER_BYTES;
        let available = available_bytes()?;
        if needed > available / 10 * 9 {
            report.note(left_out(items, needed, available));
            continue;
        }
        if options.common.wants(&format!("{items} items")) {
            one(options, items, &mut report)?;
        }
    }
    report.finish()
}

/// Explains that a number of items does not fit.
fn left_out(items: u64, needed: u64, available: u64) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    format!(
        "{} Mi items were left out: they take {:.1} GiB of memory in both tables, and {:.1} GiB are free \
         here",
        items >> 20,
        gib(needed),
        gib(available)
    )
}

fn memory_of_ours(items: u64) -> usize {
    config_of::<BYTES, BYTES>(items, 1).memory_bytes
}

/// A power of two, at most seven eighths of which are used.
const fn buckets_of_peer(items: u64) -> u64 {
    (items * 8 / 7 + 1).next_power_of_two()
}

/// Memory that is available on the machine, or to this process's control group.
fn available_bytes() -> Result<u64> {
    let info = std::fs::read_to_string("/proc/meminfo")?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kibibytes = kibibytes.ok_or("/proc/meminfo does not tell what is available")?;
    let of_machine = kibibytes.trim().parse::<u64>()? << 10;
    let of_group = micanite_server::memory_limit_bytes().map_or(u64::MAX, |bytes| bytes as u64);
    Ok(of_machine.min(of_group))
}

/// Resident memory of this process.
fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kibibytes = kibibytes.ok_or("/proc/self/status does not tell what is resident")?;
    Ok(kibibytes.trim().parse::<u64>()? << 10)
}

fn one(options: &Options, items: u64, report: &mut Measurement) -> Result<()> {
    let count = if options.common.quick { 1 << 20 } else { 4 << 20 };
    let loads = [Popularity::Uniform, Popularity::Zipf].map(|law| (law, draw(law, items, count)));
    let config = config_of::<BYTES, BYTES>(items, 1);
    let mut ours = filled(items, report, || Micanite::<BYTES, BYTES>::new(&config))?;
    let mut peer = filled(items, report, || Ok(Hashbrown::<BYTES, BYTES>::new(items)))?;
    let mut rates = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    let rounds = options.common.rounds();
    // The first round warms up, and does not count.
    for round in 0..=rounds {
        for ((law, operations), rates) in loads.iter().zip(&mut rates) {
            eprint!("\r{items} items, {}, round {round} of {rounds}   ", law.name());
            let contenders: [&mut dyn Contender; 2] = [&mut ours, &mut peer];
            for (contender, rates) in contenders.into_iter().zip(rates) {
                let (rate, _) = slice(contender, operations)?;
                if round > 0 {
                    rates.push(rate * 1e6);
                }
            }
        }
    }
    eprintln!();
    for ((law, _), [ours, theirs]) in loads.iter().zip(&rates) {
        let case = format!("{items} items, {}, {GET_PERCENT} % GET", law.name());
        let unit = "operations/s";
        for (name, rates) in [("micanite", ours), (peer.name(), theirs)] {
            report.value(&case, &format!("throughput, {name}"), unit, rates);
        }
        report.beside((&case, "throughput", unit), ours, peer.name(), theirs);
    }
    Ok(())
}

fn draw(law: Popularity, items: u64, count: usize) -> Vec<u32> {
    let mut operations = law.draw(items, count, 31);
    let mut random = Random::new(32);
    for operation in &mut operations {
        if random.below(100) >= GET_PERCENT {
            *operation |= SET;
        }
    }
    operations
}

/// A contender with all items, and what that took.
fn filled<C: Contender>(items: u64, report: &mut Measurement, new: impl FnOnce() -> Result<C>) -> Result<C> {
    let (before, began) = (resident_bytes()?, Instant::now());
    let mut contender = new()?;
    const STEP: u64 = 1 << 23;
    for first in (0..items).step_by(STEP as usize) {
        let percent = first * 100 / items;
        eprint!("\r{items} items, filling {}: {percent} %   ", contender.name());
        store(&mut contender, first..items.min(first + STEP));
    }
    let seconds = began.elapsed().as_secs_f64();
    let bytes = resident_bytes()?.saturating_sub(before) as f64 / items as f64;
    let (case, name) = (format!("{items} items"), contender.name());
    report.value(&case, &format!("memory, {name}"), "bytes per item", &[bytes]);
    report.value(&case, &format!("filling, {name}"), "s", &[seconds]);
    Ok(contender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_measured_and_has_its_memory() {
        assert!(available_bytes().unwrap() > 0);
        assert_eq!(buckets_of_peer(7), 16);
        assert_eq!(
            left_out(192 << 20, 15 << 30, 9 << 29),
            "192 Mi items were left out: they take 15.0 GiB of memory in both tables, and 4.5 GiB are free \
             here"
        );
        let common = Common { quick: true, case: Vec::new(), rounds: Some(1), no_real_time: true };
        let options = Options { common, most: None };
        let mut report = Measurement::new("items");
        one(&options, 1 << 12, &mut report).unwrap();
        let value = |metric: &str| {
            let record = report.records().iter().find(|record| record.metric == metric);
            record.unwrap().value
        };
        assert!(value("throughput, micanite") > 0.0);
        assert!(value("memory, micanite") < 1e6);
        let ratios = report.records().iter().filter(|record| record.ratio.is_some());
        assert_eq!(ratios.count(), 2);
    }
}
