//! The command: options, threads, the signal that ends it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use clap::Args;
use micanite_workload::KEY_BYTES_MAX;
use micanite_workload::trace::{Failure, Format, Opened, open};
use nix::sys::signal::{SigSet, Signal};

use super::connection::{self, Connection, Server};
use super::dispatcher::Dispatcher;
use super::progress::watch;
use super::report::{Plan, Report, Source};
use super::schedule::Schedule;
use super::step::{NUMBER_CHARACTERS, Skip, Translator};
use super::tally::{Live, Tally};
use super::worker::{Common, Worker};
use crate::address::{Address, AddressArgument, TlsArguments, without_login};
use crate::output;
use crate::run::clock::Clock;
use crate::run::machine::thread_cpu_s;

const PIPELINE_MAX: usize = 4096;
const CONNECTIONS_MAX: usize = 4096;
const THREADS_MAX: usize = 64;
/// Signals that follow within this are the same: some who send one send it to the program and to its
/// group.
const SIGNAL_PAUSE: Duration = Duration::from_millis(500);
/// An interrupted program's exit status: 128 and the signal's number.
const EXIT_INTERRUPTED: i32 = 130;

/// Sends a trace's requests to a live server; what a GET misses is stored. Requests of one key keep
/// their order.
#[derive(Args, Debug)]
pub struct ReplayOptions {
    /// The trace; - is the standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The server: memcached://HOST:PORT, memcacheds://HOST:PORT (TLS), unix:///PATH or native://HOST:PORT.
    /// memcached(s)://USER:PASSWORD@... logs in; USER@ takes the password from MICANITE_PASSWORD.
    #[arg(value_name = "URL", value_parser = AddressArgument(target))]
    url: Address,
    #[command(flatten)]
    tls: TlsArguments,
    /// Its format, where name and content do not tell it.
    #[arg(long)]
    format: Option<Format>,
    /// How fast: 1 is as the trace's times say, 10 ten times as fast; max is as fast as the server
    /// replies.
    #[arg(long, value_name = "N|max", default_value = "1", value_parser = speed)]
    speed: Speed,
    /// Threads that send.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Connections, over all threads.
    #[arg(long, value_name = "N", default_value_t = 4)]
    connections: usize,
    /// Requests on the way at a time, per connection.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pipeline: usize,
    /// Send reads only, and store nothing.
    #[arg(long)]
    read_only: bool,
    /// Stop after so many requests of the trace.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    requests: u64,
    /// What every key begins with, so that replays do not meet each other's keys.
    #[arg(long, value_name = "TEXT", default_value = "")]
    key_prefix: String,
    /// Write the report as JSON (- is standard output, without the table).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show no progress.
    #[arg(short, long)]
    quiet: bool,
}

const TARGETS: &str = "this is no target of a replay: memcached://HOST:PORT, memcacheds://HOST:PORT, \
                       unix:///PATH or native://HOST:PORT";

fn target(text: &str) -> Result<Address, String> {
    match text.split_once("://") {
        Some(("unix" | "memcached" | "memcacheds" | "native", _)) => text.parse(),
        Some(("memcached+udp", place)) => Err(format!(
            "what gets lost would stay lost, and the misses would not be the trace's; \
             replay over TCP, to memcached://{}, or to native://HOST:PORT, whose client sends it again",
            without_login(place)
        )),
        _ => Err(TARGETS.to_owned()),
    }
}

/// Divisor of the trace's times; none means as fast as possible.
#[derive(Clone, Copy, Debug)]
struct Speed(Option<f64>);

fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed(None));
    }
    match text.parse::<f64>() {
        Ok(speed) if (1e-6..=1e9).contains(&speed) => Ok(Speed(Some(speed))),
        _ => Err("a number from 0.000001 to 1000000000, or max".to_owned()),
    }
}

impl ReplayOptions {
    fn check(&self) -> Result<(), Failure> {
        let bounded = |name: &str, number: usize, max: usize| match number {
            0 => Err(Failure::usage(format!("--{name} 0 replays nothing"))),
            _ if number > max => Err(Failure::usage(format!("--{name}: at most {max}"))),
            _ => Ok(()),
        };
        bounded("threads", self.threads, THREADS_MAX)?;
        bounded("connections", self.connections, CONNECTIONS_MAX)?;
        bounded("pipeline", self.pipeline, PIPELINE_MAX)?;
        if self.connections < self.threads {
            let reason = "every thread needs a connection: raise --connections";
            return Err(Failure::usage(reason));
        }
        let prefix = self.key_prefix.as_bytes();
        if prefix.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
            return Err(Failure::usage("--key-prefix: no blanks, no control characters"));
        }
        let prefix_max = KEY_BYTES_MAX - NUMBER_CHARACTERS;
        if prefix.len() > prefix_max {
            return Err(Failure::usage(format!("--key-prefix: at most {prefix_max} bytes")));
        }
        Ok(())
    }

    /// Begins the report's file: that it cannot be written is found out before the replay.
    fn begin_json(&self) -> Result<(), Failure> {
        match self.json.as_deref() {
            Some(path) if !output::is_stdout(Some(path)) => output::write(path, ""),
            _ => Ok(()),
        }
    }

    fn plan(&self, server: &Server) -> Plan {
        Plan {
            trace: self.file.display().to_string(),
            target: self.url.to_string(),
            speed: self.speed.0,
            threads: self.threads,
            connections: self.connections,
            pipeline: self.pipeline,
            read_only: self.read_only,
            key_prefix: self.key_prefix.clone(),
            datagram_bytes: server.datagram_bytes,
        }
    }
}

/// Replays a trace, and reports.
///
/// # Errors
/// When the options do not make sense, the trace cannot be read, or the server fails.
pub fn replay(options: &ReplayOptions) -> Result<(), Failure> {
    options.check()?;
    options.begin_json()?;
    let mut url = options.url.clone();
    options.tls.apply(std::slice::from_mut(&mut url)).map_err(Failure::usage)?;
    let mut opened = open(&options.file, options.format)?;
    let endpoint = url.resolve().map_err(Failure::new)?;
    let server = Server::meet(&url, &endpoint).map_err(Failure::new)?;
    let mut connections = Vec::new();
    for _ in 0..options.threads {
        connections.push(Vec::new());
    }
    for number in 0..options.connections {
        let opened = connection::open(&url, &endpoint, &server, options.pipeline);
        connections[number % options.threads].push(opened.map_err(Failure::new)?);
    }
    let common = Arc::new(Common {
        clock: Clock::starting_in(Duration::ZERO),
        is_timed: options.speed.0.is_some(),
        prefix_bytes: options.key_prefix.len() as u64,
        is_ending: AtomicBool::new(false),
        live: Live::default(),
    });
    let is_interrupted = end_at_a_signal(&common)?;
    let plan = options.plan(&server);
    let translator = plan.translator();
    let (source, tally, seconds, failure) = run(options, translator, &mut opened, &common, connections);
    let report = Report::new(
        plan,
        server.version,
        source,
        &tally,
        seconds,
        is_interrupted.load(Ordering::Relaxed),
        common.clock.now_ns() as f64 / 1e9,
    );
    opened.print_remarks(&options.file);
    report.write(options.json.as_deref())?;
    match failure {
        None if report.requests == 0 && report.sent == 0 => {
            Err(Failure::new("nothing of this trace was sent"))
        }
        None => Ok(()),
        Some(reason) => Err(Failure::new(reason)),
    }
}

type Ran = (Source, Tally, Vec<super::progress::Second>, Option<String>);

/// Reads the trace here, and sends on other threads.
fn run(
    options: &ReplayOptions,
    translator: Translator,
    opened: &mut Opened,
    common: &Common,
    connections: Vec<Vec<Box<dyn Connection>>>,
) -> Ran {
    let (dispatcher, receivers) = Dispatcher::new(options.threads);
    let (end, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let workers: Vec<_> = receivers
            .into_iter()
            .zip(connections)
            .map(|(batches, connections)| {
                let worker = Worker::new(common, batches, connections, options.pipeline);
                scope.spawn(move || worker.run())
            })
            .collect();
        let shown = !options.quiet;
        let watching = scope.spawn(move || watch(&common.live, common.clock, &ended, shown));
        let mut source = Source::default();
        let before_s = thread_cpu_s();
        let read = read(options, translator, opened, common, dispatcher, &mut source);
        source.cpu_s = thread_cpu_s().zip(before_s).map(|(after_s, before_s)| after_s - before_s);
        let mut failure = read.err().map(|failure| failure.reason);
        let mut tally = Tally::default();
        for worker in workers {
            match worker.join() {
                Ok((its, reason)) => {
                    tally.add(&its);
                    failure = failure.take().or(reason.map(|why| format!("{}: {why}", options.url)));
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        drop(end);
        let seconds = watching.join().unwrap_or_default();
        (source, tally, seconds, failure)
    })
}

/// Hands the trace to the workers, request by request.
fn read(
    options: &ReplayOptions,
    mut translator: Translator,
    opened: &mut Opened,
    common: &Common,
    mut dispatcher: Dispatcher,
    source: &mut Source,
) -> Result<(), Failure> {
    let mut schedule = Schedule::new(options.speed.0);
    let mut left = options.requests;
    let mut result = Ok(());
    while left > 0 && !dispatcher.is_over && !common.is_ending.load(Ordering::Relaxed) {
        let request = match opened.reader.next() {
            Ok(Some(request)) => request,
            Ok(None) => break,
            Err(failure) => {
                result = Err(failure);
                break;
            }
        };
        left -= 1;
        source.read += 1;
        source.operations[request.operation as usize] += 1;
        match translator.step(&request) {
            Ok(step) => schedule.push(step, &translator.key, request.time_ms, |step, key| {
                dispatcher.push(step, key);
            }),
            Err(Skip::Write) => source.skipped_writes += 1,
            Err(Skip::UnknownSize) => source.skipped_unknown_size += 1,
            Err(Skip::TooLarge) => source.skipped_too_large += 1,
        }
    }
    if !common.is_ending.load(Ordering::Relaxed) {
        schedule.finish(|step, key| dispatcher.push(step, key));
    }
    dispatcher.finish();
    source.keys_replaced = translator.keys_replaced;
    result
}

/// The first SIGINT or SIGTERM ends the replay, with the report so far; the second one ends the
/// program.
fn end_at_a_signal(common: &Arc<Common>) -> Result<Arc<AtomicBool>, Failure> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    let failed = |error| Failure::new(format!("cannot wait for signals: {error}"));
    signals.thread_block().map_err(failed)?;
    let (common, interrupted) = (Arc::clone(common), Arc::clone(&is_interrupted));
    std::thread::spawn(move || {
        let mut first: Option<Instant> = None;
        while signals.wait().is_ok() {
            let first = first.get_or_insert_with(Instant::now);
            if first.elapsed() > SIGNAL_PAUSE {
                std::process::exit(EXIT_INTERRUPTED);
            }
            interrupted.store(true, Ordering::Relaxed);
            common.is_ending.store(true, Ordering::Relaxed);
        }
    });
    Ok(is_interrupted)
}
