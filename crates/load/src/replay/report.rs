//! Results of a replay.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use micanite_workload::trace::{Failure, Operation};
use serde::Serialize;

use super::progress::Second;
use super::step::Translator;
use super::tally::Tally;
use crate::output;
use crate::report::Latency;

/// Requests that may be late before it is said.
const LATE_RATIO_MAX: f64 = 0.01;
/// A thread that uses more of a core is a limit itself: it sleeps while it has nothing to do.
const CPU_RATIO_MAX: f64 = 0.9;

/// The replay that was asked for.
#[derive(Debug, Serialize)]
pub(super) struct Plan {
    pub trace: String,
    pub target: String,
    /// Divisor of the trace's times; none means as fast as possible.
    pub speed: Option<f64>,
    pub threads: usize,
    pub connections: usize,
    pub pipeline: usize,
    pub read_only: bool,
    pub key_prefix: String,
    /// Bytes that a value must fit into with its key; none where it may be longer.
    pub datagram_bytes: Option<usize>,
}

impl Plan {
    /// Returns the translator of the trace's requests.
    pub fn translator(&self) -> Translator {
        Translator {
            key_prefix: self.key_prefix.clone().into_bytes(),
            is_read_only: self.read_only,
            speed: self.speed,
            datagram_bytes: self.datagram_bytes,
            keys_replaced: 0,
            key: Vec::new(),
        }
    }
}

/// Counts of requests that were read, and of those that were not sent.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub read: u64,
    pub operations: [u64; Operation::ALL.len()],
    pub skipped_writes: u64,
    pub skipped_unknown_size: u64,
    pub skipped_too_large: u64,
    pub keys_replaced: u64,
    /// CPU seconds of the thread that reads the trace.
    pub cpu_s: Option<f64>,
}

/// CPU time of the replay itself.
#[derive(Debug, Serialize)]
struct Generator {
    /// CPU seconds of the thread that reads the trace.
    reader_cpu_s: Option<f64>,
    /// CPU seconds of each thread that sends.
    cpu_s_by_thread: Vec<f64>,
    /// The busiest of these threads: part of a core.
    cpu_ratio_max: f64,
}

/// Ends of the requests of one operation.
#[derive(Debug, Serialize)]
struct Ended {
    answered: u64,
    /// Found, or carried out.
    done: u64,
    /// Requests that found nothing, or whose condition was not met.
    not_done: u64,
    refused: u64,
    lost: u64,
}

/// The results of a replay.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    server: Option<String>,
    plan: Plan,
    is_interrupted: bool,
    seconds_taken: f64,
    /// Requests of the trace that were read.
    pub requests: u64,
    /// Requests of the trace that have ended; storing what was missed is not counted here.
    pub sent: u64,
    requests_per_second: f64,
    reads: u64,
    hit_ratio: Option<f64>,
    miss_ratio: Option<f64>,
    /// Ratio by bytes of key and value, without misses of a size that the trace does not tell.
    byte_hit_ratio: Option<f64>,
    byte_miss_ratio: Option<f64>,
    /// Missed items that were stored.
    stored_after_misses: u64,
    /// Missed items that the server did not store.
    not_stored_after_misses: u64,
    operations: BTreeMap<&'static str, Ended>,
    refused: u64,
    /// The first error that the server answered with.
    refusal: Option<String>,
    /// Without a reply.
    lost: u64,
    datagrams_resent: u64,
    skipped_writes: u64,
    skipped_unknown_size: u64,
    skipped_too_large: u64,
    /// Missed items that were not stored because they are too large.
    too_large_after_misses: u64,
    /// Keys that the server would not take; their requests had others.
    keys_replaced: u64,
    /// Time from when a request was due (as fast as possible: sent) to its reply.
    latency_us: Latency,
    /// Time from when a request was due to when it was sent.
    lag_us: Option<Latency>,
    /// Sent more than a millisecond late, for the server had not answered earlier ones.
    late_behind_server: u64,
    /// Sent more than a millisecond late otherwise.
    late_behind_generator: u64,
    generator: Generator,
    seconds: Vec<Second>,
}

impl Report {
    pub fn new(
        plan: Plan,
        server: Option<String>,
        source: Source,
        tally: &Tally,
        seconds: Vec<Second>,
        is_interrupted: bool,
        seconds_taken: f64,
    ) -> Self {
        let all = || Operation::ALL.iter().zip(&tally.ends);
        let sent = all().map(|(_, ends)| ends.all()).sum::<u64>();
        let reads = || all().filter(|(operation, _)| operation.reads());
        let hits = reads().map(|(_, ends)| ends.done).sum::<u64>();
        let misses = reads().map(|(_, ends)| ends.not_done).sum::<u64>();
        let ratio = |part: u64, rest: u64| match part + rest {
            0 => None,
            whole => Some(part as f64 / whole as f64),
        };
        let operations = all().filter(|(_, ends)| ends.all() > 0);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            server,
            is_interrupted,
            seconds_taken,
            requests: source.read,
            sent,
            requests_per_second: sent as f64 / seconds_taken.max(1e-9),
            reads: hits + misses,
            hit_ratio: ratio(hits, misses),
            miss_ratio: ratio(misses, hits),
            byte_hit_ratio: ratio(tally.hit_bytes, tally.missed_bytes),
            byte_miss_ratio: ratio(tally.missed_bytes, tally.hit_bytes),
            stored_after_misses: tally.filled,
            not_stored_after_misses: tally.not_filled,
            operations: operations
                .map(|(operation, ends)| {
                    let ended = Ended {
                        answered: ends.all() - ends.lost,
                        done: ends.done,
                        not_done: ends.not_done,
                        refused: ends.refused,
                        lost: ends.lost,
                    };
                    (operation.name(), ended)
                })
                .collect(),
            refused: tally.ends.iter().map(|ends| ends.refused).sum(),
            refusal: tally.refusal.clone(),
            lost: tally.ends.iter().map(|ends| ends.lost).sum(),
            datagrams_resent: tally.resent,
            skipped_writes: source.skipped_writes,
            skipped_unknown_size: source.skipped_unknown_size,
            skipped_too_large: source.skipped_too_large,
            too_large_after_misses: tally.too_large,
            keys_replaced: source.keys_replaced,
            latency_us: Latency::new(&tally.latency_ns),
            lag_us: plan.speed.map(|_| Latency::new(&tally.lag_ns)),
            late_behind_server: tally.held,
            late_behind_generator: tally.late,
            generator: Generator {
                reader_cpu_s: source.cpu_s,
                cpu_ratio_max: tally.cpu_s.iter().copied().chain(source.cpu_s).fold(0.0, f64::max)
                    / seconds_taken.max(1e-9),
                cpu_s_by_thread: tally.cpu_s.clone(),
            },
            seconds,
            plan,
        }
    }

    /// Prints the table, or writes JSON, or both.
    pub fn write(&self, json: Option<&Path>) -> Result<(), Failure> {
        if !output::is_stdout(json) {
            output::say(&self.table());
        }
        json.map_or(Ok(()), |path| output::write_json(path, self))
    }

    fn table(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<22}{value}");
        };
        let version = self.server.as_ref().map(|version| format!(" ({version})"));
        row("target", format!("{}{}", self.plan.target, version.unwrap_or_default()));
        row("requests", self.requests_line());
        for (name, ended) in &self.operations {
            row(&format!("  {name}"), ended.line());
        }
        let percent = |ratio: Option<f64>| match ratio {
            Some(ratio) => format!("{:.3} %", 100.0 * ratio),
            None => "-".to_owned(),
        };
        let hits = [self.hit_ratio, self.byte_hit_ratio].map(percent);
        row("hit ratio", format!("{} of reads, {} of bytes", hits[0], hits[1]));
        row("stored after misses", self.stored_line());
        if self.refused > 0 {
            let first = self.refusal.as_deref().unwrap_or_default();
            row("errors", format!("{}, the first: {first}", self.refused));
        }
        if self.lost + self.datagrams_resent > 0 {
            let resent = self.datagrams_resent;
            row("lost", format!("{} requests, {resent} datagrams sent again", self.lost));
        }
        row("latency us", self.latency_us.line());
        if let Some(lag) = &self.lag_us {
            row("lag us", lag.line());
        }
        row("generator", self.generator.line());
        for sentence in self.sentences() {
            let _ = writeln!(text, "{sentence}");
        }
        text
    }

    fn requests_line(&self) -> String {
        format!("{} in {:.1} s, {:.0} per second", self.sent, self.seconds_taken, self.requests_per_second)
    }

    fn stored_line(&self) -> String {
        match self.not_stored_after_misses {
            0 => self.stored_after_misses.to_string(),
            not => format!("{}, not stored {not}", self.stored_after_misses),
        }
    }

    fn too_large(&self) -> String {
        let (requests, missed) = (self.skipped_too_large, self.too_large_after_misses);
        let (bound, hint) = match self.plan.datagram_bytes {
            None => ("64 MiB".to_owned(), ""),
            Some(bytes) => (
                format!("fits a datagram of {bytes} bytes with its key"),
                " Over memcached:// they are sent.",
            ),
        };
        format!(
            "Left out: {requests} requests that store a value, and {missed} missed values, \
             that are more than {bound}.{hint}"
        )
    }

    /// Warnings to whoever reads the figures.
    fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.is_interrupted {
            said.push(format!("Interrupted after {} requests were sent.", self.sent));
        }
        let skipped = [
            (self.skipped_writes, "write, and only reads are sent"),
            (self.skipped_unknown_size, "store, and the trace does not say how much"),
        ];
        for (count, why) in skipped {
            if count > 0 {
                said.push(format!("Left out: {count} requests that {why}."));
            }
        }
        if self.skipped_too_large + self.too_large_after_misses > 0 {
            said.push(self.too_large());
        }
        if self.keys_replaced > 0 {
            said.push(format!(
                "{} requests have keys that no server takes: others were used.",
                self.keys_replaced
            ));
        }
        let late_max = LATE_RATIO_MAX * self.sent as f64;
        if self.late_behind_server as f64 > late_max {
            said.push(format!(
                "The server could not keep up: {} requests left late because earlier ones were not answered.",
                self.late_behind_server
            ));
        }
        if self.late_behind_generator as f64 > late_max {
            said.push(format!(
                "The generator could not keep up: {} requests left more than a millisecond late. \
                 Lower --speed or raise --threads.",
                self.late_behind_generator
            ));
        }
        if self.generator.cpu_ratio_max > CPU_RATIO_MAX {
            said.push(format!(
                "The generator may itself be the limit: its busiest thread used {:.0} % of a core. {}",
                100.0 * self.generator.cpu_ratio_max,
                match self.generator.is_reader_busiest() {
                    true => "Reading the trace takes that long.",
                    false => "Raise --threads.",
                }
            ));
        }
        said
    }
}

impl Generator {
    fn is_reader_busiest(&self) -> bool {
        let sender_s = self.cpu_s_by_thread.iter().copied().fold(0.0, f64::max);
        self.reader_cpu_s.is_some_and(|reader_s| reader_s >= sender_s)
    }

    fn line(&self) -> String {
        format!(
            "{:.2} s of CPU time to send, {:.2} s to read the trace; the busiest thread {:.0} % of a core",
            self.cpu_s_by_thread.iter().sum::<f64>(),
            self.reader_cpu_s.unwrap_or(0.0),
            100.0 * self.cpu_ratio_max
        )
    }
}

impl Ended {
    fn line(&self) -> String {
        let mut line = format!("{}: {} done, {} not", self.answered, self.done, self.not_done);
        if self.refused > 0 {
            let _ = write!(line, ", {} errors", self.refused);
        }
        if self.lost > 0 {
            let _ = write!(line, "; {} lost", self.lost);
        }
        line
    }
}
