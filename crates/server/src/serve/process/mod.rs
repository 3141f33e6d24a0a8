//! The process: its user, its files, its place in the background.

mod memory_check;

use std::fs::File;
use std::io;
use std::path::Path;

use micanite_engine::Layout;
use micanite_memory::folder::{Folder, Placed};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Uid, User, daemon, dup2_stderr, dup2_stdin, dup2_stdout, initgroups, setgid, setuid};

pub(super) use memory_check::check as check_memory;
pub use memory_check::memory_limit_bytes;

use super::{EXIT_NO_USER, Failure};
use crate::configuration::Settings;
use crate::limits::{LOCAL_GREETINGS_MAX, REFUSED_MAX};
use crate::telemetry::log::start;

/// Descriptors beside those of connections: listeners, pollers, wakers, files.
const OTHER_FILES: u64 = 64;
/// Descriptors of each interface where GETs are answered: the program, its place, the CPUs that take over.
const FILES_OF_INTERFACE: u64 = 4;

/// Lets the process have a descriptor for each connection, or lowers the number of connections if the system
/// does not allow it. `inherited` descriptors are of maps that the previous program has left.
pub(super) fn raise_file_limit(settings: &mut Settings, inherited: usize) {
    let udp = settings.udp.as_ref().map_or(0, |udp| udp.addresses.len());
    let others = OTHER_FILES
        + REFUSED_MAX as u64
        + (4 + udp as u64) * settings.threads as u64
        + settings.listen.addresses.len() as u64
        + kernel_get_files(settings).max(inherited as u64)
        + local_files(settings);
    let wanted = settings.connections_max as u64 + others;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    if soft >= wanted || setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).is_ok() {
        return;
    }
    let got = wanted.min(hard);
    if setrlimit(Resource::RLIMIT_NOFILE, got, hard).is_err() {
        return;
    }
    let connections = got.saturating_sub(others).max(1);
    if connections < settings.connections_max as u64 {
        start!(
            WARN,
            "only {hard} open files are allowed (ulimit -n): at most {connections} connections instead of {}",
            settings.connections_max
        );
        settings.connections_max = connections as usize;
    }
}

/// Descriptors that `--local` takes: one for each reader, and one for each partition.
fn local_files(settings: &Settings) -> u64 {
    let Some(local) = &settings.local else {
        return 0;
    };
    let partitions = Layout::of(&settings.engine(0)).map_or(0, |layout| layout.partitions);
    (partitions + local.clients_max + LOCAL_GREETINGS_MAX) as u64
}

/// Descriptors that `--kernel-get` takes: each partition lies in a map.
fn kernel_get_files(settings: &Settings) -> u64 {
    let Some(kernel_get) = &settings.kernel_get else {
        return 0;
    };
    // Creating the memory reports wrong sizes.
    let partitions = Layout::of(&settings.engine(0)).map_or(0, |layout| layout.partitions);
    partitions as u64 + FILES_OF_INTERFACE * kernel_get.interfaces.len() as u64
}

/// Locks memory (`-k`) and allows core files (`-r`), as far as the kernel lets it.
pub(super) fn lock_and_core(settings: &Settings) {
    if settings.switches.coredumps
        && let Ok((_, hard)) = getrlimit(Resource::RLIMIT_CORE)
        && let Err(error) = setrlimit(Resource::RLIMIT_CORE, hard, hard)
    {
        start!(WARN, "core files are not allowed (-r): {error}");
    }
    if settings.switches.lock_memory
        && let Err(error) = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE)
    {
        start!(WARN, "memory cannot be locked (-k), see ulimit -l: {error}");
    }
    if !settings.switches.without_effect.is_empty() {
        let letters = settings.switches.without_effect.join(" ");
        start!(DEBUG, "accepted without effect: {letters}");
    }
}

/// Signals that a running server takes, and what each does.
pub const SIGNALS: [(Signal, &str); 5] = [
    (Signal::SIGTERM, ENDS),
    (Signal::SIGINT, ENDS),
    (
        Signal::SIGUSR1,
        "ends gracefully, as `shutdown graceful` does: connections finish what they have begun, for \
         `--drain-seconds` at most",
    ),
    (Signal::SIGUSR2, "restarts in place, as `micanite ctl restart` does"),
    (
        Signal::SIGHUP,
        "reads certificates and passwords again; connections stay as they are. If a file is wrong, the old \
         ones stay, and the log names the problem",
    ),
];
const ENDS: &str = "ends cleanly: exit status 0; the Unix socket and the pid file are removed";

/// Lets signals that ask a running server for something wait until it runs: during a start they
/// would end it. That a file grows beyond `ulimit -f` is told by the error of the write, whatever
/// thread meets it.
pub(super) fn postpone_signals() {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGXFSZ] {
        signals.add(signal);
    }
    // It cannot fail for a set of signals.
    let _ = signals.thread_block();
}

/// Becomes the user that `-u` names, if root has started the server. Returns whether it is now as it
/// was when it started.
pub(super) fn become_user(settings: &Settings) -> Result<bool, Failure> {
    if !Uid::effective().is_root() {
        return Ok(true);
    }
    let Some(name) = &settings.user else {
        start!(INFO, "running as root; -u NAME lets it become another user");
        return Ok(true);
    };
    let user = match User::from_name(name) {
        Ok(Some(user)) => user,
        Ok(None) | Err(_) => {
            let text = format!("cannot find the user '{name}' (-u)");
            return Err(Failure { code: EXIT_NO_USER, text });
        }
    };
    let failure = |error| Failure::system(format!("cannot become the user '{name}' (-u): {error}"));
    let c_name = std::ffi::CString::new(name.as_str()).unwrap_or_default();
    initgroups(&c_name, user.gid).map_err(failure)?;
    setgid(user.gid).map_err(failure)?;
    setuid(user.uid).map_err(failure)?;
    Ok(user.uid.is_root())
}

/// Returns whether frames or threads are opened that do not follow a process into its child: those of
/// ports around the kernel, and of a fabric.
fn leaves_early(settings: &Settings) -> bool {
    settings.bypass().is_some() || settings.fabric.is_some()
}

/// Goes to the background before such ports are opened, where `-d` wants it. The terminal and the directory
/// stay until [`become_daemon`].
pub(super) fn leave_parent(settings: &Settings, is_restart: bool) -> Result<(), Failure> {
    match settings.daemon && leaves_early(settings) && !is_restart {
        true => daemon(true, true).map_err(|error| no_background(&error)),
        false => Ok(()),
    }
}

/// Goes to the background, where `-d` wants it. What is printed afterwards is lost, but for `-v`.
pub(super) fn become_daemon(settings: &Settings, is_restart: bool) -> Result<(), Failure> {
    if !settings.daemon {
        return Ok(());
    }
    let has_left = leaves_early(settings);
    if !is_restart && !has_left {
        return daemon(false, settings.verbosity > 0).map_err(|error| no_background(&error));
    }
    // It is there already, but for the directory, where the options had to be read.
    std::env::set_current_dir("/").map_err(|error| Failure::system(format!("cannot go to /: {error}")))?;
    if has_left && settings.verbosity == 0 {
        leave_terminal().map_err(|error| no_background(&error))?;
    }
    Ok(())
}

fn leave_terminal() -> std::io::Result<()> {
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nowhere)?;
    dup2_stdout(&nowhere)?;
    dup2_stderr(&nowhere)?;
    Ok(())
}

fn no_background(error: &dyn std::fmt::Display) -> Failure {
    Failure::system(format!("cannot go to the background (-d): {error}"))
}

/// The file with the process id; dropping it removes the file.
#[derive(Debug)]
pub(super) struct Pidfile(Placed);

impl Drop for Pidfile {
    fn drop(&mut self) {
        self.0.remove();
    }
}

/// Writes the process id to the file that `-P` names.
pub(super) fn write_pidfile(settings: &Settings) -> Result<Option<Pidfile>, Failure> {
    let Some(path) = &settings.pidfile else {
        return Ok(None);
    };
    let text = format!("{}\n", std::process::id());
    let placed = Folder::of(path).and_then(|(folder, name)| folder.replace(name, text.as_bytes()));
    placed.map(|placed| Some(Pidfile(placed))).map_err(|error| no_pidfile(path, &error))
}

/// Tries whether the file that `-P` names could be written.
pub(super) fn try_pidfile(settings: &Settings) -> Result<(), Failure> {
    let Some(path) = &settings.pidfile else {
        return Ok(());
    };
    let tried = Folder::of(path).and_then(|(folder, name)| folder.try_replace(name));
    tried.map_err(|error| no_pidfile(path, &error))
}

fn no_pidfile(path: &Path, error: &io::Error) -> Failure {
    Failure::system(format!("cannot write the pidfile {} (-P): {error}", path.display()))
}

/// Returns an unpredictable seed.
pub(super) fn random_seed() -> Result<u64, Failure> {
    // By the system call: an empty root has no /dev/urandom.
    getrandom::u64().map_err(|error| Failure::system(format!("the system has no random numbers: {error}")))
}
