//! Offered twice what the server can do: two clients of the library, which pace themselves, on
//! one core; and what each of them gets.

use std::time::{Duration, Instant};

use micanite_client::{Batch, Link, Operation, Options as ClientOptions, Outcome, ServerAddress};
use micanite_net::datagram::UdpOptions;
use micanite_workload::{Keys, Popularity, Random, Sampler};

use super::Options;
use crate::Result;
use crate::generator::packets::KEY_BYTES;
use crate::harness::servers::Server;
use crate::results::measurement::Measurement;

const CLIENTS: usize = 2;
/// Operations that a client tries to hand over at a time.
const ATTEMPT_MAX: u64 = 256;
const SEED: u64 = 15;
const WINDOW: Duration = Duration::from_millis(250);
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Counts of a time window.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    ended: [u64; CLIENTS],
    sent: u64,
    resent: u64,
    elapsed_s: f64,
}

impl Slice {
    fn goodput(&self) -> f64 {
        self.ended.iter().sum::<u64>() as f64 / self.elapsed_s
    }
}

pub(super) fn run(options: &Options, server: &Server, report: &mut Measurement) -> Result<()> {
    for (name, batch) in
        [("overload, 1 per datagram", Batch::Fixed(1)), ("overload, 16 per datagram", Batch::Fixed(16))]
    {
        if !options.common.wants(name) {
            continue;
        }
        let [mut peak, mut goodput, mut early] = [Vec::new(), Vec::new(), Vec::new()];
        let [mut lost_percent, mut less_than_more] = [Vec::new(), Vec::new()];
        for round in 0..options.common.rounds().min(3) {
            eprint!("\r{name}, round {}   ", round + 1);
            let mut clients = Clients::connect(server, batch, options.items())?;
            let at_peak = clients.offer(f64::INFINITY, Duration::from_secs(1))?;
            let of_peak = at_peak.iter().map(Slice::goodput).fold(0.0, f64::max);
            let mut clients = Clients::connect(server, batch, options.items())?;
            let slices = clients.offer(2.0 * of_peak, Duration::from_secs(5))?;
            let settled = (SETTLED_AFTER.as_millis() / WINDOW.as_millis()) as usize;
            let mean =
                |slices: &[Slice]| slices.iter().map(Slice::goodput).sum::<f64>() / slices.len() as f64;
            let (first, rest) = slices.split_at(settled.min(slices.len() - 1));
            peak.push(of_peak);
            early.push(mean(first) / of_peak);
            goodput.push(mean(rest) / of_peak);
            let sum = |of: fn(&Slice) -> u64| rest.iter().map(of).sum::<u64>() as f64;
            lost_percent.push(100.0 * sum(|slice| slice.resent) / sum(|slice| slice.sent));
            let (one, other) = (sum(|slice| slice.ended[0]), sum(|slice| slice.ended[1]));
            less_than_more.push(one.min(other) / one.max(other));
        }
        eprintln!();
        report.value(name, "peak", "requests/s", &peak);
        report.value(name, "goodput over the peak, first 2 s", "", &early);
        report.value(name, "goodput over the peak, after 2 s", "", &goodput);
        report.value(name, "sent again, after 2 s", "%", &lost_percent);
        report.value(name, "one client's share over the other's", "", &less_than_more);
    }
    Ok(())
}

struct Clients {
    links: Vec<Link>,
    sampler: Sampler,
    keys: Keys,
    random: Random,
}

impl Clients {
    fn connect(server: &Server, batch: Batch, items: u64) -> Result<Self> {
        let address = [ServerAddress::resolve(&server.udp().to_string())?];
        let options = ClientOptions { batch, ..ClientOptions::default() };
        let connect = |_| Link::connect(&address, options.clone(), &UdpOptions::default());
        Ok(Self {
            links: (0..CLIENTS).map(connect).collect::<std::result::Result<_, _>>()?,
            sampler: Sampler::new(Popularity::Uniform, items),
            keys: Keys::new(KEY_BYTES),
            random: Random::new(SEED),
        })
    }

    /// Offers a rate (or as much as is taken, if it has no end), half of it to each client. What a client does not take is held back: it is
    /// not offered again.
    fn offer(&mut self, per_second: f64, duration: Duration) -> Result<Vec<Slice>> {
        let share_per_ns = per_second / CLIENTS as f64 / 1e9;
        let (mut slices, began) = (Vec::new(), Instant::now());
        let mut offered = [0u64; CLIENTS];
        let (mut slice, mut slice_began) = (Slice::default(), began);
        let mut before = self.counts();
        while began.elapsed() < duration {
            let due = (began.elapsed().as_nanos() as f64 * share_per_ns) as u64;
            for (client, link) in self.links.iter_mut().enumerate() {
                let now_ns = link.now_ns();
                let attempt = match per_second.is_finite() {
                    true => due.saturating_sub(offered[client]).min(ATTEMPT_MAX),
                    false => ATTEMPT_MAX,
                };
                for _ in 0..attempt {
                    let mut key = [0; KEY_BYTES];
                    self.keys.write(self.sampler.item(&mut self.random), &mut key);
                    if link.submit(now_ns, &Operation::get(&key), 0).is_err() {
                        break;
                    }
                }
                // What it refuses is held back for good.
                offered[client] = due;
                let ended = &mut slice.ended[client];
                link.poll(now_ns, |completion| {
                    *ended += u64::from(completion.outcome == Outcome::Ok);
                })?;
            }
            if slice_began.elapsed() >= WINDOW {
                let now = self.counts();
                slice.elapsed_s = slice_began.elapsed().as_secs_f64();
                (slice.sent, slice.resent) = (now.0 - before.0, now.1 - before.1);
                slices.push(slice);
                (slice, slice_began, before) = (Slice::default(), Instant::now(), now);
            }
        }
        if slices.is_empty() {
            return Err("the machine was too busy to measure".into());
        }
        Ok(slices)
    }

    /// Datagrams sent, and those of them that were sent again.
    fn counts(&self) -> (u64, u64) {
        let counters = self.links.iter().map(Link::counters);
        counters.fold((0, 0), |(sent, resent), counters| (sent + counters.sent, resent + counters.resent))
    }
}
