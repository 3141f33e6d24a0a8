//! A started program: its log, waiting until it is ready, pausing, its end.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::launch::{self, Cpus};
use crate::Result;

/// Pause between two looks at a program that is not ready.
const LOOK: Duration = Duration::from_millis(20);
/// A program has so long to end by itself.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// Ends with this value, and with this process in whatever way that ends.
pub(crate) struct Process {
    pub name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a pinned program. What it prints goes to its log. `asks`: its standard input and output
    /// are pipes instead.
    pub fn start(name: &str, command: &[OsString], cpus: impl Cpus, asks: bool) -> Result<Self> {
        let log = log(name)?;
        let file = File::create(&log)?;
        let mut launcher = launch::command(cpus, command)?;
        launcher.stderr(file.try_clone()?);
        match asks {
            true => launcher.stdin(Stdio::piped()).stdout(Stdio::piped()),
            false => launcher.stdin(Stdio::null()).stdout(file),
        };
        Ok(Self::new(name, launcher.spawn()?, log))
    }

    /// A program that was started otherwise, and prints to this log.
    pub fn new(name: &str, child: Child, log: PathBuf) -> Self {
        Self { name: name.to_owned(), child, log }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The pipes of a program that was started to be asked.
    pub fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout)> {
        let pipes = self.child.stdin.take().zip(self.child.stdout.take());
        pipes.ok_or_else(|| format!("{} has no pipes", self.name).into())
    }

    /// Tries until something succeeds.
    ///
    /// # Errors
    /// When the program ends, or does not answer for so long.
    pub fn wait_until<T>(&mut self, patience: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                let (name, said) = (&self.name, self.said());
                return Err(format!("{name} ended at its start ({status}): {said}").into());
            }
            match attempt() {
                Ok(done) => return Ok(done),
                Err(error) if Instant::now() > end => {
                    let (name, said) = (&self.name, self.said());
                    return Err(format!("{name} does not answer: {error} {said}").into());
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    fn said(&self) -> String {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        said.trim_end().to_owned()
    }

    /// Keeps it from running.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it run again.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        // One that has ended shows by not answering.
        let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.resume();
        self.signal(Signal::SIGTERM);
        let end = Instant::now() + END_TIME_MAX;
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns where a program of this name prints to. Each has a file of its own: several programs of
/// one name may run side by side.
pub(crate) fn log(name: &str) -> Result<PathBuf> {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let folder = Path::new("target/bench");
    std::fs::create_dir_all(folder)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    Ok(folder.join(format!("{name}-{number}.log")))
}
