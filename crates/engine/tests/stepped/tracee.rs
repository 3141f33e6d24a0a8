//! The writer's thread under ptrace.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

pub const DIRECTORY: &str = "MICANITE_STEPPED_DIRECTORY";
pub const SEMANTICS: &str = "MICANITE_STEPPED_SEMANTICS";
pub const SCRIPT: &str = "MICANITE_STEPPED_SCRIPT";

/// A process of which one thread is traced; killed when dropped.
pub struct Tracee {
    child: Child,
    thread: Pid,
}

/// Reason for a stop of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// One more instruction was executed.
    Instruction,
    /// It has stopped before or after an operation.
    Signal,
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // It may have ended by itself. The tracer has to reap it, too.
        let _ = self.child.kill();
        while let Ok(status) = waitpid(self.thread, Some(WaitPidFlag::__WALL)) {
            if !matches!(status, WaitStatus::Stopped(..)) {
                break;
            }
        }
        let _ = self.child.wait();
    }
}

impl Tracee {
    /// Starts the writer and stops it. `Err`: the reason why it cannot be traced.
    pub fn start(directory: &Path, semantics: &str, script: &str) -> Result<Self, String> {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer_process", "--nocapture"])
            .env(DIRECTORY, directory)
            .env(SEMANTICS, semantics)
            .env(SCRIPT, script)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let thread = loop {
            if let Ok(thread) = fs::read_to_string(directory.join("thread")) {
                break Pid::from_raw(thread.parse().unwrap());
            }
            assert!(child.try_wait().unwrap().is_none(), "the writer ended");
            assert!(Instant::now() < deadline, "the writer did not begin");
            std::thread::sleep(Duration::from_millis(1));
        };
        let tracee = Self { child, thread };
        ptrace::attach(thread).map_err(|error| format!("ptrace: {error}"))?;
        assert_eq!(tracee.wait(), Signal::SIGSTOP);
        fs::write(directory.join("go"), "").unwrap();
        Ok(tracee)
    }

    fn wait(&self) -> Signal {
        match waitpid(self.thread, Some(WaitPidFlag::__WALL)).unwrap() {
            WaitStatus::Stopped(_, signal) => signal,
            other => panic!("the writer ended: {other:?}"),
        }
    }

    /// Lets the writer continue to its next signal.
    pub fn run_to_signal(&self) {
        ptrace::cont(self.thread, None).unwrap();
        assert_eq!(self.wait(), Signal::SIGUSR1);
    }

    /// Executes one instruction, or takes the signal that ends the operation.
    pub fn step(&self) -> Stop {
        ptrace::step(self.thread, None).unwrap();
        match self.wait() {
            Signal::SIGTRAP => Stop::Instruction,
            Signal::SIGUSR1 => Stop::Signal,
            other => panic!("the writer was stopped by {other}"),
        }
    }
}
