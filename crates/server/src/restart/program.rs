//! The program itself: its file and its options, to be tried out and executed anew.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Handover;
use super::handover::VARIABLE;

/// Tells a program that it is only tried out.
const TRIAL_VARIABLE: &str = "MICANITE_TRIAL";

/// What systemd tells; it is of no use to the program that comes next.
const LISTEN_VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];
/// How long the trial may take.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(10);
const TRIAL_POLL: Duration = Duration::from_millis(2);

/// The program as it was started: its file, which may hold a newer version by now.
#[derive(Clone, Debug)]
pub struct Program {
    file: PathBuf,
    arguments: Vec<OsString>,
    directory: PathBuf,
}

/// Whether this process only has to find out whether it could start, as the user that it would
/// be.
pub fn is_trial() -> bool {
    std::env::var_os(TRIAL_VARIABLE).is_some()
}

impl Program {
    /// Of this process; to be asked at its start.
    ///
    /// # Errors
    /// What the kernel says.
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

    /// Whether the program would start with these options now.
    pub fn try_out(&self) -> Result<(), String> {
        let file = self.file.display();
        let failed = |error: io::Error| format!("cannot execute {file}: {error}");
        let mut trial = self
            .command()
            .arg("--print-config")
            .env(TRIAL_VARIABLE, "1")
            .env_remove(VARIABLE)
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let end = Instant::now() + TRIAL_TIMEOUT;
        while trial.try_wait().map_err(failed)?.is_none() {
            if Instant::now() > end {
                // It may have ended at this moment; it is waited for in any case.
                let _ = trial.kill();
                let _ = trial.wait();
                return Err(format!("{file} --print-config does not end"));
            }
            std::thread::sleep(TRIAL_POLL);
        }
        let output = trial.wait_with_output().map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().trim_start_matches("micanite: ");
        Err(format!("{file} would not start: {said}"))
    }

    /// Executes it in the place of this one. Returns only when that fails.
    pub fn execute(&self, handover: &Handover) -> io::Error {
        let text = handover.text(std::process::id());
        let mut command = self.command();
        command
            .env_remove(TRIAL_VARIABLE)
            .env(VARIABLE, text)
            .exec()
    }
}
