//! Parts of a request's time on the server's core, seen from outside: in the kernel, which is nearly all the
//! network's, and in the program (billion-rps, figure 6).

use super::Options;
use super::load::{Client, Data};
use super::sides::{self, Side, Wanted};
use crate::Result;
use crate::harness::system;
use crate::results::measurement::Measurement;

const ITEM_BYTES: usize = 16;

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    const NAME: &str = "parts of a request's time on the server's core";
    if !options.common.wants(NAME) {
        return Ok(());
    }
    let wanted =
        Wanted { native: true, all_memcacheds: false, memcached_udp: true, redis: true, elsewhere: false };
    let sides = sides::start(options, wanted, ITEM_BYTES, cpus[0], report)?;
    let data = Data { set: "tiny", items: options.items() };
    let client = Client::filled(options, cpus, data, &sides)?;
    let single = |side: &Side| match side.url.starts_with("native") || side.url.contains("+udp") {
        true => vec!["--pipeline", "64"],
        false => vec!["--connections", "50"],
    };
    for (shape, batched) in [("one request at a time", false), ("batches", true)] {
        let mut parts = vec![[Vec::new(), Vec::new()]; sides.len()];
        for round in 0..options.common.rounds() {
            eprint!("\r{NAME}, {shape}, round {}   ", round + 1);
            for (side, parts) in sides.iter().zip(&mut parts) {
                let mut flags = match batched {
                    true => side.busy.to_vec(),
                    false => single(side),
                };
                flags.extend(["--get", "95"]);
                let (kernel_ns, program_ns) = request_ns(&client, side, &flags)?;
                parts[0].push(kernel_ns);
                parts[1].push(program_ns);
            }
        }
        eprintln!();
        for (side, parts) in sides.iter().zip(&parts) {
            // memcached takes one request of a datagram.
            if batched && side.url.contains("+udp") {
                continue;
            }
            let case = format!("{NAME}, {shape}, {}", side.name);
            report.value(&case, "kernel", "ns", &parts[0]);
            report.value(&case, "program", "ns", &parts[1]);
        }
    }
    Ok(())
}

/// CPU time of a request in the kernel and in the program.
fn request_ns(client: &Client<'_>, side: &Side, flags: &[&str]) -> Result<(f64, f64)> {
    let pid = side.pid().ok_or("the server runs elsewhere")?;
    let before = system::cpu_ticks(pid)?;
    let figures = client.slice(side, flags)?;
    let after = system::cpu_ticks(pid)?;
    let (user, kernel) = (after.0 - before.0, after.1 - before.1);
    if user + kernel == 0 {
        return Err("slices are too short for parts: give more --seconds".into());
    }
    let request_ns = 1e9 / figures.per_core_second;
    let kernel_part = kernel as f64 / (user + kernel) as f64;
    Ok((request_ns * kernel_part, request_ns * (1.0 - kernel_part)))
}
