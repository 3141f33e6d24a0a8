//! GETs over memcached's UDP beside writers over TCP: every reply must be a value that its key had at that
//! time.
//!
//! Which bytes an operation writes follows from its key and its number (`content`), and between which
//! operations a reply must lie from what was acknowledged before the request (`history`). The rules are the
//! same for replies of the server and of the program in the kernel; the server's statistics say how many the
//! kernel answered.

mod content;
mod history;
mod reader;
pub(crate) mod reply;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use self::history::{Absence, History};
use self::reader::Reading;
use self::writer::Writing;
use crate::Result;

/// Wrong replies that are told of.
const SHOWN: usize = 5;
const KEY_BYTES_MAX: usize = 64;

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's TCP port, for the writers
    #[arg(long)]
    tcp: SocketAddr,
    /// The server's UDP port, for the readers
    #[arg(long)]
    udp: SocketAddr,
    /// Replies that are looked at
    #[arg(long, default_value_t = 1_000_000)]
    replies: u64,
    /// Writes of the keys meanwhile, at least: readers leave the writers little of a busy machine
    #[arg(long, default_value_t = 0)]
    writes: u64,
    /// Keys that are written and read
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    keys: u32,
    /// Connections that write, each to keys of its own and to shared ones
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    writers: u32,
    /// Sockets that read
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    readers: u32,
    /// Flush everything whenever so many replies have come; 0 = never
    #[arg(long, default_value_t = 50_000)]
    flush_every: u64,
    /// Other items, stored and deleted in turns; 0 = none
    #[arg(long, default_value_t = 200_000)]
    fill: u64,
    /// Items may leave at any time: the memory is small
    #[arg(long)]
    evicts: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Counts of a run.
#[derive(Clone, Debug, Default, Serialize)]
struct Report {
    replies: u64,
    /// Values that were compared, byte by byte.
    hits: u64,
    value_bytes: u64,
    /// Keys without a value, by why that may be.
    misses: BTreeMap<Absence, u64>,
    /// Replies of several datagrams.
    long_replies: u64,
    /// Requests without a reply.
    lost: u64,
    /// Replies to those.
    late: u64,
    writes: u64,
    flushes: u64,
    filled: u64,
    elapsed_s: f64,
    wrong: u64,
    first_wrong: Vec<String>,
}

impl Report {
    fn wrong(&mut self, verdict: String) {
        self.wrong += 1;
        if self.first_wrong.len() < SHOWN {
            self.first_wrong.push(verdict);
        }
    }

    fn merge(&mut self, other: Self) {
        self.replies += other.replies;
        self.hits += other.hits;
        self.value_bytes += other.value_bytes;
        for (why, more) in other.misses {
            *self.misses.entry(why).or_default() += more;
        }
        self.long_replies += other.long_replies;
        self.lost += other.lost;
        self.late += other.late;
        self.wrong += other.wrong;
        self.first_wrong.extend(other.first_wrong);
    }
}

/// A key's name: of every length that a program in the kernel answers, and of some that it does not.
fn name(key: u32) -> Vec<u8> {
    let bytes = 8 + key as usize % (KEY_BYTES_MAX - 7) + if key % 64 == 63 { KEY_BYTES_MAX } else { 0 };
    let mut name = format!("{key:x}-").into_bytes();
    name.resize(bytes, b'k');
    name
}

/// Writes and reads, prints the report; an error unless every reply is right.
pub(crate) fn run(options: &Options) -> Result<()> {
    let names: Vec<_> = (0..options.keys).map(name).collect();
    let history = History::new(options.keys, options.evicts);
    let (ended, operations, replies) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let writing = Writing {
        server: options.tcp,
        names: &names,
        history: &history,
        ended: &ended,
        operations: &operations,
    };
    let reading = Reading {
        server: options.udp,
        names: &names,
        history: &history,
        replies: &replies,
        replies_wanted: options.replies,
        writes: &operations,
        writes_wanted: options.writes,
        ended: &ended,
    };
    let began = Instant::now();
    let (writing, reading, replies, seed) = (&writing, &reading, &replies, options.seed);
    let report = thread::scope(|scope| {
        let mut others = Vec::new();
        for number in 0..options.writers {
            others.push(scope.spawn(move || {
                let written = writing.write(number, options.writers, seed);
                if written.is_err() {
                    writing.ended.store(true, Ordering::Relaxed);
                }
                said(written).map(|()| 0)
            }));
        }
        let flusher = (options.flush_every > 0)
            .then(|| scope.spawn(move || said(writing.flush(replies, options.flush_every))));
        let filler = (options.fill > 0).then(|| scope.spawn(move || said(writing.fill(options.fill, seed))));
        let readers: Vec<_> = (0..options.readers)
            .map(|number| scope.spawn(move || said(reading.run(seed + u64::from(number)))))
            .collect();
        let mut report: std::result::Result<Report, String> = Ok(Report::default());
        for reader in readers {
            report = report.and_then(|mut sum: Report| {
                sum.merge(joined(reader)?);
                Ok(sum)
            });
        }
        ended.store(true, Ordering::Relaxed);
        let mut report = report?;
        for other in others {
            joined(other)?;
        }
        report.flushes = flusher.map_or(Ok(0), joined)?;
        report.filled = filler.map_or(Ok(0), joined)?;
        Ok::<_, String>(report)
    });
    let mut report = report?;
    report.elapsed_s = began.elapsed().as_secs_f64();
    report.writes = operations.load(Ordering::Relaxed);
    println!("{}", serde_json::to_string(&report)?);
    match report.wrong {
        0 => Ok(()),
        wrong => Err(format!("{wrong} replies were wrong: {:#?}", report.first_wrong).into()),
    }
}

/// Errors that may leave their thread.
fn said<T>(result: Result<T>) -> std::result::Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn joined<T>(thread: ScopedJoinHandle<'_, std::result::Result<T, String>>) -> std::result::Result<T, String> {
    thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
}
