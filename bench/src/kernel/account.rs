//! Precision of the account of the core's time: idle time of /proc/stat, CPU time of threads, and what a loop
//! of the lowest priority leaves, beside each other at the same rate.

use std::time::Duration;

use super::latency::slice;
use super::servers::{Kind, Server};
use super::sides::Side;
use super::{Bench, Options, tiny};
use crate::Result;
use crate::harness::process::Process;
use crate::harness::system;
use crate::results::measurement::Measurement;

const CASE: &str = "kernel/account";
const ITEMS: u64 = 1 << 16;
/// Rate that every server answers with half of its core.
const RATE: f64 = 80e3;
const KINDS: [Kind; 3] = [Kind::Memcached, Kind::KernelGet, Kind::Reflect];

pub(super) fn run(options: &Options, bench: &mut Bench, report: &mut Measurement) -> Result<()> {
    if !options.common.wants(CASE) {
        return Ok(());
    }
    let mut servers = bench.start(&KINDS, 64, report)?;
    let rounds = options.common.rounds().min(5);
    let duration = Duration::from_millis(if options.common.quick { 300 } else { 600 });
    let spinner = Spinner::start(bench.cpus[0])?;
    for (at, server) in servers.iter_mut().enumerate() {
        eprint!("\r{CASE} {}   ", server.kind.name());
        tiny::fill(server, ITEMS)?;
        let ring = tiny::gets(server, ITEMS, 1 << 16)?;
        let mut side = Side::new(at, server.kind.name(), ring);
        let [mut stat, mut threads, mut left] = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            spinner.pause();
            let round = slice(server, &mut side, RATE, duration)?;
            stat.push(round.usage.utilisation() * 100.0);
            threads.push(round.usage.threads_s / round.usage.elapsed_s * 100.0);
            left.push(spinner.beside(server, &mut side, duration)? * 100.0);
        }
        let case = format!("{CASE}/{}", side.name);
        report.value(&case, "busy_by_proc_stat", "% of the core", &stat);
        report.value(&case, "busy_by_threads", "% of the core", &threads);
        report.value(&case, "busy_beside_a_loop", "% of the core", &left);
    }
    eprintln!();
    Ok(())
}

/// A loop that uses the idle time of a core.
pub(super) struct Spinner(Process);

impl Spinner {
    pub fn start(cpu: usize) -> Result<Self> {
        let spin = ["chrt", "--idle", "0", "sh", "-c", "while :; do :; done"];
        let process = Process::start("spinner", &spin.map(Into::into), cpu, false)?;
        process.pause();
        Ok(Self(process))
    }

    pub fn pause(&self) {
        self.0.pause();
    }

    /// If it has ended, its time stands still, which shows.
    pub fn resume(&self) {
        self.0.resume();
    }

    /// The share of the core that a load does not leave to the loop.
    fn beside(&self, server: &mut Server, side: &mut Side, duration: Duration) -> Result<f64> {
        self.resume();
        let before_ns = system::cpu_time_ns(self.0.id())?;
        let began = std::time::Instant::now();
        let round = slice(server, side, RATE, duration);
        let elapsed_ns = began.elapsed().as_nanos() as f64;
        let got_ns = (system::cpu_time_ns(self.0.id())? - before_ns) as f64;
        self.0.pause();
        round.map(|_| 1.0 - got_ns / elapsed_ns)
    }
}
