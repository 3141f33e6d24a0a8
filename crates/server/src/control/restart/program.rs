//! The program itself: its file and its options, to be tried out and executed anew.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::handover::{HISTORY_VARIABLE, VARIABLE};
use super::trial::VARIABLE as TRIAL_VARIABLE;
use super::{Handover, Trial};

/// Variables set by systemd for this program. The next one must not see them.
const LISTEN_VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];
/// Deadline of the trial: longer than a busy machine takes for it.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(60);
const TRIAL_POLL: Duration = Duration::from_millis(2);

/// The program as it was started: its file, which may hold a newer version by now.
#[derive(Clone, Debug)]
pub struct Program {
    file: PathBuf,
    arguments: Vec<OsString>,
    directory: PathBuf,
}

impl Program {
    /// Returns the program of this process. Call it at start.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn current() -> io::Result<Self> {
        Ok(Self {
            file: std::env::current_exe()?,
            arguments: std::env::args_os().skip(1).collect(),
            directory: std::env::current_dir()?,
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.args(&self.arguments).current_dir(&self.directory);
        for name in LISTEN_VARIABLES {
            command.env_remove(name);
        }
        command
    }

    /// Checks that the program would start with these options now.
    pub fn try_out(&self, trial: &Trial) -> Result<(), String> {
        let file = self.file.display();
        let failed = |error: io::Error| format!("cannot execute {file}: {error}");
        let mut process = self
            .command()
            .arg("--print-config")
            .env(TRIAL_VARIABLE, trial.text())
            .env_remove(VARIABLE)
            .env_remove(HISTORY_VARIABLE)
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let end = Instant::now() + TRIAL_TIMEOUT;
        while process.try_wait().map_err(failed)?.is_none() {
            if Instant::now() > end {
                // It may have ended at this moment; it is waited for in any case.
                let _ = process.kill();
                let _ = process.wait();
                return Err(format!("{file} --print-config does not end"));
            }
            std::thread::sleep(TRIAL_POLL);
        }
        let output = process.wait_with_output().map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().trim_start_matches("micanite: ");
        Err(format!("{file} would not start: {said}"))
    }

    /// Executes it in the place of this one. Returns only when that fails.
    pub fn execute(&self, handover: &Handover) -> io::Error {
        let process = std::process::id();
        let mut command = self.command();
        command.env_remove(TRIAL_VARIABLE).env_remove(HISTORY_VARIABLE).env(VARIABLE, handover.text(process));
        if let Some(text) = handover.history_text(process) {
            command.env(HISTORY_VARIABLE, text);
        }
        command.exec()
    }
}
