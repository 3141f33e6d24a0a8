//! Parts of a request's time on the server's core: loops over the same frames, each of which does a step more
//! than the one before (billion-rps, figure 6).

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::time::Duration;

use super::Options;
use super::servers::{Medium, Program, Server};
use super::sides::Side;
use super::stage::Stage;
use super::throughput::{SEED, shape};
use crate::results::measurement::Measurement;
use crate::results::statistics::median;
use crate::{Common, Result};

/// The loops, and what each adds to the one before.
const STEPS: [(Stage, &str); 5] = [
    (Stage::Io, "I/O"),
    (Stage::Echo, "headers"),
    (Stage::Parse, "parse"),
    (Stage::Engine, "engine"),
    (Stage::All, "reply"),
];
const MIXES: [u64; 2] = [95, 50];
/// Servers that run besides have the numbers below.
const NUMBER: u8 = 100;

pub(super) fn run(options: &Options, cpu: usize, report: &mut Measurement) -> Result<()> {
    let case = |get_percent: u64| format!("memif/tiny/{get_percent}/parts");
    let wants = |common: &Common, mix| common.wants(&case(mix));
    let mixes: Vec<_> = MIXES.into_iter().filter(|mix| wants(&options.common, *mix)).collect();
    if mixes.is_empty() {
        return Ok(());
    }
    // Times by mix, step and round.
    let mut all_ns = vec![Vec::new(); mixes.len()];
    // They stand still when they are done, and end together.
    let mut done = Vec::new();
    for (number, (stage, _)) in (NUMBER..).zip(STEPS) {
        eprint!("\rtime of a request, up to {}   ", stage.name());
        let items = options.items;
        let program = Program::Stage { stage, timed: true, items };
        let mut server = Server::start(number, Medium::Memif, program, cpu)?;
        let mut clock = Clock::of(&mut server)?;
        for (place, mix) in mixes.iter().enumerate() {
            let requests = server.prepare(&shape(*mix, 1), items, 1 << 20, SEED)?;
            let mut side = Side::new(0, requests);
            side.warm_up(&mut server, Duration::from_millis(100))?;
            let mut rounds_ns = Vec::new();
            for _ in 0..options.common.rounds() {
                let before = clock.read()?;
                side.closed(&mut server, Duration::from_millis(300))?;
                let after = clock.read()?;
                rounds_ns.push((after.1 - before.1) as f64 / (after.0 - before.0) as f64);
            }
            all_ns[place].push(rounds_ns);
        }
        server.process.pause();
        done.push(server);
    }
    eprintln!();
    for (mix, steps_ns) in mixes.into_iter().zip(&all_ns) {
        record(&case(mix), steps_ns, report);
    }
    Ok(())
}

/// Enters the time that each step adds to the one before.
fn record(case: &str, steps_ns: &[Vec<f64>], report: &mut Measurement) {
    let mut before_ns = 0.0;
    for ((_, part), rounds_ns) in STEPS.into_iter().zip(steps_ns) {
        let added_ns: Vec<_> = rounds_ns.iter().map(|ns| ns - before_ns).collect();
        report.value(case, part, "ns", &added_ns);
        before_ns = median(rounds_ns);
    }
    if let Some(all_ns) = steps_ns.last() {
        report.value(case, "all", "ns", all_ns);
    }
}

/// Asks a server what it has done.
struct Clock {
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Clock {
    fn of(server: &mut Server) -> Result<Self> {
        let (questions, answers) = server.process.pipes()?;
        Ok(Self { questions, answers: BufReader::new(answers) })
    }

    /// Datagrams so far, and the nanoseconds of the rounds that found some.
    fn read(&mut self) -> Result<(u64, u64)> {
        self.questions.write_all(b"\n")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next().ok_or("the server says nothing");
        let (datagrams, _bursts, busy_ns) = (next()??, next()??, next()??);
        Ok((datagrams, busy_ns))
    }
}
