//! Clients of all ports execute random operations on a few keys at the same time. Each key's history must be
//! linearizable: each operation took effect at one moment between its call and its return.
//!
//! A cache may lose items. With more memory than the keys take it has no reason to: a miss needs a delete, a
//! flush or a killed server (`--evicts` allows any).

mod check;
mod child;
mod client;
mod explain;
mod journal;
mod operation;
mod ports;
#[cfg(test)]
mod tests;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, stdin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use self::check::{Refusal, check};
use self::client::{Client, Workload, key_name};
use self::journal::{Entry, Journal, now_ns};
use self::operation::{Action, Found, Operation};
use self::ports::{Kind, PortName};
use crate::Result;

/// Replies of each client that are progress.
const PROGRESS: u64 = 50;
/// A client that hears nothing for so long is given up.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Client numbers of the processes that replace killed ones.
const REPLACEMENTS: u32 = 1 << 16;

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// A port, as KIND=ADDRESS: text (TCP), udp (GETs alone) or native; or as KIND=fabric://..: one-sided
    /// (reads) or two-sided
    #[arg(long = "port", required = true)]
    ports: Vec<PortName>,
    /// Clients of each port, each with a thread and a connection of its own
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
    /// A port whose client is a process that is killed again and again; it is replaced at once
    #[arg(long = "killed-port")]
    killed_ports: Vec<PortName>,
    /// Time between two kills
    #[arg(long, default_value_t = 300)]
    kill_ms: u64,
    /// Time for which such a process stands still before it goes on until it is killed; 0: it does not
    #[arg(long, default_value_t = 0)]
    stop_ms: u64,
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Operations of each client that have a reply, at least, however long that takes
    #[arg(long, default_value_t = 1)]
    least: u64,
    /// A reply that clients of --port have to meet, however long that takes, as the report names it: "text
    /// delete done"; repeatable
    #[arg(long)]
    until: Vec<String>,
    /// Keys that all of them use
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    keys: u32,
    /// Length of the longest value; the native protocol takes 1 KiB at most
    #[arg(long, default_value_t = 1024)]
    value_bytes: usize,
    /// GETs in 100 operations
    #[arg(long, default_value_t = 45)]
    gets: u64,
    /// Flushes in 10,000 operations over TCP
    #[arg(long, default_value_t = 20)]
    flushes: u64,
    /// Items may leave at any time: the memory is small
    #[arg(long)]
    evicts: bool,
    /// Take commands from standard input, each answered by "ok": "loss" (from now on items may be lost: the
    /// server is killed), "found" (no longer), "progress" (wait until each client had replies), "end"
    #[arg(long)]
    commands: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Be the client process with this number, and write records to standard output
    #[arg(long, hide = true)]
    child: Option<u32>,
}

/// Counts of a run.
#[derive(Clone, Debug, Default, Serialize)]
struct Report {
    operations: u64,
    /// Replies by port and by what they were: "text get value".
    replies: BTreeMap<String, u64>,
    /// GETs that one-sided reads answered, by port.
    one_sided: BTreeMap<Kind, u64>,
    /// Operations without a reply.
    unknown: u64,
    clients_killed: u64,
    losses: u64,
    seconds: f64,
    check_seconds: f64,
    violations: u64,
}

impl Options {
    fn workload(&self) -> Workload {
        Workload {
            keys: self.keys,
            value_bytes_max: self.value_bytes,
            flushes: self.flushes,
            gets: self.gets,
            seed: self.seed,
        }
    }
}

/// Returns the name of an operation's reply in the report; none if there can be no reply.
fn reply_name(kind: Kind, operation: &Operation) -> Option<String> {
    if matches!(operation.action, Action::LateCopy(_)) || operation.found == Found::NotSent {
        return None;
    }
    let described = operation.to_string();
    let (action, found) = described.split_once(" -> ").unwrap_or((&described, ""));
    let found = if found.starts_with("0x") { "value" } else { found };
    let action = action.split(' ').next().unwrap_or("");
    Some(format!("{kind} {action} {found}"))
}

/// Journals of all clients, and of what befell the server.
#[derive(Debug, Default)]
struct Histories {
    journal: Journal,
    kinds: Vec<(u32, Kind)>,
    report: Report,
}

impl Histories {
    fn add(&mut self, kind: Kind, number: u32, journal: Journal) {
        for Entry { operation, .. } in &journal.entries {
            let Some(reply) = reply_name(kind, operation) else { continue };
            *self.report.replies.entry(reply).or_default() += 1;
            self.report.operations += 1;
            self.report.unknown += u64::from(operation.found == Found::Unknown);
        }
        *self.report.one_sided.entry(kind).or_default() += journal.one_sided;
        self.kinds.push((number, kind));
        self.journal.entries.extend(journal.entries);
        self.journal.wrong.extend(journal.wrong);
    }

    /// Returns all operations that concern a key.
    fn of_key(&self, key: u32) -> Vec<Operation> {
        let concerns = |entry: &&Entry| entry.key.is_none_or(|other| other == key);
        self.journal.entries.iter().filter(concerns).map(|entry| entry.operation).collect()
    }

    /// Checks every key. Returns descriptions of what is wrong.
    fn judge(&self, options: &Options) -> Vec<String> {
        let mut wrong = self.journal.wrong.clone();
        for key in 0..options.keys {
            let history = self.of_key(key);
            let name = key_name(&options.workload(), key);
            match check(&history, options.evicts) {
                Ok(()) => {}
                Err(Refusal::TooManyPending) => {
                    wrong.push(format!("key {name}: too many operations without a reply to check them"));
                }
                Err(Refusal::Violation(violation)) => {
                    let kind = |client| client::kind_of(&self.kinds, client);
                    wrong.push(explain::explain(&name, &history, &violation, kind));
                }
            }
        }
        wrong
    }
}

/// State that the threads of a run share.
#[derive(Debug)]
struct Shared {
    ended: AtomicBool,
    /// Operations of each client that had a reply.
    answered: Vec<AtomicU64>,
    /// Replies that no client has met yet, of those that have to come.
    missing: Mutex<BTreeSet<String>>,
}

impl Shared {
    fn answered(&self) -> Vec<u64> {
        self.answered.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Notes operations that have ended.
    fn meet(&self, kind: Kind, ended: &[Entry]) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if !missing.is_empty() {
            for reply in ended.iter().filter_map(|entry| reply_name(kind, &entry.operation)) {
                missing.remove(&reply);
            }
        }
    }

    fn has_met_all(&self) -> bool {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Waits until each client has had some more replies.
    fn wait_for_progress(&self) {
        let before = self.answered();
        let began = Instant::now();
        let goes_on = || self.answered().iter().zip(&before).all(|(now, before)| *now >= before + PROGRESS);
        while !goes_on() && !self.has_ended() && began.elapsed() < WAIT_MAX {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Executes the commands of standard input. Returns when items may have been lost.
fn take_commands(shared: &Shared) -> Result<Journal> {
    let mut journal = Journal::default();
    for line in stdin().lock().lines() {
        match line?.as_str() {
            "loss" => journal.entries.push(Entry {
                key: None,
                operation: Operation {
                    client: u32::MAX,
                    called_ns: now_ns()?,
                    returned_ns: u64::MAX,
                    action: Action::Loss,
                    found: Found::Unknown,
                },
            }),
            "found" => {
                let last = journal.entries.last_mut().ok_or("found without loss")?;
                last.operation.returned_ns = now_ns()?;
            }
            "progress" => shared.wait_for_progress(),
            "end" => shared.end(),
            other => return Err(format!("{other:?} is no command").into()),
        }
        println!("ok");
    }
    Ok(journal)
}

/// Runs one client until the end.
fn run_client(name: &PortName, options: &Options, number: u32, shared: &Shared) -> Result<Journal> {
    let mut client = Client::new(name, options.workload(), number, Journal::default());
    let mut ended = 0;
    while !shared.has_ended() {
        match client.step() {
            Ok(true) => {
                shared.answered[number as usize].store(client.answered(), Ordering::Relaxed);
                let entries = &client.recorder().entries;
                shared.meet(name.kind, &entries[ended..]);
                ended = entries.len();
            }
            Ok(false) => {
                shared.end();
                break;
            }
            Err(error) => {
                shared.end();
                return Err(error);
            }
        }
    }
    Ok(client.into_recorder())
}

/// Runs all clients, and collects what they recorded.
fn collect(options: &Options) -> Result<Histories> {
    let clients = options.ports.len() * options.clients as usize;
    let answered = (0..clients).map(|_| AtomicU64::new(0)).collect();
    let missing = Mutex::new(options.until.iter().cloned().collect());
    let shared = &Shared { ended: AtomicBool::new(false), answered, missing };
    let said = |result: Result<_>| result.map_err(|error| error.to_string());
    let began = Instant::now();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, name) in (0_u32..).zip(&options.ports) {
            for client in 0..options.clients {
                let number = number * options.clients + client;
                let run = move || said(run_client(name, options, number, shared)).map(|found| vec![found]);
                threads.push((name.kind, number, scope.spawn(run)));
            }
        }
        for (place, name) in (1..).zip(&options.killed_ports) {
            let first = place * REPLACEMENTS;
            let run = move || {
                child::run_killed(name, options, first, &shared.ended).map_err(|error| error.to_string())
            };
            threads.push((name.kind, first, scope.spawn(run)));
        }
        let commands = options.commands.then(|| scope.spawn(|| said(take_commands(shared))));
        let time = Duration::from_secs_f64(options.seconds);
        let is_short =
            || shared.answered().iter().any(|count| *count < options.least) || !shared.has_met_all();
        let goes_on = || began.elapsed() < time || (is_short() && began.elapsed() < time + WAIT_MAX);
        while goes_on() && !shared.has_ended() {
            thread::sleep(Duration::from_millis(5));
        }
        shared.end();
        let mut histories = Histories::default();
        for (kind, first, thread) in threads {
            let journals = thread.join().map_err(|_| "a client panicked")??;
            histories.report.clients_killed += journals.len() as u64 - 1;
            for (number, journal) in (first..).zip(journals) {
                histories.add(kind, number, journal);
            }
        }
        histories.report.seconds = began.elapsed().as_secs_f64();
        if let Some(commands) = commands {
            let journal = commands.join().map_err(|_| "the commands' thread panicked")??;
            histories.report.losses = journal.entries.len() as u64;
            histories.journal.entries.extend(journal.entries);
        }
        Ok::<_, Box<dyn std::error::Error>>(histories)
    })
}

/// Runs the clients, checks their histories, prints the report; an error unless all are linearizable.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(number) = options.child {
        return child::run(options, number);
    }
    let mut histories = collect(options)?;
    let began = Instant::now();
    let wrong = histories.judge(options);
    histories.report.check_seconds = began.elapsed().as_secs_f64();
    histories.report.violations = wrong.len() as u64;
    println!("{}", serde_json::to_string(&histories.report)?);
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("seed {}: not linearizable\n{}", options.seed, wrong.join("\n")).into()),
    }
}
