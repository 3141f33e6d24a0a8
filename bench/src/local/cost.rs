//! Costs of readers for the server: idle ones, and 100 that read beside a writer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Options;
use super::place::{BYTES, Place, store};
use crate::Result;
use crate::engine::contenders::bytes;
use crate::harness::popularity::Popularity;
use crate::harness::system;
use crate::results::measurement::Measurement;

const ITEMS: u64 = 1 << 20;
const MEMORY_BYTES: usize = 256 << 20;
const READERS: usize = 100;
const IDLE: Duration = Duration::from_secs(2);
const IDLE_CASE: &str = "100 idle readers";
const WRITER_CASE: &str = "a writer beside 100 readers";

pub(super) fn run(options: &Options, cpus: [usize; 2], report: &mut Measurement) -> Result<()> {
    let [server_cpu, client_cpu] = cpus;
    if !options.common.wants(IDLE_CASE) && !options.common.wants(WRITER_CASE) {
        return Ok(());
    }
    let server = Place::start(&options.binaries.server, MEMORY_BYTES, server_cpu)?;
    server.fill(ITEMS)?;
    let pid = server.process.id();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..options.common.rounds() {
        without.push(idle(pid)?);
        let links = (0..READERS).map(|_| server.link()).collect::<Result<Vec<_>>>()?;
        // After the attaching, which is work.
        std::thread::sleep(IDLE);
        with.push(idle(pid)?);
        drop(links);
        std::thread::sleep(Duration::from_millis(200));
    }
    report.value(IDLE_CASE, "CPU time of the server without them", "us/s", &without);
    report.value(IDLE_CASE, "CPU time of the server with them", "us/s", &with);
    if cpus[0] == cpus[1] {
        report.note("a writer beside readers was not measured: one CPU");
        return Ok(());
    }
    beside_readers(options, &server, client_cpu, report)
}

/// Microseconds of CPU time of a process in a second.
fn idle(pid: u32) -> Result<f64> {
    let (began, before_ns) = (Instant::now(), system::cpu_time_ns(pid)?);
    std::thread::sleep(IDLE);
    let spent_ns = system::cpu_time_ns(pid)? - before_ns;
    Ok(spent_ns as f64 / 1e3 / began.elapsed().as_secs_f64())
}

/// SETs, 256 in flight, and their cost for the server, in turns without readers and with 100 of them: one
/// thread that reads by all in turn, on the CPU of the writer.
fn beside_readers(
    options: &Options,
    server: &Place,
    client_cpu: usize,
    report: &mut Measurement,
) -> Result<()> {
    // Writer and readers share a CPU, so the kernel has to divide it evenly.
    system::make_normal();
    let mut links = (0..READERS).map(|_| server.link()).collect::<Result<Vec<_>>>()?;
    let mut writer = server.link()?;
    let sets = Popularity::Uniform.draw(ITEMS, if options.common.quick { 1 << 18 } else { 1 << 20 }, 5);
    let gets = Popularity::Zipf.draw(ITEMS, 1 << 20, 6);
    let (is_on, is_over, reads) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let (mut alone_ns, mut beside_ns, mut read_rates) = (Vec::new(), Vec::new(), Vec::new());
    std::thread::scope(|scope| -> Result<()> {
        let (is_on, is_over, reads, gets) = (&is_on, &is_over, &reads, &gets);
        scope.spawn(move || {
            let _ = system::pin(client_cpu);
            let mut value = Vec::new();
            let mut at = 0;
            while !is_over.load(Ordering::Relaxed) {
                if !is_on.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                for link in &mut links {
                    for item in &gets[at..at + 16] {
                        let key: [u8; BYTES] = bytes(*item);
                        // A reader that fails shows in the rate.
                        let found = link.get(&key, &mut value).is_ok_and(|found| found.is_some());
                        reads.fetch_add(u64::from(found), Ordering::Relaxed);
                    }
                    at = (at + 16) % (gets.len() - 16);
                }
            }
        });
        let pid = server.process.id();
        let mut measure = || -> Result<f64> {
            let before_ns = system::cpu_time_ns(pid)?;
            store(&mut writer, sets.iter().copied())?;
            Ok((system::cpu_time_ns(pid)? - before_ns) as f64 / sets.len() as f64)
        };
        let measured = (0..=options.common.rounds()).try_for_each(|round| -> Result<()> {
            eprint!("\r{WRITER_CASE} round {round}   ");
            let alone = measure()?;
            is_on.store(true, Ordering::Relaxed);
            let (began, before) = (Instant::now(), reads.load(Ordering::Relaxed));
            let beside = measure()?;
            let read = (reads.load(Ordering::Relaxed) - before) as f64;
            is_on.store(false, Ordering::Relaxed);
            if round > 0 {
                alone_ns.push(alone);
                beside_ns.push(beside);
                read_rates.push(read / began.elapsed().as_secs_f64() / 1e6);
            }
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        eprintln!();
        measured
    })?;
    let what = (WRITER_CASE, "CPU time of the server for a SET", "ns");
    report.beside(what, &beside_ns, "without readers", &alone_ns);
    report.value(WRITER_CASE, "GETs of the readers meanwhile", "M/s", &read_rates);
    Ok(())
}
