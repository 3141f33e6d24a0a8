//! Cost of `ctl record`: one of our servers under the same load in turns, recording nothing, a
//! hundredth of its keys, and all of them. The thread that writes the file counts, and runs on the
//! worker's core.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Options;
use super::load::{Client, Data};
use super::sides::Side;
use crate::Result;
use crate::results::measurement::Measurement;

const DATA: Data<'_> = Data { set: "16/32", items: 1 << 20 };
/// Name, and options of `micanite load`.
const CASES: [(&str, &[&str]); 3] = [
    ("record, 50 connections, 1 GET in flight", &["--connections", "50"]),
    ("record, 4 connections, pipelines of 32 GETs", &["--connections", "4", "--batch", "32"]),
    ("record, 4 connections, multi-get of 100", &["--connections", "4", "--multiget", "100"]),
];
/// Name and fraction; the first is what the others stand beside.
const WAYS: [(&str, Option<&str>); 3] =
    [("nothing recorded", None), ("1 % recorded", Some("0.01")), ("all recorded", Some("1"))];

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let cases = CASES.iter().filter(|case| options.common.wants(case.0));
    let cases: Vec<_> = cases.collect();
    if cases.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all("target/bench")?;
    let directory = std::fs::canonicalize("target/bench")?;
    // The path of a socket is short.
    let socket = std::env::temp_dir().join(format!("micanite-lab-{}.ctl", std::process::id()));
    let text = socket.to_string_lossy();
    let flags = ["-m", "512", "--item-size", "48", "--control-socket", &text];
    let sides = [Side::tcp(options, &flags, cpus[0])?];
    let client = Client::filled(options, cpus, DATA, &sides)?;
    let recorder =
        Recorder { server: &options.binaries.server, socket: &socket, file: directory.join("record.rec") };
    for case in cases {
        measure(case, &client, &sides[0], &recorder, report)?;
    }
    Ok(())
}

fn measure(
    (name, load): &(&str, &[&str]),
    client: &Client<'_>,
    side: &Side,
    recorder: &Recorder<'_>,
    report: &mut Measurement,
) -> Result<()> {
    let load = [load, &["--get", "100", "--popularity", "zipf:0.99"][..]].concat();
    let mut rates = WAYS.map(|_| Vec::new());
    let mut dropped = String::new();
    for round in 0..client.options.common.rounds() {
        eprint!("\r{name}, round {}   ", round + 1);
        for ((way, fraction), rates) in WAYS.iter().zip(&mut rates) {
            if let Some(fraction) = fraction {
                recorder.start(fraction)?;
            }
            rates.push(client.slice(side, &load)?.per_core_second);
            if fraction.is_some() {
                let told = recorder.stop()?;
                if !told.contains("none dropped") {
                    dropped = format!("{name}, {way}: {}", told.trim());
                }
            }
        }
    }
    eprintln!();
    if !dropped.is_empty() {
        report.note(dropped);
    }
    let [off, on @ ..] = &rates;
    for ((way, _), rates) in WAYS[1..].iter().zip(on) {
        let case = format!("{name}, {way}");
        let what = (case.as_str(), "per server-core-second", "ops");
        report.beside(what, rates, WAYS[0].0, off);
    }
    Ok(())
}

/// Tells the server what to record.
struct Recorder<'a> {
    server: &'a Path,
    socket: &'a Path,
    file: PathBuf,
}

impl Recorder<'_> {
    fn start(&self, fraction: &str) -> Result<()> {
        self.remove()?;
        let mut command = self.command();
        command.arg(&self.file).args(["--fraction", fraction]);
        told(command).map(drop)
    }

    /// Ends it, and returns what became of it.
    fn stop(&self) -> Result<String> {
        let mut command = self.command();
        command.arg("--stop");
        let text = told(command)?;
        self.remove()?;
        Ok(text)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.server);
        command.args(["ctl", "record", "--socket"]).arg(self.socket);
        command
    }

    fn remove(&self) -> Result<()> {
        match std::fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn told(mut command: Command) -> Result<String> {
    let ended = command.output()?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(format!("it does not record: {}", said.trim()).into());
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}
