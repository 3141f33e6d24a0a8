//! Parts of a request's time on the server's core, sampled in the server's own loop (billion-rps, figure 6).

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use super::Options;
use super::samples::PARTS;
use super::servers::{Medium, Program, Server};
use super::sides::Side;
use super::stage::Stage;
use super::throughput::{SEED, shape};
use crate::Result;
use crate::results::measurement::Measurement;

const MIXES: [u64; 2] = [95, 50];
/// Servers that run besides have the numbers below.
const NUMBER: u8 = 100;
/// A round, and the pause behind it, in which what real-time tasks keep off the cores may run.
const ROUND: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(400);

pub(super) fn run(options: &Options, cpu: usize, report: &mut Measurement) -> Result<()> {
    let case = |get_percent: u64| format!("memif/tiny/{get_percent}/parts");
    let mixes: Vec<_> = MIXES.into_iter().filter(|mix| options.common.wants(&case(*mix))).collect();
    if mixes.is_empty() {
        return Ok(());
    }
    let items = options.items;
    let program = Program::Stage { stage: Stage::Server, items };
    let mut server = Server::start(NUMBER, Medium::Memif, program, cpu)?;
    let mut counter = Counter::of(&mut server)?;
    for mix in mixes {
        let requests = server.prepare(&shape(mix, 1), items, 1 << 20, SEED)?;
        let mut side = Side::new(0, requests);
        let mut parts_ns = vec![Vec::new(); PARTS.len()];
        let mut all_ns = Vec::new();
        for round in 0..options.common.rounds() {
            eprint!("\rparts of a request's time, {mix} % GET, round {round}   ");
            side.warm_up(&mut server, ROUND / 8)?;
            let (before, began) = (counter.read()?, Instant::now());
            let tally = side.closed(&mut server, ROUND)?;
            let (after, elapsed_ns) = (counter.read()?, began.elapsed().as_nanos() as f64);
            server.process.pause();
            std::thread::sleep(PAUSE);
            server.process.resume();
            let round_ns = of_round(&before, &after, elapsed_ns / tally.succeeded as f64)?;
            all_ns.push(round_ns.iter().sum());
            for (all, part_ns) in parts_ns.iter_mut().zip(round_ns) {
                all.push(part_ns);
            }
        }
        for (part, rounds_ns) in PARTS.iter().zip(&parts_ns) {
            report.value(&case(mix), part, "ns", rounds_ns);
        }
        report.value(&case(mix), "all", "ns", &all_ns);
    }
    eprintln!();
    Ok(())
}

/// Time of each part of a request, by samples before and after a round. The last count is what is no
/// request's.
fn of_round(before: &[u64], after: &[u64], request_ns: f64) -> Result<Vec<f64>> {
    let samples: Vec<_> =
        before.iter().zip(after).map(|(before, after)| after.saturating_sub(*before)).collect();
    let all: u64 = samples.iter().sum();
    if all == 0 || samples.len() != PARTS.len() + 1 {
        return Err("the server's loop was not sampled".into());
    }
    Ok(samples[..PARTS.len()].iter().map(|count| *count as f64 / all as f64 * request_ns).collect())
}

/// Asks a server for its samples.
struct Counter {
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Counter {
    fn of(server: &mut Server) -> Result<Self> {
        let (questions, answers) = server.process.pipes()?;
        Ok(Self { questions, answers: BufReader::new(answers) })
    }

    fn read(&mut self) -> Result<Vec<u64>> {
        self.questions.write_all(b"\n")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let counts: std::result::Result<_, _> = line.split_whitespace().map(str::parse::<u64>).collect();
        Ok(counts?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_shares_of_a_request_without_what_is_no_request() {
        let parts_ns = of_round(&[1, 0, 0, 0, 0, 5], &[11, 20, 30, 0, 20, 25], 200.0).unwrap();
        assert_eq!(parts_ns, [20.0, 40.0, 60.0, 0.0, 40.0]);
        assert!(of_round(&[1; 6], &[1; 6], 200.0).is_err());
    }
}
