//! What `ctl record` costs: one of our servers under the same load in turns, recording nothing, a
//! hundredth of its keys, and all of them. The thread that writes the file counts, and runs on the
//! worker's core.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::peers::Peer;
use super::rounds::{Rounds, slice_duration};
use super::{Options, fill_long_keys};
use crate::Result;
use crate::client::{Client, KEY_BYTES_MAX, Mix, Workload};
use crate::measurement::Measurement;
use crate::popularity::Popularity;

const ITEMS: u64 = 1 << 20;
const VALUE_BYTES: usize = 32;
const GETS: Mix = Mix::Single { set_percent: 0 };
/// Name, connections, pipeline, mix.
const CASES: [(&str, usize, usize, Mix); 3] = [
    ("record, 50 connections, 1 GET in flight", 50, 1, GETS),
    ("record, 4 connections, pipelines of 32 GETs", 4, 32, GETS),
    (
        "record, 4 connections, multi-get of 100",
        4,
        100,
        Mix::MultiGet,
    ),
];
/// Name and fraction; the first is what the others stand beside.
const SIDES: [(&str, Option<&str>); 3] = [
    ("nothing recorded", None),
    ("1 % recorded", Some("0.01")),
    ("all recorded", Some("1")),
];

pub(crate) fn run(options: &Options, cpu: usize, report: &mut Measurement) -> Result<()> {
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
    let peer = Peer::micanite(&options.server, &flags, cpu)?;
    fill_long_keys(&peer, ITEMS, VALUE_BYTES)?;
    let recorder = Recorder {
        server: &options.server,
        socket: &socket,
        file: directory.join("record.rec"),
    };
    for case in cases {
        measure(case, &peer, &recorder, options, report)?;
    }
    Ok(())
}

fn measure(
    (name, connections, pipeline, mix): &(&str, usize, usize, Mix),
    peer: &Peer,
    recorder: &Recorder<'_>,
    options: &Options,
    report: &mut Measurement,
) -> Result<()> {
    let workload = Workload {
        mix: *mix,
        pipeline: *pipeline,
        key_bytes: KEY_BYTES_MAX,
        value_bytes: VALUE_BYTES,
        items: Arc::new(Popularity::Zipf.draw(ITEMS, 1 << 20, 3)),
    };
    let mut client = Client::connect(peer.address, *connections, &workload)?;
    let duration = slice_duration(&options.common);
    client.run(duration / 4)?;
    let mut rounds = SIDES.map(|_| Rounds::default());
    let mut dropped = String::new();
    for round in 0..options.common.rounds() {
        for ((side, fraction), rounds) in SIDES.iter().zip(&mut rounds) {
            if let Some(fraction) = fraction {
                recorder.start(fraction)?;
            }
            rounds.add(peer, &mut client, duration)?;
            if fraction.is_some() {
                let told = recorder.stop()?;
                if !told.contains("none dropped") {
                    dropped = format!("{name}, {side}: {}", told.trim());
                }
            }
        }
        let last = options.common.rounds();
        eprint!("\r{name}, round {} of {last}   ", round + 1);
    }
    eprintln!();
    if !dropped.is_empty() {
        report.note(dropped);
    }
    let [off, on @ ..] = &rounds;
    off.found_percent(peer)?;
    for ((side, _), rounds) in SIDES[1..].iter().zip(on) {
        let case = format!("{name}, {side}");
        let what = (case.as_str(), "per server-core-second", "ops");
        report.beside(
            what,
            &rounds.per_core_second,
            SIDES[0].0,
            &off.per_core_second,
        );
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
