//! Requests per second of one server core: Micanite, the bare echo of the same packets, memcached.

use std::time::Duration;

use micanite_workload::Popularity;

use super::Options;
use crate::Result;
use crate::generator::load::{Generator, Load, Tally};
use crate::generator::packets::{Packets, Protocol, Shape, Terms};
use crate::generator::sockets::Datagrams;
use crate::harness::servers::Server;
use crate::harness::system;
use crate::results::measurement::Measurement;

const SEED: u64 = 11;
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// A load, and how its packets travel.
struct Case {
    name: String,
    shape: Shape,
    offload: bool,
    window: usize,
}

/// A server with the load of a case.
struct Contender<'a> {
    server: &'a Server,
    packets: Packets,
    client: Generator<Datagrams>,
    window: usize,
    per_second: Vec<f64>,
    per_core_second: Vec<f64>,
    busy: Vec<f64>,
    burst: Vec<f64>,
}

/// All filled.
pub(super) struct Servers<'a> {
    pub plain: &'a Server,
    pub offloaded: &'a Server,
    pub memcached: &'a Server,
}

pub(super) fn run(
    options: &Options,
    servers: &Servers<'_>,
    cpu: usize,
    report: &mut Measurement,
) -> Result<()> {
    let echo = [Server::echo(false, cpu)?, Server::echo(true, cpu)?];
    let memcached = servers.memcached;
    for case in cases(options) {
        let ours = if case.offload { servers.offloaded } else { servers.plain };
        let bare = &echo[usize::from(case.offload)];
        let single = Case {
            name: String::new(),
            shape: Shape { protocol: Protocol::Memcached, batch: 1, ..case.shape },
            offload: false,
            window: 256,
        };
        let mut contenders = vec![
            Contender::new(&case, ours, options)?,
            Contender::new(&case, bare, options)?,
            Contender::new(&single, memcached, options)?,
        ];
        if case.shape.batch == 16 && case.shape.get_percent == 100 {
            let shape = Shape { batch: 16, ..single.shape };
            let multi = Case { shape, ..single };
            contenders.push(Contender::new(&multi, memcached, options)?);
        }
        measure(&case.name, &mut contenders, options)?;
        record(&case, &contenders, report);
    }
    Ok(())
}

fn cases(options: &Options) -> Vec<Case> {
    let mut cases = Vec::new();
    let laws = [("uniform", Popularity::Uniform), ("zipf 0.99", Popularity::Zipf(0.99))];
    for (law, popularity) in laws {
        for get_percent in [100, 95, 50] {
            for offload in [false, true] {
                for batch in [1, 4, 16, 32, 0] {
                    // Multi-gets have no sets among them.
                    if get_percent == 100 && batch != 16 {
                        continue;
                    }
                    let fit = match batch {
                        0 => "as many as fit".into(),
                        batch => format!("{batch} per datagram"),
                    };
                    let way = if offload { "GRO" } else { "plain" };
                    cases.push(Case {
                        name: format!("{law}, {get_percent} % GET, {fit}, {way}"),
                        shape: Shape {
                            protocol: Protocol::Native,
                            batch,
                            get_percent,
                            popularity,
                            partition: None,
                        },
                        offload,
                        window: 256,
                    });
                }
            }
        }
    }
    cases.retain(|case| options.common.wants(&case.name));
    cases
}

impl<'a> Contender<'a> {
    fn new(case: &Case, server: &'a Server, options: &Options) -> Result<Self> {
        let mut client = Generator::new(Datagrams::new(server.udp(), case.offload)?);
        let terms = match case.shape.protocol {
            Protocol::Native if !server.echoes => client.terms(ANSWER_TIME_MAX)?,
            _ => Terms::default(),
        };
        let requests = if options.common.quick { 1 << 19 } else { 1 << 21 };
        let count = requests / case.shape.batch.max(1);
        Ok(Self {
            server,
            packets: Packets::new(&case.shape, options.items(), terms, count, SEED),
            client,
            window: case.window,
            per_second: Vec::new(),
            per_core_second: Vec::new(),
            busy: Vec::new(),
            burst: Vec::new(),
        })
    }

    fn load(&mut self, duration: Duration) -> Result<Tally> {
        let (echoed, window) = (self.server.echoes, self.window);
        self.client.closed(&mut self.packets, echoed, window, duration)
    }

    fn slice(&mut self, duration: Duration) -> Result<()> {
        let before = self.server.bursts()?;
        let before_ns = system::cpu_time_ns(self.server.pid())?;
        let tally = self.load(duration)?;
        let cpu_s = (system::cpu_time_ns(self.server.pid())? - before_ns) as f64 / 1e9;
        tally.check(&self.server.name, self.packets.batch())?;
        self.per_second.push(tally.per_second());
        self.per_core_second.push(tally.succeeded as f64 / cpu_s);
        self.busy.push(cpu_s / tally.elapsed_s);
        let after = self.server.bursts()?;
        self.burst.push((after.0 - before.0) as f64 / (after.1 - before.1) as f64);
        Ok(())
    }
}

fn measure(name: &str, contenders: &mut [Contender<'_>], options: &Options) -> Result<()> {
    let duration = Duration::from_millis(if options.common.quick { 300 } else { 500 });
    for round in 0..options.common.rounds() {
        eprint!("\r{name}, round {} of {}   ", round + 1, options.common.rounds());
        for contender in contenders.iter_mut() {
            if round == 0 {
                contender.load(duration / 4)?;
            }
            contender.slice(duration)?;
        }
    }
    eprintln!();
    Ok(())
}

fn record(case: &Case, contenders: &[Contender<'_>], report: &mut Measurement) {
    let (ours, peers) = contenders.split_at(1);
    for peer in peers {
        let peer_name = match (peer.server.echoes, peer.packets.batch()) {
            (true, _) => peer.server.name.clone(),
            (false, 1) => format!("{} UDP, one GET", peer.server.name),
            (false, batch) => format!("{} UDP, multi-gets of {batch}", peer.server.name),
        };
        let metric = (case.name.as_str(), "per server-core-second", "requests");
        report.beside(metric, &ours[0].per_core_second, &peer_name, &peer.per_core_second);
    }
    report.value(&case.name, "throughput", "requests/s", &ours[0].per_second);
    report.value(&case.name, "server core busy", "", &ours[0].busy);
    report.value(&case.name, "burst", "datagrams", &ours[0].burst);
}
