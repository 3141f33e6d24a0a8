//! Increments through whatever network there is, and whether each of them counted exactly once.
//!
//! Some clients add to the same numbers, with many increments in flight; in the end the numbers
//! must be the sums of what was added. Lost, doubled and late datagrams must not show.

use std::thread;
use std::time::Duration;

use clap::Args;
use micanite_client::{
    Client, Completion, Error, Link, Operation, Options as ClientOptions, Outcome, ServerAddress, UdpOptions,
};
use micanite_workload::Random;
use serde::Serialize;

use crate::Result;

const DEADLINE: Duration = Duration::from_secs(60);
/// A client gives a server up after some requests for the directory; a bad network may lose all.
const CONNECTS_MAX: u32 = 10;

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's base port, or that of a relay
    #[arg(long)]
    server: String,
    /// Increments of all clients together
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
    /// Clients, each with a socket and a thread of its own
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// Numbers that they all add to
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    keys: u16,
    /// Seed of what is added to what
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Counts of a client's increments, or of all.
#[derive(Clone, Debug, Default, Serialize)]
struct Report {
    done: u64,
    /// Nobody knows whether these were executed.
    unknown: u64,
    /// These ended otherwise: "timed out", "not found", ...
    failed: u64,
    datagrams_sent: u64,
    datagrams_resent: u64,
    /// Expected numbers, by key.
    #[serde(skip)]
    sums: Vec<u64>,
    /// Keys whose number is another.
    wrong_sums: u64,
}

/// Adds, looks, prints the report; an error unless every number is exact.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut reader = persistently(|| {
        let builder = Client::builder().server(&options.server);
        builder.options(client_options()).connect()
    })?;
    for number in 0..options.keys {
        // Not by set: a copy of that, kept back on the way, would undo increments.
        reader.add(&key(number), b"0", 0, 0)?;
    }
    let mut total = Report { sums: vec![0; options.keys.into()], ..Report::default() };
    thread::scope(|scope| -> Result<()> {
        let clients: Vec<_> = (0..options.clients)
            .map(|number| scope.spawn(move || add(options, number).map_err(|e| e.to_string())))
            .collect();
        for client in clients {
            total.merge(&client.join().map_err(|_| "a client panicked")??);
        }
        Ok(())
    })?;
    for (number, expected) in (0..options.keys).zip(&total.sums) {
        let found = reader.get(&key(number))?.ok_or("a number is gone")?;
        let found = String::from_utf8_lossy(&found.bytes).trim_end().to_owned();
        if found != expected.to_string() {
            total.wrong_sums += 1;
            eprintln!("number {number} is {found}, not {expected}");
        }
    }
    println!("{}", serde_json::to_string(&total)?);
    if total.done == options.count && total.wrong_sums == 0 { Ok(()) } else { Err("not exact".into()) }
}

impl Report {
    fn merge(&mut self, other: &Self) {
        self.done += other.done;
        self.unknown += other.unknown;
        self.failed += other.failed;
        self.datagrams_sent += other.datagrams_sent;
        self.datagrams_resent += other.datagrams_resent;
        for (sum, more) in self.sums.iter_mut().zip(&other.sums) {
            *sum += more;
        }
    }

    fn end(&mut self, completion: &Completion<'_>) {
        match completion.outcome {
            Outcome::Ok => self.done += 1,
            Outcome::Unknown => self.unknown += 1,
            other => {
                if self.failed == 0 {
                    eprintln!("an increment ended as {other:?}");
                }
                self.failed += 1;
            }
        }
    }

    fn ended(&self) -> u64 {
        self.done + self.unknown + self.failed
    }
}

fn client_options() -> ClientOptions {
    ClientOptions { deadline_ns: DEADLINE.as_nanos() as u64, ..ClientOptions::default() }
}

/// Connects, again if need be.
fn persistently<T>(mut connect: impl FnMut() -> std::result::Result<T, Error>) -> Result<T> {
    for _ in 1..CONNECTS_MAX {
        if let Ok(connected) = connect() {
            return Ok(connected);
        }
    }
    Ok(connect()?)
}

fn key(number: u16) -> Vec<u8> {
    format!("increments-{number}").into_bytes()
}

/// One client's share.
fn add(options: &Options, number: u16) -> Result<Report> {
    let clients = u64::from(options.clients);
    let count = options.count / clients + u64::from(u64::from(number) < options.count % clients);
    let mut random = Random::new(options.seed * 1000 + u64::from(number) + 1);
    let keys: Vec<_> = (0..options.keys).map(key).collect();
    let mut report = Report { sums: vec![0; keys.len()], ..Report::default() };
    let servers = [ServerAddress::resolve(&options.server)?];
    let mut link = persistently(|| Link::connect(&servers, client_options(), &UdpOptions::default()))?;
    let mut submitted = 0;
    // The next increment, until the link has accepted it.
    let mut next = None;
    while report.ended() < count {
        let now_ns = link.now_ns();
        let mut full = false;
        while submitted < count && !full {
            let (place, delta) = *next.get_or_insert_with(|| {
                let place = random.below(keys.len() as u64) as usize;
                (place, random.below(1000))
            });
            let operation = Operation::increment(&keys[place], delta);
            full = link.submit(now_ns, &operation, submitted).is_err();
            if !full {
                report.sums[place] += delta;
                submitted += 1;
                next = None;
            }
        }
        let received = link.poll(now_ns, |completion| report.end(&completion))?;
        if received == 0 && report.ended() < count {
            link.wait(u64::MAX)?;
        }
    }
    let counters = link.counters();
    report.datagrams_sent = counters.sent;
    report.datagrams_resent = counters.resent;
    Ok(report)
}
