//! Latency at half of a server's own peak, without client batching: open loop, counted from the
//! time that a request was due.

use std::path::Path;
use std::time::Duration;

use micanite_workload::Popularity;

use super::blaster::Blaster;
use super::servers::Server;
use super::{Options, directory};
use crate::Result;
use crate::measurement::Measurement;
use crate::packets::{Packets, Protocol, Shape, Terms};
use crate::statistics::median;

const NAME: &str = "latency at half of the peak";
const SEED: u64 = 12;
const WINDOW: usize = 256;

/// Starts servers of its own, so that they have the priority that this process has by now.
pub(super) fn run(
    options: &Options,
    (memcached, cpu): (&Path, usize),
    report: &mut Measurement,
) -> Result<()> {
    if !options.common.wants(NAME) {
        return Ok(());
    }
    let memory = ["-m", "2048"];
    let without = [&memory[..], &["--native-gro", "off"]].concat();
    let ours = Server::micanite(&options.server, &without, cpu)?;
    let theirs = Server::memcached(memcached, &memory, cpu)?;
    for server in [&ours, &theirs] {
        server.fill(options.items())?;
    }
    let servers = [&ours, &theirs];
    for (law, popularity) in [
        ("uniform", Popularity::Uniform),
        ("zipf 0.99", Popularity::Zipf(0.99)),
    ] {
        let name = format!("{NAME}, {law}, 95 % GET");
        let mut sides = Vec::new();
        for (server, protocol) in servers
            .into_iter()
            .zip([Protocol::Native, Protocol::Memcached])
        {
            let shape = Shape {
                protocol,
                batch: 1,
                get_percent: 95,
                popularity,
                partition: None,
            };
            sides.push(Side::new(options, server, &shape)?);
        }
        for round in 0..options.common.rounds() {
            eprint!(
                "\r{name}, round {} of {}   ",
                round + 1,
                options.common.rounds()
            );
            for side in &mut sides {
                side.round(options)?;
            }
        }
        eprintln!();
        let [ours, theirs] = &sides[..] else {
            continue;
        };
        let peer = format!("{} UDP", theirs.server.name);
        for (metric, ours, theirs) in [
            ("p50", &ours.p50_us, &theirs.p50_us),
            ("p99", &ours.p99_us, &theirs.p99_us),
            ("p99.9", &ours.p999_us, &theirs.p999_us),
        ] {
            report.beside((&name, metric, "us"), ours, &peer, theirs);
        }
        for side in [ours, theirs] {
            let metric = format!("rate of {}", side.server.name);
            report.value(&name, &metric, "requests/s", &side.rates);
            let metric = format!("lost by {}", side.server.name);
            report.value(&name, &metric, "%", &side.lost);
        }
    }
    Ok(())
}

struct Side<'a> {
    server: &'a Server,
    packets: Packets,
    blaster: Blaster,
    peaks: Vec<f64>,
    rates: Vec<f64>,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    p999_us: Vec<f64>,
    lost: Vec<f64>,
}

impl<'a> Side<'a> {
    fn new(options: &Options, server: &'a Server, shape: &Shape) -> Result<Self> {
        let blaster = Blaster::new(false)?;
        let terms = match shape.protocol {
            Protocol::Native => directory::fetch(server.udp, blaster.socket())?,
            Protocol::Memcached => Terms::default(),
        };
        Ok(Self {
            packets: Packets::new(shape, options.items(), terms, 1 << 19, SEED),
            server,
            blaster,
            peaks: Vec::new(),
            rates: Vec::new(),
            p50_us: Vec::new(),
            p99_us: Vec::new(),
            p999_us: Vec::new(),
            lost: Vec::new(),
        })
    }

    /// The peak, then half of what the peaks were so far.
    fn round(&mut self, options: &Options) -> Result<()> {
        let target = (self.server.udp, false);
        let (packets, blaster) = (&mut self.packets, &mut self.blaster);
        let duration = Duration::from_millis(if options.common.quick { 300 } else { 1000 });
        let tally = blaster.closed(packets, target, WINDOW, duration)?;
        tally.check(&self.server.name, 1)?;
        self.peaks.push(tally.per_second());
        let rate = median(&self.peaks) / 2.0;
        let tally = blaster.open(packets, target, rate, duration)?;
        self.lost.push(tally.lost_ratio() * 100.0);
        self.rates.push(tally.per_second());
        let latencies = &mut blaster.latency_ns;
        // What is lost takes for ever.
        latencies.resize(tally.sent_datagrams as usize, u32::MAX);
        latencies.sort_unstable();
        let at = |quantile: f64| {
            let place = (latencies.len().saturating_sub(1) as f64 * quantile) as usize;
            f64::from(latencies.get(place).copied().unwrap_or(u32::MAX)) / 1000.0
        };
        self.p50_us.push(at(0.5));
        self.p99_us.push(at(0.99));
        self.p999_us.push(at(0.999));
        Ok(())
    }
}
