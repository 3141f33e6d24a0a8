//! A command in a process group of its own, which ends with the report, however that ends.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::harness::launch;
use crate::report::clock::span;

/// Time for a command to end when it is asked to.
const GRACE: Duration = Duration::from_secs(5);

/// Interval at which a running command's progress is printed.
const TELLING: Duration = Duration::from_secs(15);

/// A command and its limits.
pub(crate) struct Start<'a> {
    pub program: &'a Path,
    pub arguments: &'a [String],
    /// Folder for the lab's results.
    pub results: &'a Path,
    pub log: &'a Path,
    /// Longer than that is too long.
    pub most: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    Failed(ExitStatus),
    /// Took too long.
    Hung,
    /// The report was asked to end.
    Interrupted,
}

/// Signals to this process, taken up here instead of ending it.
pub(crate) struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// Takes signals up from now on; call it before any thread is started.
    pub fn take() -> Result<Self, String> {
        let mut set = ending();
        set.add(Signal::SIGCHLD);
        let failed = |error| format!("cannot take up signals: {error}");
        set.thread_block().map_err(failed)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let descriptor = SignalFd::with_flags(&set, flags).map_err(failed)?;
        Ok(Self { descriptor })
    }

    /// Waits until there is a signal, or so long; whether one of them asks to end.
    fn wait(&self, most: Duration) -> bool {
        let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
        let mut ready = [PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut ready, most);
        let mut is_asked = false;
        while let Ok(Some(signal)) = self.descriptor.read_signal() {
            is_asked |= signal.ssi_signo != Signal::SIGCHLD as u32;
        }
        is_asked
    }
}

fn ending() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])
}

/// Runs a command to its end.
///
/// # Errors
/// When it cannot be started at all.
pub(crate) fn run(start: &Start<'_>, signals: &Signals) -> Result<Ended, String> {
    let file =
        |path: &Path| File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()));
    let log = file(start.log)?;
    let both = log.try_clone().map_err(|error| error.to_string())?;
    let words: Vec<OsString> =
        std::iter::once(start.program.into()).chain(start.arguments.iter().map(OsString::from)).collect();
    let mut child = launch::command((), &words)
        .map_err(|error| format!("cannot find this program: {error}"))?
        .env("MICANITE_BENCH_DIR", start.results)
        .stdin(Stdio::null())
        .stdout(both)
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", start.program.display()))?;
    let began = Instant::now();
    let deadline = began + start.most;
    let mut told = began;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break Ended::Well,
            Ok(Some(status)) => break Ended::Failed(status),
            Ok(None) => {}
            Err(error) => {
                return Err(format!("cannot wait for {}: {error}", start.program.display()));
            }
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break Ended::Hung;
        }
        if signals.wait(left.min(TELLING)) {
            break Ended::Interrupted;
        }
        if told.elapsed() >= TELLING {
            told = Instant::now();
            let said = std::fs::read_to_string(start.log).unwrap_or_default();
            eprintln!("      {}: {}", span(began.elapsed().as_secs_f64()), last_line(&said));
        }
    };
    end(&mut child, &ended, signals);
    Ok(ended)
}

/// Last line of a command's output; of a line that is written over, how it is now.
fn last_line(said: &str) -> &str {
    let lines = said.rsplit(['\r', '\n']).map(str::trim);
    lines.into_iter().find(|line| !line.is_empty()).unwrap_or("nothing said yet")
}

/// Ends what is left of a command and its group.
fn end(child: &mut Child, ended: &Ended, signals: &Signals) {
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    if matches!(ended, Ended::Hung | Ended::Interrupted) {
        let _ = killpg(group, Signal::SIGTERM);
        let deadline = Instant::now() + GRACE;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
            signals.wait(deadline.saturating_duration_since(Instant::now()));
        }
    }
    // Kills the processes that the command has left behind, too.
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::last_line;

    #[test]
    fn overwritten_lines_are_not_the_last_line() {
        assert_eq!(last_line(""), "nothing said yet");
        assert_eq!(last_line("note: a\nfilling: 10 %   \rfilling: 20 %   "), "filling: 20 %");
        assert_eq!(last_line("one\ntwo\n\n"), "two");
    }
}
