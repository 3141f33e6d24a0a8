//! Tables behind the kernel's UDP: one server core, one client core, in turns, beside our own server.

use std::time::Duration;

use super::table::{HASH_SEED, TableKind};
use super::{Load, Options, SEED};
use crate::Result;
use crate::generator::load::{Generator, Load as _};
use crate::generator::packets::{Packets, Protocol, Shape, Terms};
use crate::generator::sockets::Datagrams;
use crate::harness::servers::Server;
use crate::harness::system;
use crate::results::measurement::Measurement;

const WINDOW: usize = 256;

pub(super) fn run(
    options: &Options,
    [server_cpu, client_cpu]: [usize; 2],
    report: &mut Measurement,
) -> Result<()> {
    let mut cases = Vec::new();
    for load in Load::ALL {
        for (batch, fit) in [(0, "as many as fit"), (1, "1")] {
            let name = load.name(&format!("over UDP, {fit} per datagram"));
            // The extremes will do.
            let is_extreme = load.is_extreme() && batch == 0;
            if options.common.wants(&name) && (is_extreme || !options.common.quick) {
                cases.push((name, load, batch));
            }
        }
    }
    if cases.is_empty() {
        return Ok(());
    }
    if server_cpu == client_cpu {
        report.note("one CPU only: server and client share it");
    }
    system::pin(client_cpu)?;
    let mut servers = Vec::new();
    for kind in TableKind::ALL {
        let what = (kind.word(), kind.name());
        servers.push(Server::table(what, options.items(), server_cpu)?);
    }
    let own = Server::native(&options.server, &["-m", "4096"], server_cpu)?;
    own.fill(options.items())?;
    servers.push(own);
    for (name, load, batch) in cases {
        let shape = Shape {
            protocol: Protocol::Native,
            batch,
            get_percent: load.get_percent,
            popularity: load.popularity,
            partition: None,
        };
        let contenders: Result<Vec<_>> =
            servers.iter().map(|server| Contender::new(options, server, &shape)).collect();
        measure(options, &name, &mut contenders?, report)?;
    }
    Ok(())
}

fn measure(
    options: &Options,
    name: &str,
    contenders: &mut [Contender<'_>],
    report: &mut Measurement,
) -> Result<()> {
    let rounds = options.common.rounds();
    // The first round only warms up.
    for round in 0..=rounds {
        eprint!("\r{name}, round {round} of {rounds}   ");
        for contender in contenders.iter_mut() {
            contender.slice(options, round > 0)?;
        }
    }
    eprintln!();
    let (ours, others) = contenders.split_at(1);
    report.value(name, &ours[0].server.name, "requests/s", &ours[0].rates);
    for other in others {
        let peer = &other.server.name;
        report.value(name, peer, "requests/s", &other.rates);
        let metric = (name, "requests", "requests/s");
        report.beside(metric, &ours[0].rates, peer, &other.rates);
    }
    Ok(())
}

/// A server with the load of a case.
struct Contender<'a> {
    server: &'a Server,
    packets: Packets,
    client: Generator<Datagrams>,
    rates: Vec<f64>,
}

impl<'a> Contender<'a> {
    fn new(options: &Options, server: &'a Server, shape: &Shape) -> Result<Self> {
        let mut client = Generator::new(Datagrams::new(server.udp(), true)?);
        let terms = match server.is_whole() {
            true => client.terms(Duration::from_secs(1))?,
            false => Terms { hash_seed: HASH_SEED, ..Terms::default() },
        };
        let requests = if options.common.quick { 1 << 19 } else { 1 << 20 };
        let count = if shape.batch == 1 { requests } else { requests / 32 };
        Ok(Self {
            server,
            packets: Packets::new(shape, options.items(), terms, count, SEED),
            client,
            rates: Vec::new(),
        })
    }

    fn slice(&mut self, options: &Options, counts: bool) -> Result<()> {
        let duration = Duration::from_millis(if options.common.quick { 150 } else { 400 });
        let tally = self.client.closed(&mut self.packets, false, WINDOW, duration)?;
        tally.check(&self.server.name, self.packets.batch())?;
        if counts {
            self.rates.push(tally.per_second());
        }
        Ok(())
    }
}
