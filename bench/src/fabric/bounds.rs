//! Bounds of the ways of reading: the provider's bare messages and reads, and a copy of the same size.

use std::ffi::OsString;
use std::hint::black_box;
use std::time::{Duration, Instant};

use super::Options;
use super::pong::Pong;
use super::server::{next_number, place};
use crate::Result;
use crate::harness::namespace;
use crate::results::measurement::Measurement;

/// Sizes by their names in the cases.
pub(super) const SIZES: [(&str, usize); 2] = [("1k", 1 << 10), ("512k", 512 << 10)];
/// Memory that copies come from: more than the caches hold.
const COPIED_BYTES: usize = 256 << 20;
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    for provider in &options.provider {
        if !options.common.wants(&format!("{provider}/bare")) {
            continue;
        }
        let (number, way) = next_number();
        let address = place(provider, &way);
        let command = [
            std::env::current_exe()?.into_os_string(),
            OsString::from("pong"),
            OsString::from("--address"),
            OsString::from(address.to_string()),
        ];
        let mut process = namespace::start_inside((number, "pong"), (), &command, false)?;
        let mut pong = process.wait_until(PATIENCE, || Pong::connect(&address))?;
        for (size, bytes) in SIZES {
            let count = if options.common.quick { 200 } else { 2_000 };
            let (mut messages, mut reads) = (Vec::new(), Vec::new());
            for _ in 0..options.rounds().max(3) {
                messages.push(median_of(count, || pong.message_us(bytes))?);
                reads.push(median_of(count, || pong.read_us(bytes))?);
            }
            let case = format!("{provider}/bare/{size}");
            report.value(&case, "ping-pong, median", "us", &messages);
            report.value(&case, "one-sided read, median", "us", &reads);
        }
    }
    copies(options, report);
    Ok(())
}

/// The median of a number of times, after a few that do not count.
fn median_of(count: usize, mut one: impl FnMut() -> Result<f64>) -> Result<f64> {
    for _ in 0..count / 10 {
        one()?;
    }
    let mut times = (0..count).map(|_| one()).collect::<Result<Vec<_>>>()?;
    times.sort_unstable_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Copies out of memory that is not in a cache.
fn copies(options: &Options, report: &mut Measurement) {
    let from: Vec<u8> = (0..COPIED_BYTES).map(|byte| byte as u8).collect();
    for (size, bytes) in SIZES {
        let mut to = vec![1; bytes];
        // A stride that is no power of two, so that no pattern is guessed.
        let stride = bytes * 37 + 4096;
        let mut at = 0;
        let mut round = || {
            let mut times: Vec<_> = (0..500)
                .map(|_| {
                    at = (at + stride) % (COPIED_BYTES - bytes);
                    let begin = Instant::now();
                    to.copy_from_slice(black_box(&from[at..at + bytes]));
                    black_box(&mut to);
                    begin.elapsed().as_secs_f64() * 1e6
                })
                .collect();
            times.sort_unstable_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let rounds: Vec<_> = (0..options.rounds().max(3)).map(|_| round()).collect();
        report.value(&format!("copy/{size}"), "uncached copy, median", "us", &rounds);
    }
}
