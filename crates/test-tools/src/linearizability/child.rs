//! Client processes that are killed. What they recorded until then is in their pipe.

use std::io::{BufReader, stdout};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Options;
use super::client::Client;
use super::journal::{Journal, Pipe};
use super::ports::PortName;
use crate::Result;

/// A client process: operations until it is killed, or its parent has gone.
pub(super) fn run(options: &Options, number: u32) -> Result<()> {
    let name = options.ports.first().ok_or("a client process needs a port")?;
    let mut client = Client::new(name, options.workload(), number, Pipe(stdout().lock()));
    while client.step()? {}
    Ok(())
}

fn spawn(name: &PortName, options: &Options, number: u32) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("linearizability").args(["--port", &name.to_string()]);
    for (word, value) in [
        ("--child", u64::from(number)),
        ("--keys", u64::from(options.keys)),
        ("--value-bytes", options.value_bytes as u64),
        ("--gets", options.gets),
        ("--flushes", options.flushes),
        ("--seed", options.seed),
    ] {
        command.arg(word).arg(value.to_string());
    }
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
}

/// Waits, at most until the end.
fn wait(ms: u64, ended: &AtomicBool) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(ms) && !ended.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(2));
    }
}

/// Removes the memory that a killed process shared by the provider shm: files whose names begin with its id.
fn remove_files_of(process: u32) -> Result<()> {
    for entry in std::fs::read_dir("/dev/shm")? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&format!("{process}:")) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Starts client processes and kills them, one after the other. Returns a journal of each, the first empty:
/// nobody killed it.
pub(super) fn run_killed(
    name: &PortName,
    options: &Options,
    first: u32,
    ended: &AtomicBool,
) -> Result<Vec<Journal>> {
    let mut journals = vec![Journal::default()];
    while !ended.load(Ordering::Relaxed) {
        let mut child = spawn(name, options, first + journals.len() as u32)?;
        let output = child.stdout.take().ok_or("a client process without output")?;
        let reader = thread::spawn(move || {
            let mut journal = Journal::default();
            let read = journal.read(BufReader::new(output)).map_err(|error| error.to_string());
            read.map(|()| journal)
        });
        wait(options.kill_ms, ended);
        if options.stop_ms > 0 {
            let process = Pid::from_raw(child.id() as i32);
            kill(process, Signal::SIGSTOP)?;
            wait(options.stop_ms, ended);
            kill(process, Signal::SIGCONT)?;
            wait(options.kill_ms, ended);
        }
        child.kill()?;
        child.wait()?;
        remove_files_of(child.id())?;
        journals.push(reader.join().map_err(|_| "a reader of records panicked")??);
    }
    Ok(journals)
}
