//! Gain of request direction (MICA 5.5): clients aim at the owner of a key, beside clients
//! that aim at any core and cores that hand requests over through rings.
//!
//! Two workers on two cores, fed from memory: no client and no network take part, as with a
//! network card that delivers for nothing.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use micanite_engine::Worker;
use micanite_server::native::{Cookies, Origin, Outbox, RingEnds, Round, Source, Taken, pop, push, rings};
use micanite_server::session::Context;
use micanite_server::shared;
use micanite_wire::native::PAYLOAD_BYTES;
use micanite_workload::Popularity;

use super::Options;
use crate::Result;
use crate::generator::packets::{Packets, Protocol, Shape, Terms};
use crate::harness::in_process::{self, NOW_S};
use crate::harness::system;
use crate::results::measurement::Measurement;

/// Start of the cases' names.
const NAME: &str = "request direction on two cores, fed from memory";
const WORKERS: usize = 2;
const BURST: usize = 32;
const SEED: u64 = 14;

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    if !options.common.wants(NAME) {
        return Ok(());
    }
    if cpus.len() < WORKERS {
        report.note("one CPU only: request direction was not measured");
        return Ok(());
    }
    let server = Arc::new(Server::new(options.items())?);
    let zipf = Popularity::Zipf(0.99);
    // The paper's load was of 50 % GET.
    for (law, popularity, get_percent, of_the_paper) in [
        ("uniform", Popularity::Uniform, 50, Some(33.9 / 76.9)),
        ("uniform", Popularity::Uniform, 95, None),
        ("zipf 0.99", zipf, 50, Some(28.1 / 70.4)),
        ("zipf 0.99", zipf, 95, None),
    ] {
        let name = format!("{NAME}, {law}, {get_percent} % GET");
        let load = (popularity, get_percent);
        let (mut directed, mut any_core) = (Vec::new(), Vec::new());
        for round in 0..options.common.rounds() {
            eprint!("\r{name}, round {} of {}   ", round + 1, options.common.rounds());
            directed.push(server.measure(options, cpus, load, true)?);
            any_core.push(server.measure(options, cpus, load, false)?);
        }
        eprintln!();
        let metric = (name.as_str(), "by rings over directed", "requests/s");
        report.beside(metric, &any_core, "directed by the client", &directed);
        report.value(&name, "directed", "requests/s", &directed);
        if let Some(ratio) = of_the_paper {
            report.value(&name, "the paper's ratio, 16 cores", "", &[ratio]);
        }
    }
    Ok(())
}

/// Two workers' worth of a server, without sockets.
struct Server {
    state: Arc<shared::Server>,
    /// Kept: a worker that is dropped gives its partitions to the others.
    workers: Vec<Mutex<Worker>>,
    terms: Terms,
    peer: SocketAddr,
    items: u64,
}

impl Server {
    fn new(items: u64) -> Result<Self> {
        let state = in_process::server(WORKERS, "1g")?;
        let cache = Arc::clone(&state.shared.cache);
        let native = state.shared.native.as_ref().ok_or("no native protocol")?;
        let peer = SocketAddr::from(([127, 0, 0, 1], 9));
        let terms = Terms {
            hash_seed: cache.seed(),
            generation: native.generation(&cache),
            cookie: Cookies::new(native.cookie_key).check(peer, 0, NOW_S).renewal,
            partition_bits: cache.layout().partitions.ilog2(),
        };
        let worker = |number| cache.worker(number).map(Mutex::new);
        let workers: Option<_> = (0..WORKERS).map(worker).collect();
        let workers = workers.ok_or("a worker is in use")?;
        let server = Self { state, workers, terms, peer, items };
        server.fill()?;
        Ok(server)
    }

    fn owner(&self, partition: usize) -> usize {
        let route = self.state.shared.cache.route(partition);
        route.map_or(0, |route| route.owner)
    }

    fn fill(&self) -> Result<()> {
        for worker in &self.workers {
            let mut worker = worker.lock().map_err(|_| "a worker has panicked")?;
            in_process::fill(&self.state.shared.cache, &mut worker, self.items);
        }
        Ok(())
    }

    /// Requests per second that the load gets from both workers.
    fn measure(
        self: &Arc<Self>,
        options: &Options,
        cpus: &[usize],
        (popularity, get_percent): (Popularity, u64),
        directed: bool,
    ) -> Result<f64> {
        let requests = if options.common.quick { 1 << 18 } else { 1 << 20 };
        let duration = Duration::from_millis(if options.common.quick { 200 } else { 1000 });
        let (barrier, ended) = (Arc::new(Barrier::new(WORKERS)), Arc::new(AtomicBool::new(false)));
        let mut threads = Vec::new();
        for (number, ends) in rings(WORKERS, PAYLOAD_BYTES).into_iter().enumerate() {
            let shape =
                Shape { protocol: Protocol::Native, batch: 1, get_percent, popularity, partition: None };
            let owners: Vec<_> =
                (0..1 << self.terms.partition_bits).map(|partition| self.owner(partition)).collect();
            let wanted = directed.then_some((owners, number));
            let (packets, share) =
                Packets::of_owner(&shape, self.items, self.terms, (requests, SEED + number as u64), wanted);
            let mut feeder = Feeder { server: Arc::clone(self), number, packets, rings: ends };
            let (barrier, ended) = (Arc::clone(&barrier), Arc::clone(&ended));
            let cpu = cpus[number];
            threads.push(std::thread::spawn(move || {
                let pinned = system::pin(cpu).is_ok();
                let executed = feeder.run(duration, &barrier, &ended);
                (executed, share, pinned)
            }));
        }
        let mut rates = Vec::new();
        for thread in threads {
            let (executed, share, pinned) = thread.join().map_err(|_| "a worker has panicked")?;
            if !pinned {
                return Err("a worker could not be pinned".into());
            }
            rates.push((executed? as f64 / duration.as_secs_f64(), share));
        }
        if directed {
            // The load has the workers' shares: the one that is loaded most says how much.
            let of_worker = |(rate, share): &(f64, f64)| rate / share;
            return Ok(rates.iter().map(of_worker).fold(f64::INFINITY, f64::min));
        }
        Ok(rates.iter().map(|(rate, _)| rate).sum())
    }
}

/// Requests, or what went wrong.
type Executed = std::result::Result<u64, &'static str>;

/// A worker and what comes to it.
struct Feeder {
    server: Arc<Server>,
    number: usize,
    packets: Packets,
    rings: RingEnds,
}

impl Feeder {
    /// Returns how many requests this worker has executed.
    fn run(&mut self, duration: Duration, barrier: &Barrier, ended: &AtomicBool) -> Executed {
        let state = Arc::clone(&self.server.state);
        let native = state.shared.native.as_ref().ok_or("no native protocol")?;
        let server = Arc::clone(&self.server);
        let worker = server.workers[self.number].lock();
        let mut worker = worker.map_err(|_| "a worker has panicked")?;
        let mut cookies = Cookies::new(native.cookie_key);
        let mut outbox = Memory::default();
        let mut handed_over = vec![0; BURST * PAYLOAD_BYTES];
        let mut burst = vec![0; BURST * PAYLOAD_BYTES];
        let peer = self.server.peer;
        let origin = Origin { peer, socket: 0 };
        barrier.wait();
        let began = Instant::now();
        while !ended.load(Ordering::Relaxed) {
            if self.number == 0 && began.elapsed() >= duration {
                ended.store(true, Ordering::Relaxed);
            }
            let ends = self.packets.take_burst::<BURST>(&mut burst);
            let context = Context::new(&mut worker, &state, NOW_S);
            let mut round = Round::new(context, native, &mut cookies, &mut outbox, 0);
            let mut start = 0;
            for end in ends {
                let datagram = &burst[start..end];
                start = end;
                let Taken::Elsewhere { owner } = round.take(datagram, peer.into(), false) else {
                    continue;
                };
                let ring = self.rings.to[owner].as_mut().ok_or("no ring to itself")?;
                // A full ring refuses; the request comes again with the next turn of the ring.
                push(ring, origin, &[], datagram);
            }
            round.finish();
            let mut entries = [(0, 0); BURST];
            let (mut count, mut at) = (0, 0);
            for ring in self.rings.from.iter_mut().flatten() {
                while count < BURST
                    && let Some(popped) = pop(ring, &mut handed_over[at..])
                {
                    entries[count] = (at, at + popped.datagram_bytes);
                    at += popped.datagram_bytes;
                    count += 1;
                }
            }
            let context = Context::new(&mut worker, &state, NOW_S);
            let mut round = Round::new(context, native, &mut cookies, &mut outbox, 0);
            for (start, end) in &entries[..count] {
                round.take(&handed_over[*start..*end], peer.into(), true);
            }
            round.finish();
        }
        Ok(outbox.datagrams)
    }
}

/// Takes replies and forgets them.
pub(crate) struct Memory {
    bytes: Box<[u8]>,
    datagrams: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self { bytes: vec![0; PAYLOAD_BYTES].into(), datagrams: 0 }
    }
}

impl Outbox for Memory {
    fn open(&mut self, _: Source) {}

    fn slot(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn commit(&mut self, _: usize) {
        self.datagrams += 1;
    }
}
