//! Starts a program in the place of this process, pinned if asked for. The kernel ends it when the
//! parent ends in whatever way.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getppid};

use crate::Result;
use crate::harness::system;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The CPUs; none is all
    #[arg(long, value_delimiter = ',')]
    cpu: Vec<usize>,
    /// The process that must not be survived
    #[arg(long)]
    parent: i32,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

/// CPUs of a program: one, several, or all.
pub(crate) trait Cpus {
    /// Returns them for `--cpu`; empty for all.
    fn list(&self) -> String;
}

impl Cpus for usize {
    fn list(&self) -> String {
        self.to_string()
    }
}

impl Cpus for () {
    fn list(&self) -> String {
        String::new()
    }
}

impl Cpus for &[usize] {
    fn list(&self) -> String {
        let cpus: Vec<_> = self.iter().map(usize::to_string).collect();
        cpus.join(",")
    }
}

/// A command that starts `command` through [`run`].
pub(crate) fn command(cpus: impl Cpus, command: &[OsString]) -> Result<Command> {
    command_below(std::process::id() as i32, cpus, command)
}

/// The same for a parent that is not this process.
pub(crate) fn command_below(parent: i32, cpus: impl Cpus, command: &[OsString]) -> Result<Command> {
    let mut launcher = Command::new(std::env::current_exe()?);
    launcher.args(["launch", "--parent", &parent.to_string()]);
    match cpus.list() {
        all if all.is_empty() => {}
        some => drop(launcher.args(["--cpu", &some])),
    }
    launcher.arg("--").args(command);
    Ok(launcher)
}

/// Becomes the program; returns only if it cannot.
pub(crate) fn run(options: &Options) -> Result<()> {
    // A process that is stopped, because it is not its turn, would never handle a milder signal.
    set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != Pid::from_raw(options.parent) {
        return Err("the parent has ended before its program began".into());
    }
    // Unblocks the signals that a parent has blocked to handle them itself.
    SigSet::empty().thread_set_mask()?;
    if !options.cpu.is_empty() {
        system::pin_to(&options.cpu)?;
    }
    let (program, arguments) = options.command.split_first().ok_or("no program")?;
    let error = Command::new(program).args(arguments).exec();
    Err(format!("cannot start {}: {error}", program.display()).into())
}
