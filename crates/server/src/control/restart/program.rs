//! The program itself: its file and its options, to be tried out and executed anew.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use micanite_net::{keep_open, receive_with_descriptors, send_with_descriptors};
use nix::fcntl::OFlag;
use nix::unistd::fchdir;

use super::handover::{HISTORY_VARIABLE, VARIABLE};
use super::trial::VARIABLE as TRIAL_VARIABLE;
use super::{Handover, Heirloom, Trial};
use crate::telemetry::log::{self, error};

/// Variables set by systemd for this program. The next one must not see them.
const LISTEN_VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];
/// Deadline of the trial: longer than a busy machine takes for it.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(60);
const TRIAL_POLL: Duration = Duration::from_millis(2);

/// The program as it was started: its file, which may hold a newer version by now.
#[derive(Debug)]
pub struct Program {
    file: PathBuf,
    arguments: Vec<OsString>,
    /// The directory in which it was started, which may be removed or replaced.
    directory: File,
    /// The file of the last trial that went well.
    tried: Mutex<Option<Tried>>,
}

/// A file that a trial has executed, whatever its path leads to later.
#[derive(Debug)]
struct Tried {
    file: File,
    state: State,
}

/// Device, inode, length and time of the last change of a file.
type State = (u64, u64, u64, i64, i64);

/// Returns a path that leads to a file or directory as long as it is held.
fn path_of(held: &File) -> PathBuf {
    format!("/proc/self/fd/{}", held.as_raw_fd()).into()
}

/// Opens a file or directory so that it stays what it is when its path leads elsewhere.
fn held(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlag::O_PATH.bits()).open(path)
}

fn state(of: &Metadata) -> State {
    (of.dev(), of.ino(), of.len(), of.mtime(), of.mtime_nsec())
}

/// The running program, if nothing newer can be executed.
const RUNNING: &str = "/proc/self/exe";

impl Program {
    /// Returns the program of this process. Call it at start.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn current() -> io::Result<Self> {
        // The program before it gives the path by which it was started, where its file may be a newer one.
        let given = std::env::var_os(VARIABLE).and_then(|_| std::env::args_os().next()).map(PathBuf::from);
        Ok(Self {
            file: given.filter(|path| path.is_absolute()).map_or_else(std::env::current_exe, Ok)?,
            arguments: std::env::args_os().skip(1).collect(),
            directory: held(Path::new("."))?,
            tried: Mutex::default(),
        })
    }

    fn command(&self, file: &Path) -> Command {
        let mut command = Command::new(file);
        command.arg0(&self.file).args(&self.arguments);
        for name in LISTEN_VARIABLES {
            command.env_remove(name);
        }
        command
    }

    /// Checks that the program would start with these options now, and go on with what the server has.
    /// Returns the sockets that it has opened besides.
    pub fn try_out(&self, trial: Trial, maps: &[impl AsFd]) -> Result<Vec<(Heirloom, OwnedFd)>, String> {
        let file = self.file.display();
        let failed = |error: io::Error| format!("cannot execute {file}: {error}");
        let tried = held(&self.file).and_then(|file| Ok(Tried { state: state(&file.metadata()?), file }));
        let tried = tried.map_err(failed)?;
        let (near, far) = UnixStream::pair().map_err(failed)?;
        let mut process = self.start_trial(&tried, (trial, maps), far).map_err(failed)?;
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
            *self.tried.lock().unwrap_or_else(PoisonError::into_inner) = Some(tried);
            return sockets_of(&near).map_err(|error| format!("cannot take the sockets of {file}: {error}"));
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().trim_start_matches("micanite: ");
        Err(format!("{file} would not start: {said}"))
    }

    /// Starts the program for a trial. It gets the maps, and an end of a pair of sockets for its answer.
    fn start_trial(
        &self,
        tried: &Tried,
        (trial, maps): (Trial, &[impl AsFd]),
        answer: UnixStream,
    ) -> io::Result<Child> {
        // The child inherits copies, which end here with this function.
        let copy = |descriptor: BorrowedFd<'_>| {
            let copy = descriptor.try_clone_to_owned()?;
            keep_open(&copy).map(|()| copy)
        };
        let maps: Vec<OwnedFd> = maps.iter().map(|map| copy(map.as_fd())).collect::<io::Result<_>>()?;
        keep_open(&answer)?;
        let numbers = maps.iter().map(AsRawFd::as_raw_fd).collect();
        let trial = Trial { maps: numbers, answer: Some(answer.as_raw_fd()), ..trial };
        self.command(&path_of(&tried.file))
            .arg("--print-config")
            .current_dir(path_of(&self.directory))
            .env(TRIAL_VARIABLE, trial.text())
            .env_remove(VARIABLE)
            .env_remove(HISTORY_VARIABLE)
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Executes in the place of this one what was tried. If it was changed since, it executes the running
    /// program again: the trial tells nothing of another one. Returns only when that fails.
    pub fn execute(&self, handover: &Handover) -> io::Error {
        let tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let leads_to = |state_then| std::fs::metadata(&self.file).is_ok_and(|now| state(&now) == state_then);
        let first = match &*tried {
            Some(tried) if leads_to(tried.state) => self.execute_file(&self.file, handover),
            Some(tried) if tried.file.metadata().is_ok_and(|now| state(&now) == tried.state) => {
                self.execute_file(&path_of(&tried.file), handover)
            }
            _ => io::Error::other("the program was changed after its trial"),
        };
        error!("cannot execute {}: {first}; executing the running program again", self.file.display());
        log::finish();
        self.execute_file(Path::new(RUNNING), handover)
    }

    fn execute_file(&self, file: &Path, handover: &Handover) -> io::Error {
        let process = std::process::id();
        let mut command = self.command(file);
        // Where this fails, the program runs in the present directory.
        let _ = fchdir(&self.directory);
        command.env_remove(TRIAL_VARIABLE).env_remove(HISTORY_VARIABLE).env(VARIABLE, handover.text(process));
        if let Some(text) = handover.history_text(process) {
            command.env(HISTORY_VARIABLE, text);
        }
        command.exec()
    }
}

/// Sockets in one message of a trial.
const ANSWERED_AT_ONCE: usize = 64;

/// Gives the sockets that a trial has opened to the running server, over a socket of the two.
///
/// # Errors
/// The kernel's error.
pub fn answer(socket: impl AsFd, opened: &[(Heirloom, OwnedFd)]) -> io::Result<()> {
    for part in opened.chunks(ANSWERED_AT_ONCE) {
        let names: Vec<_> = part.iter().map(|(kind, _)| kind.name()).collect();
        let descriptors: Vec<_> = part.iter().map(|(_, descriptor)| descriptor).collect();
        send_with_descriptors(&socket, names.join(" ").as_bytes(), &descriptors)?;
    }
    Ok(())
}

/// Receives the sockets that a trial, which has ended, has opened. A message ends where its descriptors do.
fn sockets_of(near: &UnixStream) -> io::Result<Vec<(Heirloom, OwnedFd)>> {
    let mut sockets = Vec::new();
    let mut bytes = [0; ANSWERED_AT_ONCE * 16];
    loop {
        let (count, descriptors) = receive_with_descriptors(near, &mut bytes)?;
        if count == 0 {
            return Ok(sockets);
        }
        let names = String::from_utf8_lossy(&bytes[..count]);
        // The program opens a socket again whose kind this version does not know.
        let kinds = names.split(' ').map(Heirloom::named);
        sockets.extend(kinds.zip(descriptors).filter_map(|(kind, descriptor)| Some((kind?, descriptor))));
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Proves that sockets keep their kinds on the way from a trial, however many they are.
    #[test]
    fn the_running_server_gets_the_sockets_of_a_trial() {
        let bound = |number: usize| {
            let kind = if number.is_multiple_of(3) { Heirloom::Native } else { Heirloom::Udp };
            (kind, OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap()))
        };
        let opened: Vec<_> = (0..2 * ANSWERED_AT_ONCE + 1).map(bound).collect();
        let address = |(kind, socket): &(Heirloom, OwnedFd)| {
            (*kind, UdpSocket::from(socket.try_clone().unwrap()).local_addr().unwrap())
        };
        let (near, far) = UnixStream::pair().unwrap();
        answer(&far, &opened).unwrap();
        drop(far);
        let taken = sockets_of(&near).unwrap();
        assert!(opened.iter().map(address).eq(taken.iter().map(address)));
    }
}
