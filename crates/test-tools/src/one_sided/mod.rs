//! One-sided reads beside writers over memcached's protocol and over the fabric, with flushes: every value
//! must be whole, of its key, and no older than what was acknowledged before the read began.
//!
//! A key has one writer, which numbers its writes. A deletion takes a number, too, and a flush ends all
//! numbers that were acknowledged before it. A miss is always allowed, since items may be evicted, and lost
//! with a server. The server may be ended and started at any time: clients connect again. A write without an
//! answer may take effect at any later time, so its number stays allowed.

mod key;
mod reader;
mod writer;

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use micanite_client::FabricUrl;
use serde::Serialize;

use self::key::Keys;
use crate::Result;

/// Wrong values that are told of.
const SHOWN: usize = 5;
/// Pause of a client whose server is away.
const AWAY: Duration = Duration::from_millis(20);

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's TCP port, for writers and flushes
    #[arg(long)]
    tcp: SocketAddr,
    /// The server as fabric://ADDRESS, for readers and writers
    #[arg(long)]
    fabric: FabricUrl,
    /// One-sided reads that are looked at
    #[arg(long, default_value_t = 100_000)]
    reads: u64,
    /// Longest run
    #[arg(long, default_value_t = 3_600)]
    seconds: u64,
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(32..=1 << 20))]
    keys: u32,
    /// Clients that read
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    readers: u32,
    /// Clients that write over memcached's protocol
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=64))]
    tcp_writers: u32,
    /// Clients that write over the fabric
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=64))]
    fabric_writers: u32,
    /// Pause of a writer behind each write, in microseconds: chunks that die at once are not read
    #[arg(long, default_value_t = 200)]
    write_pause_us: u64,
    /// Flush everything whenever so many one-sided reads have come; 0 = never
    #[arg(long, default_value_t = 50_000)]
    flush_every: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Counts of a run.
#[derive(Debug, Default, Serialize)]
struct Report {
    one_sided: u64,
    two_sided: u64,
    misses: u64,
    /// Reads without an answer: the server was away.
    lost: u64,
    writes: u64,
    /// Writes of which nobody knows whether they happened.
    unknown_writes: u64,
    flushes: u64,
    reconnects: u64,
    /// Refused one-sided reads.
    refused: u64,
    elapsed_s: f64,
    wrong: u64,
    first_wrong: Vec<String>,
}

/// Counts while it runs.
#[derive(Default)]
struct Tally {
    one_sided: AtomicU64,
    two_sided: AtomicU64,
    misses: AtomicU64,
    lost: AtomicU64,
    writes: AtomicU64,
    unknown_writes: AtomicU64,
    reconnects: AtomicU64,
    refused: AtomicU64,
    wrong: AtomicU64,
    first_wrong: Mutex<Vec<String>>,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// State that all threads share.
struct Shared {
    options: Options,
    keys: Keys,
    tally: Tally,
    is_over: AtomicBool,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn wrong(&self, verdict: String) {
        count(&self.tally.wrong);
        if let Ok(mut shown) = self.tally.first_wrong.lock()
            && shown.len() < SHOWN
        {
            shown.push(verdict);
        }
    }

    fn report(&self, flushes: u64, begun: Instant) -> Report {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tally = &self.tally;
        Report {
            one_sided: of(&tally.one_sided),
            two_sided: of(&tally.two_sided),
            misses: of(&tally.misses),
            lost: of(&tally.lost),
            writes: of(&tally.writes),
            unknown_writes: of(&tally.unknown_writes),
            flushes,
            reconnects: of(&tally.reconnects),
            refused: of(&tally.refused),
            elapsed_s: begun.elapsed().as_secs_f64(),
            wrong: of(&tally.wrong),
            first_wrong: tally.first_wrong.lock().map(|shown| shown.clone()).unwrap_or_default(),
        }
    }
}

/// Runs clients until enough was read; prints the counts, and fails if a value was wrong.
pub(crate) fn run(options: &Options) -> Result<()> {
    let shared = Shared {
        keys: Keys::new(options.keys),
        options: options.clone(),
        tally: Tally::default(),
        is_over: AtomicBool::new(false),
    };
    let begun = Instant::now();
    let writers = options.tcp_writers + options.fabric_writers;
    let flushes = thread::scope(|scope| {
        let shared = &shared;
        for number in 0..options.tcp_writers {
            scope.spawn(move || writer::write_over_tcp(shared, (number, writers)));
        }
        for number in options.tcp_writers..writers {
            scope.spawn(move || writer::write_over_fabric(shared, (number, writers)));
        }
        for number in 0..options.readers {
            scope.spawn(move || reader::read(shared, number));
        }
        let flushes = watch(shared, begun);
        shared.is_over.store(true, Ordering::Relaxed);
        flushes
    });
    let report = shared.report(flushes, begun);
    println!("{}", serde_json::to_string(&report)?);
    if report.wrong > 0 {
        return Err(format!("{} values were wrong", report.wrong).into());
    }
    if report.one_sided < options.reads {
        return Err(format!("only {} one-sided reads in {} s", report.one_sided, options.seconds).into());
    }
    Ok(())
}

/// Flushes now and then until enough was read; returns how often.
fn watch(shared: &Shared, begun: Instant) -> u64 {
    let options = &shared.options;
    let (mut flushes, mut next) = (0, options.flush_every);
    while begun.elapsed().as_secs() < options.seconds {
        let read = shared.tally.one_sided.load(Ordering::Relaxed);
        if read >= options.reads || shared.tally.wrong.load(Ordering::Relaxed) >= SHOWN as u64 {
            break;
        }
        if options.flush_every > 0 && read >= next {
            next = read + options.flush_every;
            let acknowledged = shared.keys.acknowledged();
            if writer::flush(options.tcp).is_ok() {
                shared.keys.flushed(&acknowledged);
                flushes += 1;
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    flushes
}
